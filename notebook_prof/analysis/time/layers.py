"""Time and memory of each module of a model, as a tree of module calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...trace import Trace, inherit
from ...trace.arrays import IntArray
from ...trace.intervals import as_ints
from ...trace.schema import Table
from ..memory.blocks import chosen_events
from ..name_labels import module_classes
from ..scope import Numbers, WindowLike, ints, on_device, on_host, recorded_table
from ..source.stack_nodes import placed, with_children


@dataclass(frozen=True, slots=True)
class ModuleTree:
    """Modules in tree order: parents before children, by first run. Index `size` stands for no module."""

    size: int
    names: npt.NDArray[np.object_]
    # Index of the calling module; -1 for roots.
    parent: IntArray
    depth: IntArray
    # Index of the module of each code of ``slices.module``; the last entry is for code -1.
    position_of_code: IntArray

    def positions(self, codes: npt.NDArray[Any]) -> IntArray:
        """Return the index of the module of each of these codes of ``slices.module``."""
        return as_ints(self.position_of_code[codes])

    def with_children(self, own: IntArray) -> IntArray:
        """Return the sum of values over each module and all modules below it; shape (size + 1,)."""
        return with_children(self.parent, self.depth, own)

    def frame(self) -> pd.DataFrame:
        """Return ``module parent depth``, with a last row for no module."""
        names = np.array([*self.names, None], dtype=object)
        above = np.append(np.where(self.parent < 0, self.size, self.parent), self.size)
        return pd.DataFrame(
            {
                "module": pd.Series(names, dtype="str"),
                "parent": pd.Series(names[above], dtype="str"),
                "depth": np.append(self.depth, 0),
            }
        )


def module_tree(trace: Trace) -> ModuleTree:
    """Build the tree: a module's parent is the one being called when the module is first called."""
    # A module without a call (one that only a device slice names, say) is a root.
    slices = trace.slices
    code = slices["module"].cat.codes.to_numpy().astype(np.int64)
    words = np.array(slices["module"].cat.categories, dtype=object)
    called = (slices["category"] == "module").to_numpy() & (code >= 0)
    around = _enclosing_module(ints(slices["parent"]), code, called)
    first = np.full(len(words), len(code), np.int64)  # of each module's calls
    np.minimum.at(first, code[called], np.flatnonzero(called))
    parent = np.where(first < len(code), np.append(around, -1)[np.minimum(first, len(code))], -1)
    used = np.zeros(len(words) + 1, dtype=bool)
    used[code] = True
    return _ordered(words, first, parent, used[:-1])


def _enclosing_module(parent: IntArray, code: IntArray, called: npt.NDArray[np.bool_]) -> IntArray:
    """Return the code of the nearest other module around each module call; -1 if there is none."""
    nearest = inherit(parent, np.where(called, code, -1))
    up = parent.copy()
    around = np.full(len(code), -1, dtype=np.int64)
    todo = np.flatnonzero(called & (up >= 0))
    while len(todo):
        around[todo] = nearest[up[todo]]
        same = around[todo] == code[todo]  # a call inside a call of the same module: look further out
        up[todo[same]] = parent[up[todo[same]]]
        around[todo[same]] = -1
        todo = todo[same]
        todo = todo[up[todo] >= 0]
    return around


def _ordered(
    words: npt.NDArray[np.object_], first: IntArray, parent: IntArray, used: npt.NDArray[np.bool_]
) -> ModuleTree:
    codes = np.flatnonzero(used)
    number = np.full(len(words) + 1, -1)
    number[codes] = np.arange(len(codes))
    # a parent must begin before its child, so that there are no cycles
    up = number[np.where((parent >= 0) & (first[parent] < first), parent, -1)][codes]
    depth, above = np.zeros(len(codes), np.int64), up
    while (above >= 0).any():
        depth, above = depth + (above >= 0), np.append(up, -1)[above]
    size = with_children(up, depth, np.ones(len(codes), np.int64))
    row, _ = placed(up, depth, size, [first[codes]], gap=1)
    position = np.full(len(words) + 1, len(codes))
    position[codes] = row
    order = np.argsort(row)
    return ModuleTree(len(codes), words[codes][order], np.append(row, -1)[up][order], depth[order], position)


_PHASES: Final = ("forward", "backward", "optimizer")
_COLUMNS: Final = Table.of(
    "layers",
    "module:str class:str parent:str depth:int64 calls:int64 forward_ns:int64 backward_ns:int64 "
    "optimizer_ns:int64 host_self_ns:int64 device_forward_ns:int64 device_backward_ns:int64 "
    "device_optimizer_ns:int64 device_self_ns:int64 allocated_bytes:int64 kept_bytes:int64 "
    "parameters:Int64 parameter_bytes:Int64 share:float64",
)


def layers(
    trace: Trace, *, window: WindowLike = None, step: Numbers = None, depth: int | None = None
) -> pd.DataFrame:
    """Return forward, backward and optimizer time, and memory, of each module.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns; times are cut exactly at its edges.
    step : int or iterable of int, optional
        Keep these steps.
    depth : int, optional
        Leave out deeper modules; their time stays in the modules around them.

    Returns
    -------
    DataFrame
        The tree from its roots, each module before its children, by first run; empty if no modules were
        recorded.

        - ``module`` str: path, like ``layers.0.conv``; missing in the last row, for time outside any module,
          so that the ``self`` columns sum to the whole;
        - ``class`` str: its class, like ``Conv2d``; missing if not recorded;
        - ``parent`` str: the module that calls it, missing for roots; ``depth`` int64;
        - ``calls`` int64;
        - ``forward_ns``, ``backward_ns``, ``optimizer_ns`` int64: self times of everything on any thread that
          belongs to the module or its children; ``host_self_ns``: the sum of the three without its children;
        - ``device_forward_ns``, ``device_backward_ns``, ``device_optimizer_ns``, ``device_self_ns`` int64:
          the same of the device work that they launched;
        - ``allocated_bytes`` int64: allocated in its forward; ``kept_bytes`` int64: the part that was not
          freed there, most of it kept for the backward; both include its children;
        - ``parameters``, ``parameter_bytes`` Int64: of the module with its children, missing if not recorded;
          a shared parameter counts once;
        - ``share`` float64: share of the device time of the three phases, or of the host's if there is none.

    Notes
    -----
    A slice belongs to its ``module``: that of the nearest enclosing module call; for backward slices, that of
    their forward slices; for device work, that of its launch. Optimizers step over parameters, not modules,
    so their time has a module only if it was recorded.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> row = dict(category=["module", "module", "operator"], module=["Net", "fc", None], phase="forward")
    >>> _ = b.slices(ts=[0, 1, 2], dur=[10, 6, 3], name=["net", "fc", "mm"], track=b.track("main"), **row)
    >>> columns = ["module", "parent", "depth", "calls", "forward_ns", "host_self_ns"]
    >>> layers(b.seal())[columns].head(2).values.tolist()
    [['Net', nan, 0, 1, 10, 4], ['fc', 'Net', 1, 1, 6, 6]]
    """
    tree = module_tree(trace)
    if not tree.size:
        return _COLUMNS.empty()
    host = on_host(trace, window).where(step=step)
    device = on_device(trace, window).where(step=step)
    table = tree.frame()
    calls = host.codes("module")[host.among("category", ("module",))]
    table["calls"] = np.bincount(tree.positions(calls), minlength=len(table))
    sides = (("", "host", host, host.self_ns), ("device_", "device", device, device.end - device.ts))
    for prefix, side, scope, weights in sides:
        at, masks = tree.positions(scope.codes("module")), [scope.among("phase", (x,)) for x in _PHASES]
        own = [
            np.bincount(at[mask], weights[mask], minlength=tree.size + 1).astype(np.int64) for mask in masks
        ]
        table[f"{side}_self_ns"] = sum(own)
        for phase, spent in zip(_PHASES, own, strict=True):
            table[f"{prefix}{phase}_ns"] = tree.with_children(spent)
    allocated, kept = _memory(trace, tree, window, step)
    table["allocated_bytes"], table["kept_bytes"] = tree.with_children(allocated), tree.with_children(kept)
    table = table.assign(**_parameters(trace, tree))
    table["class"] = table["module"].map(module_classes(trace)).astype("str")
    prefix, side, *_ = sides[int(table["device_self_ns"].any())]
    total = table[[f"{prefix}{phase}_ns" for phase in _PHASES]].sum(axis=1)
    table["share"] = total / max(int(table[f"{side}_self_ns"].sum()), 1)
    if depth is not None:
        table = table[(table["depth"] <= depth).to_numpy() | table["module"].isna().to_numpy()]
    return _COLUMNS.frame(dict(table[_COLUMNS.names].reset_index(drop=True)))


def _parameters(trace: Trace, tree: ModuleTree) -> dict[str, Any]:
    """Return each module's parameters including its children's; missing if none of them were counted."""
    table = recorded_table(trace, "modules")
    columns: dict[str, Any] = {}
    position_of = {str(name): number for number, name in enumerate(tree.names)}
    for column in ("parameters", "parameter_bytes"):
        own, counted = np.zeros(tree.size + 1, np.int64), np.zeros(tree.size + 1, np.int64)
        if table is not None:
            for name, count in zip(table["module"], table[column], strict=True):
                if (at := position_of.get(str(name))) is not None:
                    own[at], counted[at] = int(count), 1
        missing = tree.with_children(counted) == 0
        columns[column] = pd.arrays.IntegerArray(tree.with_children(own), missing)
    return columns


def _memory(trace: Trace, tree: ModuleTree, window: WindowLike, step: Numbers) -> tuple[IntArray, IntArray]:
    """Return the bytes allocated and kept in the forward of each module, without its children."""
    events, row = trace.allocations, ints(trace.allocations["slice"])
    keep = chosen_events(trace, window, step, "forward")
    positions = tree.positions(trace.slices["module"].cat.codes.to_numpy()[row[keep]])
    size = events["bytes"].to_numpy()[keep]
    allocated = np.bincount(positions, np.maximum(size, 0), minlength=tree.size + 1)
    return allocated.astype(np.int64), np.bincount(positions, size, minlength=tree.size + 1).astype(np.int64)
