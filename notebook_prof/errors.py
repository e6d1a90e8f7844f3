"""Every exception that notebook_prof raises.

::

    NotebookProfError
    ├── FormatError            a file is not in the format that was asked for
    ├── SelectionError         no such dimension, or a value that cannot be selected
    ├── OptionError            an argument or option that cannot be understood
    │   └── ExtraNotInstalledError   an optional library is missing
    ├── ExpectationError       a run does not hold what was expected of it
    ├── HistoryError           the history cannot be written or read
    └── RecordingError         recording cannot start, stop or be used
        ├── AlreadyRecordingError    one recording a process
        └── NotRecordedError         there is no result yet

Messages say what was asked, what was found and what to do.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, Final

LONGEST: Final = 200
_SHORT: Final = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother, _SHORT.maxlong = 3, 120, 120, 40
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = _SHORT.maxset = 5


class NotebookProfError(Exception):
    """Base of everything that notebook_prof raises on purpose."""


class FormatError(NotebookProfError, ValueError):
    """The bytes are not what the chosen reader reads."""


class WriteError(NotebookProfError, OSError):
    """A file could not be written; what was there before is unchanged."""


class SelectionError(NotebookProfError, ValueError):
    """A selection names a dimension or a value that does not exist."""


class OptionError(NotebookProfError, ValueError):
    """An argument or an option of a magic cannot be understood."""


class ExtraNotInstalledError(OptionError, ImportError):
    """An optional library is needed and missing; the message says how to install it."""


class HistoryError(NotebookProfError, OSError):
    """The history cannot be written or read, or is switched off."""


class ExpectationError(NotebookProfError, AssertionError):
    """A run does not hold what was expected of it, or cannot tell."""


class RecordingError(NotebookProfError, RuntimeError):
    """A recording cannot be started, stopped or used."""


class AlreadyRecordingError(RecordingError):
    """A second recording was asked for while one is running in this process."""


class NotRecordedError(RecordingError):
    """A result was asked for before the recording ended."""


def nearest(word: str, candidates: Iterable[str]) -> str:
    """End a sentence about an unknown name with the names that were probably meant.

    Parameters
    ----------
    word : str
        What the user wrote.
    candidates : iterable of str
        What exists.

    Returns
    -------
    str
        ``"did you mean 'steps'?"``, or the list of all known names if none is near.

    Examples
    --------
    >>> nearest("stpes", ["steps", "phases"])
    "did you mean 'steps'?"
    """
    names = list(candidates)
    if close := get_close_matches(word, names, n=2, cutoff=0.6):
        return "did you mean " + " or ".join(repr(name) for name in close) + "?"
    return "choose from " + ", ".join(names)


def bounded_repr(value: Any) -> str:
    """Return how messages show a value: at most three levels, five items of each and `LONGEST` characters.

    Examples
    --------
    >>> nested = []
    >>> for _ in range(60):
    ...     nested = [nested, nested]  # written out it would have 2**60 brackets
    >>> bounded_repr(nested)
    '[[[[...], [...]], [[...], [...]]], [[[...], [...]], [[...], [...]]]]'
    >>> len(bounded_repr("x" * 10**6))
    120
    """
    text = _SHORT.repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
