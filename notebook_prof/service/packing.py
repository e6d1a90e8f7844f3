"""Answers: a small JSON part and columns as raw bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..selection import Selection

# Changes of the selection made by a click in a view.


def plain_patch(patch: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a patch as the page's store holds it: lists of plain values, None for a clause to remove.

    >>> plain_patch({"step": 4, "name": None, "focus": 7})
    {'step': [4], 'name': None, 'focus': 7}
    """
    if patch is None:
        return None
    clauses = {key: value for key, value in patch.items() if key != "focus"}
    state = Selection(**clauses).to_state()
    out = {key: state[key] for key in clauses}
    if "focus" in patch:
        out["focus"] = None if patch["focus"] is None else int(patch["focus"])
    return out


@dataclass(slots=True)
class Answer:
    """JSON with ``[name, dtype]`` of each little-endian buffer in ``columns``, and the buffers."""

    content: dict[str, Any]
    buffers: list[bytes] = field(default_factory=list)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns as NumPy arrays by name, as a page reads them."""
        named = zip(self.content["columns"], self.buffers, strict=True)
        return {name: np.frombuffer(part, np.dtype("<" + kind)) for (name, kind), part in named}


def pack(content: Mapping[str, Any], columns: Mapping[str, npt.NDArray[Any]]) -> Answer:
    """Make an Answer from columns; their dtypes are sent along."""
    ready = {name: np.ascontiguousarray(values) for name, values in columns.items()}
    spec = [[name, values.dtype.str[1:]] for name, values in ready.items()]
    return Answer(
        {**content, "columns": spec},
        [values.astype(values.dtype.newbyteorder("<")).tobytes() for values in ready.values()],
    )
