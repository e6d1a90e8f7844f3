"""Time and memory of each module of a model, as a tree of module calls."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...trace import Trace, inherit
from ...trace.arrays import IntArray
from ...trace.schema import Table
from ..grouping import sums
from ..memory.blocks import chosen_events
from ..name_labels import module_classes
from ..scope import Numbers, WindowLike, ints, on_device, on_host, recorded_table
from ..source.stack_nodes import placed, with_children


class _Modules(NamedTuple):
    """Modules in tree order: parents before children, by first run."""

    names: npt.NDArray[np.object_]
    # Index of the calling module; -1 for roots.
    parent: IntArray
    depth: IntArray
    # Index of the module of each code of ``slices.module``; the number of modules stands for no module.
    of_code: IntArray

    def sums(self, codes: IntArray, weights: npt.NDArray[Any] | None = None) -> IntArray:
        """Sum weights (default: 1) by module, excluding children; the last sum is for rows without one."""
        return sums(self.of_code[codes], weights, len(self.names) + 1)

    def with_children(self, own: IntArray) -> IntArray:
        return with_children(self.parent, self.depth, own)


def _modules(trace: Trace) -> _Modules:
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
    used = np.unique(code[code >= 0])
    number = np.full(len(words) + 1, -1)
    number[used] = np.arange(len(used))
    # a parent must begin before its child, so that there are no cycles
    up = number[np.where((parent >= 0) & (first[parent] < first), parent, -1)][used]
    depth, above = np.zeros(len(used), np.int64), up
    while (above >= 0).any():
        depth, above = depth + (above >= 0), np.append(up, -1)[above]
    size = with_children(up, depth, np.ones(len(used), np.int64))
    row, _ = placed(up, depth, size, [first[used]], gap=1)
    of_code = np.full(len(words) + 1, len(used))
    of_code[used] = row
    order = np.argsort(row)
    return _Modules(words[used][order], np.append(row, -1)[up][order], depth[order], of_code)


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
    A slice belongs to the nearest enclosing module call; backward slices to the module of their forward
    slices; device work to that of its launch. Optimizers step over parameters, not modules.

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
    tree = _modules(trace)
    if not len(tree.names):
        return _COLUMNS.empty()
    host = on_host(trace, window).where(step=step)
    device = on_device(trace, window).where(step=step)
    names = np.array([*tree.names, None], dtype=object)
    table = pd.DataFrame(
        {
            "module": pd.Series(names, dtype="str"),
            "parent": pd.Series(names[np.append(tree.parent, -1)], dtype="str"),
            "depth": np.append(tree.depth, 0),
            "calls": tree.sums(host.codes("module")[host.among("category", ("module",))]),
        }
    )
    sides = (("", "host", host, host.self_ns), ("device_", "device", device, device.end - device.ts))
    for prefix, side, scope, weights in sides:
        codes, masks = scope.codes("module"), [scope.among("phase", (phase,)) for phase in _PHASES]
        own = [tree.sums(codes[mask], weights[mask]) for mask in masks]
        table[f"{side}_self_ns"] = sum(own)
        for phase, spent in zip(_PHASES, own, strict=True):
            table[f"{prefix}{phase}_ns"] = tree.with_children(spent)
    events, row = trace.allocations, ints(trace.allocations["slice"])
    keep = chosen_events(trace, window, step, "forward")
    codes, size = trace.slices["module"].cat.codes.to_numpy()[row[keep]], events["bytes"].to_numpy()[keep]
    for column, kept in (("allocated_bytes", np.maximum(size, 0)), ("kept_bytes", size)):
        table[column] = tree.with_children(tree.sums(codes, kept))
    counted = recorded_table(trace, "modules")
    for column in ("parameters", "parameter_bytes"):
        count = pd.Series(dtype="Int64") if counted is None else counted.set_index("module")[column]
        count = count[~count.index.duplicated(keep="last")].reindex(tree.names)
        known = tree.with_children(np.append(count.notna(), False).astype(np.int64)) > 0
        whole = tree.with_children(np.append(count.fillna(0), 0).astype(np.int64))
        table[column] = pd.arrays.IntegerArray(whole, ~known)
    table["class"] = table["module"].map(module_classes(trace)).astype("str")
    prefix, side, *_ = sides[int(table["device_self_ns"].any())]
    total = table[[f"{prefix}{phase}_ns" for phase in _PHASES]].sum(axis=1)
    table["share"] = total / max(int(table[f"{side}_self_ns"].sum()), 1)
    if depth is not None:
        table = table[(table["depth"] <= depth).to_numpy() | table["module"].isna().to_numpy()]
    return _COLUMNS.frame(dict(table[_COLUMNS.names].reset_index(drop=True)))
