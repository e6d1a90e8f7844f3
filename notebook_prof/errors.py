"""Every exception that notebook_prof raises.

::

    NotebookProfError
    ├── FormatError            a file is not in the requested format
    ├── SelectionError         an unknown dimension, or a value that cannot be selected
    ├── OptionError            an invalid argument or option
    │   └── ExtraNotInstalledError   an optional library is missing
    ├── ExpectationError       a run does not meet an expectation
    ├── HistoryError           the history cannot be written or read
    └── RecordingError         recording cannot start, stop or be used
        ├── AlreadyRecordingError    this process is already recording
        └── NotRecordedError         there is no result yet

Messages say what was requested, what was found and what to do.
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
    """Base of every error that notebook_prof raises on purpose."""


class FormatError(NotebookProfError, ValueError):
    """The content is not in the format of the chosen reader."""


class WriteError(NotebookProfError, OSError):
    """A file could not be written; an existing file is unchanged."""


class SelectionError(NotebookProfError, ValueError):
    """A selection names an unknown dimension or a value that does not exist."""


class OptionError(NotebookProfError, ValueError):
    """An argument, or an option of a magic, is invalid."""


class ExtraNotInstalledError(OptionError, ImportError):
    """An optional library is needed and missing; the message says how to install it."""


class HistoryError(NotebookProfError, OSError):
    """The history cannot be written or read, or is switched off."""


class ExpectationError(NotebookProfError, AssertionError):
    """A run does not meet an expectation, or cannot decide it."""


class RecordingError(NotebookProfError, RuntimeError):
    """A recording cannot be started, stopped or used."""


class AlreadyRecordingError(RecordingError):
    """A second recording was started while one is running in this process."""


class NotRecordedError(RecordingError):
    """A result was requested before the recording ended."""


def nearest(word: str, candidates: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: "did you mean 'steps'?", or a list of all names."""
    names = list(candidates)
    if close := get_close_matches(word, names, n=2, cutoff=0.6):
        return "did you mean " + " or ".join(repr(name) for name in close) + "?"
    return "choose from " + ", ".join(names)


def check_option(what: str, value: str, allowed: Iterable[str]) -> None:
    """Raise OptionError unless the value is allowed; `what` begins the message and ends before the value."""
    if value not in allowed:
        raise OptionError(f"{what} {value!r}: {nearest(str(value), allowed)}")


def checked_columns(what: str, by: str | Iterable[str], allowed: Iterable[str]) -> list[str]:
    """Return one column or several as a list; OptionError, as in `check_option`, if one is not allowed."""
    columns = [by] if isinstance(by, str) else list(by)
    for column in columns:
        check_option(what, column, allowed)
    return columns


def bounded_repr(value: Any) -> str:
    """Return a value's text for messages: three levels, five items each and `LONGEST` characters at most."""
    text = _SHORT.repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
