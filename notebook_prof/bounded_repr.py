"""Values of files as messages show them: never longer than a line, whatever they hold."""

from __future__ import annotations

import reprlib
from typing import Any, Final

LONGEST: Final = 200
_SHORT: Final = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother, _SHORT.maxlong = 3, 120, 120, 40
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = _SHORT.maxset = 5


def bounded_repr(value: Any) -> str:
    """Give a value's repr, cut: at three levels, five items of each, and `LONGEST` characters.

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
