"""Changes of the selection made by a click in a view."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..selection import Selection


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


def patch_text(patch: Mapping[str, Any] | None) -> str:
    """Return a patch as text for the ``select`` column of a figure's source; empty for None."""
    return "" if patch is None else json.dumps(plain_patch(patch))
