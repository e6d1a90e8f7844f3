"""The table of the heap from what memray tells: blocks by the line and the function that allocated them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from ...trace.arrays import IntArray

_LIBRARY: Final = re.compile(
    r"(?:site|dist)-packages[\\/]|[\\/]lib(?:64)?[\\/]python\d[\d.]*[\\/]|^<frozen |"
    r"[\\/]memray[\\/]commands[\\/]|\.(?:c|cc|cpp|cxx|h|hpp|pyx|rs)$|^<unknown>$"
)
"""Files that are not the user's own; also those of C, which a table of ``memray run --native`` has."""
_IMPORTING: Final = "<frozen importlib"
NUMBERS: Final = ("bytes", "count", "kept_bytes", "kept_count")
INSTEAD: Final = (
    "memray transform csv FILE makes a table of its blocks, which opens here; "
    "memray flamegraph FILE makes a page"
)


class StackFrame(NamedTuple):
    """A frame of a Python stack; its line is a text where it comes from one."""

    function: str
    file: str
    line: int | str


def heap_table(
    stacks: Sequence[Sequence[StackFrame]], code: IntArray, numbers: dict[str, IntArray]
) -> pd.DataFrame:
    """Return one row a line of the user's code and function that allocated for it.

    Parameters
    ----------
    stacks : sequence of sequence of StackFrame
        Innermost frame first.
    code : ndarray of int64, shape (n,)
        The stack of each row of `numbers`.
    numbers : dict of ndarray of int64, shape (n,)
        Of ``bytes count kept_bytes kept_count``, those that are there; the others are 0.

    Returns
    -------
    DataFrame
        ``line text allocated_by bytes count kept_bytes kept_count``, in the order in which they come.
    """
    keys = [_keys(stack) for stack in stacks]
    names = pd.DataFrame(keys, columns=["line", "allocated_by"]).iloc[code].reset_index(drop=True)
    zeros = np.zeros(len(code), np.int64)
    table = pd.DataFrame(
        {
            "line": names["line"],
            "text": "",
            "allocated_by": names["allocated_by"],
            **{name: numbers.get(name, zeros) for name in NUMBERS},
        }
    )
    return table.groupby(["line", "text", "allocated_by"], sort=False).sum().reset_index()


def _keys(stack: Sequence[StackFrame]) -> tuple[str, str]:
    """Return the innermost line of the user's code, and the function that allocated.

    Examples
    --------
    >>> dumps = StackFrame("dumps", "/usr/lib/python3.11/json/__init__.py", 231)
    >>> _keys([dumps, StackFrame("step", "/home/me/train.py", 9)])
    ('train.py:9', 'dumps (__init__.py)')
    """
    if not stack:
        return "", ""
    own = next((frame for frame in stack if not _is_library(frame.file)), None)
    line = f"{_short(own.file)}:{own.line}" if own is not None else ""
    if any(frame.file.startswith(_IMPORTING) for frame in stack):
        return line, "import"
    return line, f"{stack[0].function} ({_short(stack[0].file)})"


@lru_cache(maxsize=4096)
def _is_library(file: str) -> bool:
    return _LIBRARY.search(file) is not None


def _short(file: str) -> str:
    return file.replace("\\", "/").rpartition("/")[2]
