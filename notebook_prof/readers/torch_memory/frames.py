"""Stacks of a snapshot: interned, and the frame that says where a block came from."""

from __future__ import annotations

import os
from typing import Any, Final

from ...trace.builder import TraceBuilder

_LIBRARY: Final = ("/torch/", "\\torch\\", "/site-packages/", "\\site-packages\\", "<frozen ")
_MOST: Final = 1000


class Stacks:
    """Interns the stacks of a snapshot.

    Parameters
    ----------
    builder : TraceBuilder

    Notes
    -----
    A snapshot repeats the same list object for the same stack, so a list is looked at once.
    """

    def __init__(self, builder: TraceBuilder) -> None:
        self._builder = builder
        self._seen: dict[int, tuple[int, str]] = {}

    def of(self, frames: Any) -> tuple[int, str]:
        """Key of a stack, and the label of its most telling frame; -1 and empty without frames."""
        if not isinstance(frames, list) or not frames:
            return -1, ""
        known = self._seen.get(id(frames))
        if known is None:
            usable = [_frame(frame) for frame in frames[:_MOST] if isinstance(frame, dict)]
            known = self._builder.stack(usable[::-1]), _label(usable)
            self._seen[id(frames)] = known
        return known


def _frame(frame: dict[Any, Any]) -> tuple[str, str, int]:
    line = frame.get("line")
    return (
        str(frame.get("name", "")),
        str(frame.get("filename", "")),
        line if isinstance(line, int) and 0 <= line < 2**31 else -1,
    )


def _label(frames: list[tuple[str, str, int]]) -> str:
    """The innermost frame of the user's Python code, else of any Python code, else of anything."""
    python = [frame for frame in frames if frame[1].endswith(".py") or frame[1].startswith("<ipython")]
    own = [frame for frame in python if not any(part in frame[1] for part in _LIBRARY)]
    for choice in (own, python, frames):
        if choice:
            name, file, line = choice[0]
            place = os.path.basename(file.replace("\\", "/"))
            return f"{name} ({place}:{line})" if place and line >= 0 else name
    return ""
