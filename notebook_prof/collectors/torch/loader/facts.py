"""The settings of DataLoaders."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any, Final

from ....trace.builder import TraceBuilder

_WRAPPED: Final = 8
_MOST: Final = 1000


class LoaderFacts:
    """Collects settings of DataLoaders as numbers and names, without calling or keeping user objects."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def note(self, loader: Any) -> int:
        """Count another iterator of a loader. Returns the row of its settings; -1 if there are too many."""
        row = _facts(loader)
        for number, earlier in enumerate(self.rows):
            if {**earlier, "iterators": 0} == {**row, "iterators": 0}:
                earlier["iterators"] += 1
                return number
        if len(self.rows) >= _MOST:
            return -1
        self.rows.append(row)
        return len(self.rows) - 1

    def put(self, builder: TraceBuilder) -> None:
        """Fill ``metadata["loaders"]``: see `notebook_prof.analysis.loaders`."""
        if self.rows:
            builder.metadata["loaders"] = self.rows


def _facts(loader: Any) -> dict[str, Any]:
    dataset = _innermost(vars(loader).get("dataset"))
    kind = type(dataset)
    method = "__iter__" if _defined(kind, "__getitem__") is None else "__getitem__"
    code = getattr(inspect.unwrap(made), "__code__", None) if (made := _defined(kind, method)) else None
    batch_size = vars(loader).get("batch_size")
    sampler = getattr(loader, "batch_sampler", None)
    if batch_size is None and sampler is not None:
        batch_size = getattr(sampler, "batch_size", None)
    return {
        "dataset": kind.__qualname__,
        "method": method,
        "file": code.co_filename if code is not None else "",
        "line": int(code.co_firstlineno) if code is not None else -1,
        "in_memory": kind.__name__ == "TensorDataset",
        "batched": _defined(kind, "__getitems__") is not None or sampler is None,
        "batch_size": int(batch_size) if isinstance(batch_size, int) else 0,
        "num_workers": int(loader.num_workers),
        "prefetch_factor": int(loader.prefetch_factor or 0),
        "pin_memory": bool(loader.pin_memory),
        "persistent_workers": bool(loader.persistent_workers),
        "iterators": 1,
    }


def _innermost(dataset: Any) -> Any:
    """Return the dataset under a Subset (or a Subset of a Subset)."""
    for _ in range(_WRAPPED):
        inner = (
            getattr(dataset, "__dict__", {}).get("dataset") if type(dataset).__name__ == "Subset" else None
        )
        if inner is None:
            break
        dataset = inner
    return dataset


def _defined(kind: type, name: str) -> FunctionType | None:
    """Return a method that is written in Python, without running the object's code."""
    for base in kind.__mro__:
        if name in vars(base):
            made = vars(base)[name]
            return made if isinstance(made, FunctionType) and base.__name__ != "Dataset" else None
    return None
