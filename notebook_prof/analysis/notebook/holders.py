"""The cells that made the memory of a name, and that used the name last."""

from __future__ import annotations

import re
from typing import Any, Final

import pandas as pd

from ...trace import Trace
from .path import last_uses
from .recorded import CELL_BUFFERS, cell_runs

_ROOT: Final = re.compile(r"[^\W\d]\w*")


def with_cells(trace: Trace, names: pd.DataFrame) -> pd.DataFrame:
    """Add the columns ``made_in used_in`` to names of memory: ``In[4]``, or missing."""
    runs = cell_runs(trace)
    number = dict(zip(runs["run"].tolist(), runs["number"].tolist(), strict=True))
    made, used = last_uses(trace)
    by_name = _runs_of_buffers(trace)
    made_in, used_in = [], []
    for name, device in zip(names["name"].tolist(), names["device"].tolist(), strict=True):
        root = _ROOT.match(name)[0] if isinstance(name, str) and _ROOT.match(name) else ""  # type: ignore[index]
        run = by_name.get((name, device))
        made_in.append(_shown(number.get(run) if run is not None else made.get(root)))
        used_in.append(_shown(used.get(root)))
    return names.assign(
        made_in=pd.Series(made_in, dtype="object"), used_in=pd.Series(used_in, dtype="object")
    )


def _shown(number: int | None) -> str | None:
    return None if number is None else f"In[{number}]"


def _runs_of_buffers(trace: Trace) -> dict[tuple[Any, ...], int]:
    """Return the run after which the largest buffer of each name was first seen."""
    tables = trace.metadata.get("tables") or {}
    made, buffers = tables.get(CELL_BUFFERS), tables.get("memory_names")
    if made is None or buffers is None:
        return {}
    both = buffers.merge(made, on=["device", "address", "bytes"])
    both = both[both["run"] >= 0].sort_values("bytes").drop_duplicates(["name", "device"], keep="last")
    keys = zip(both["name"].tolist(), both["device"].tolist(), strict=True)
    return dict(zip(keys, both["run"].tolist(), strict=True))
