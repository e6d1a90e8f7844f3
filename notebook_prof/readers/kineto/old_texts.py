"""Call stacks and module paths as torch wrote them until 2023: text on every operator."""

from __future__ import annotations

import re
from typing import Final

_LINE: Final = re.compile(r"\((\d{1,9})\): ")
_LEVEL: Final = re.compile(r"(?:^|\.)([^.():]+)\([^()]*\)::[^.()]+")
_NO_LEVEL: Final = frozenset({"top", "self"})


def stack_frames(text: str) -> list[tuple[str, str, int]]:
    """Frames (function, file, line), root first, of torch's ``Call stack``, which names the leaf first.

    Examples
    --------
    >>> stack_frames("nn/linear.py(7): forward;train.py(3): main")
    [('main', 'train.py', 3), ('forward', 'nn/linear.py', 7)]
    """
    frames = []
    for part in reversed(text.split(";")):
        told = part.strip()
        if match := _LINE.search(told):
            frames.append((told[match.end() :], told[: match.start()], int(match[1])))
        elif told:
            frames.append((told, "", -1))
    return frames


def module_path(text: str) -> str:
    """Dotted path of torch's ``Module Hierarchy``; empty at the top.

    Examples
    --------
    >>> module_path("TOP(Net)::forward.conv1(Conv2d)::forward.aten::conv2d")
    'conv1'
    """
    return ".".join(name for name in _LEVEL.findall(text) if name.lower() not in _NO_LEVEL)
