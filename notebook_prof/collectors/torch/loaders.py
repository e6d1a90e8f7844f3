"""Which DataLoaders were used while a recording ran, and how they were made."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final

from ...trace.builder import TraceBuilder

_DATALOADER: Final = "torch.utils.data.dataloader"
_WRAPPED: Final = 8
_MOST: Final = 1000


class LoaderFacts:
    """Notes the settings of every DataLoader of which an iterator is made between `watch` and `unwatch`.

    Nothing of the user's is called and nothing is kept but numbers and names. Afterwards the class of
    iterators is as it was.

    Examples
    --------
    >>> facts = LoaderFacts()
    >>> facts.watch()
    >>> facts.unwatch()
    >>> facts.rows
    []
    """

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._restore: Callable[[], None] | None = None

    def watch(self) -> None:
        """Begin, if torch's DataLoader is imported."""
        module = sys.modules.get(_DATALOADER)
        iterator = getattr(module, "_BaseDataLoaderIter", None)
        if self._restore is not None or iterator is None:
            return
        original = iterator.__init__
        rows = self.rows

        def init(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
            original(self, loader, *args, **kwargs)
            try:
                _note(rows, loader)
            except Exception as error:  # the user's loop comes first
                rows.append({"problem": f"{type(error).__name__}: {error}"})

        def restore() -> None:
            if iterator.__init__ is init:
                iterator.__init__ = original

        iterator.__init__ = init
        self._restore = restore

    def unwatch(self) -> None:
        """End; a second call does nothing."""
        restore, self._restore = self._restore, None
        if restore is not None:
            restore()

    def put(self, builder: TraceBuilder) -> None:
        """Fill ``metadata["loaders"]``: see `notebook_prof.analysis.loaders`."""
        readable = [row for row in self.rows if "problem" not in row]
        if readable:
            builder.metadata["loaders"] = readable
        for row in self.rows:
            if "problem" in row:
                builder.report.add("loader-unread", "info", example=row["problem"])


def _note(rows: list[dict[str, Any]], loader: Any) -> None:
    row = _facts(loader)
    for earlier in rows:
        if {**earlier, "iterators": 0} == {**row, "iterators": 0}:
            earlier["iterators"] += 1
            return
    if len(rows) < _MOST:
        rows.append(row)


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
    """Return what a Subset (or a Subset of a Subset) takes its items from."""
    for _ in range(_WRAPPED):
        inner = (
            getattr(dataset, "__dict__", {}).get("dataset") if type(dataset).__name__ == "Subset" else None
        )
        if inner is None:
            break
        dataset = inner
    return dataset


def _defined(kind: type, name: str) -> FunctionType | None:
    """Return a method written in Python, found without asking the object."""
    for base in kind.__mro__:
        if name in vars(base):
            made = vars(base)[name]
            return made if isinstance(made, FunctionType) and base.__name__ != "Dataset" else None
    return None
