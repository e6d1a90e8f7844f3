"""Input shapes and call stacks of Paddle's operators."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

_FRAME: Final = re.compile(r"File ['\"]([^'\"\n]*)['\"], line (\d+), in ([^\n\\]+)")


class Inputs(NamedTuple):
    """Shapes and variable kinds of an operator's inputs, by argument."""

    shapes: Mapping[str, Any]
    dtypes: Mapping[str, Any]


def shapes_text(shapes: Mapping[str, Any]) -> str:
    """Return the shapes of all arguments as one list, as `slices.shapes` holds them.

    Examples
    --------
    >>> shapes_text({"Input": [[8, 3]], "Filter": [[16, 3], []]})
    '[[8, 3], [16, 3], []]'
    """
    flat: list[Any] = []
    for value in shapes.values():
        flat += value if isinstance(value, list) else [value]
    return repr(flat)


def frames(callstack: str) -> list[tuple[str, str, int]]:
    """Return a recorded Python call stack as (function, file, line), root first.

    Examples
    --------
    >>> frames("File 'a.py', line 3, in main\\\\n  f()\\\\nFile 'b.py', line 7, in f")
    [('main', 'a.py', 3), ('f', 'b.py', 7)]
    """
    return [(name.strip(), file, min(int(line), 2**31 - 1)) for file, line, name in _FRAME.findall(callstack)]
