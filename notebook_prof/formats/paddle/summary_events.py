"""A trace as Paddle's summary sees it: trees of typed events, and statistics of groups of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...analysis.scope import ints, of_kind, recorded_table
from ...errors import OptionError, nearest
from ...trace import Trace
from ...trace.arrays import BoolArray, IntArray
from ...trace.intervals import as_ints
from ...trace.nesting import inherit
from .columns import DEVICE_TYPES, RUNTIME_TYPES

SORTED_KEYS: Final = ("CPUTotal", "CPUAvg", "CPUMax", "CPUMin", "GPUTotal", "GPUAvg", "GPUMax", "GPUMin")
"""Paddle's ``SortedKeys``. All sort from largest to smallest, except the two minima."""

STATISTICS: Final = ("total_ns", "avg_ns", "max_ns", "min_ns")


def spread(keys: npt.NDArray[Any], cpu: IntArray, gpu: IntArray) -> pd.DataFrame:
    """Return the calls, totals, averages, maxima and minima of each key, in the order of first appearance."""
    code, names = pd.factorize(keys)
    table = pd.DataFrame({"name": names, "calls": np.bincount(code, minlength=len(names))})
    for side, values in (("cpu", cpu), ("gpu", gpu)):
        groups = pd.Series(values).groupby(code, sort=False)
        statistics = groups.agg(["sum", "mean", "max", "min"]).reindex(range(len(names)))
        table[[f"{side}_{word}" for word in STATISTICS]] = statistics.to_numpy()
        whole = [f"{side}_{word}" for word in STATISTICS if word != "avg_ns"]
        table = table.astype(dict.fromkeys(whole, "int64"))
    return table


def ratios(table: pd.DataFrame, cpu_whole: float, gpu_whole: float) -> pd.DataFrame:
    """Add ``cpu_ratio`` and ``gpu_ratio``: shares of the wholes, 0 where a whole is 0."""
    for side, whole in (("cpu", cpu_whole), ("gpu", gpu_whole)):
        table[f"{side}_ratio"] = table[f"{side}_total_ns"] / whole if whole else 0.0
    return table


def sort_key(sorted_by: str) -> tuple[str, bool]:
    """Return the column of a sort key, and whether it sorts in ascending order."""
    word = getattr(sorted_by, "name", sorted_by)  # members of Paddle's own enum have names
    if word not in SORTED_KEYS:
        raise OptionError(f"there is no sort key {word!r}: {nearest(str(word), SORTED_KEYS)}")
    return f"{word[:3].lower()}_{word[3:].lower()}_ns", word.endswith("Min")


def ranked(table: pd.DataFrame, sorted_by: str) -> pd.DataFrame:
    """Return the table sorted by a key. Ties keep their order."""
    column, ascending = sort_key(sorted_by)
    return table.sort_values(column, ascending=ascending, kind="stable", ignore_index=True)


PHASES: Final = ("Dataloader", "Forward", "Backward", "Optimization")
STEP: Final = "ProfileStep"
_HOST_TYPES: Final = {
    "operator": "Operator",
    "launch": "CudaRuntime",
    "sync": "CudaRuntime",
    "collective": "Communication",
    "python": "PythonOp",
    "annotation": "PythonUserDefined",
    "module": "Module",
}
_DEVICE_TYPES: Final = {"kernel": "Kernel", "collective": "Kernel", "memcpy": "Memcpy", "memset": "Memset"}


class TypedEvents:
    """A trace with Paddle's event types: its own or, in other traces, those that follow from categories."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._recorded = recorded_table(trace, "event_types")
        self.own_types = self._recorded is not None
        self.names: npt.NDArray[np.object_] = trace.slices["name"].astype("object").to_numpy()
        self.ts, self.dur = (as_ints(trace.slices[name].to_numpy()) for name in ("ts", "dur"))
        self.parent = ints(trace.slices["parent"])
        # the time of all steps, to which ratios refer; without steps, that of the whole trace
        self.total_ns = int(trace.steps["dur"].sum()) or int(trace.span.dur)

    @cached_property
    def type(self) -> npt.NDArray[np.object_]:
        """Paddle's type of each slice; empty for slices without one."""
        code, words = self._typed
        return np.asarray(np.array(words, dtype=object)[code])

    @cached_property
    def _typed(self) -> tuple[IntArray, list[str]]:
        """The code of each slice's type, and the types."""
        category = self.trace.slices["category"].astype(str)
        words = category.map(_HOST_TYPES).fillna("")
        if self._recorded is not None:
            table = self._recorded.astype({"name": str, "category": str})
            recorded = table.groupby(["name", "category"])[["type"]].last()
            keys = pd.MultiIndex.from_arrays([self.names.astype(str), category])
            own = pd.Series(recorded["type"].reindex(keys).to_numpy(), index=words.index)
            words = own.where(own.notna(), words)
        else:
            on_device = of_kind(self.trace, ("stream",))
            words = words.where(~on_device, category.map(_DEVICE_TYPES).fillna(""))
        code, distinct = pd.factorize(np.array([*words, ""], dtype=object))
        return code[:-1].astype(np.int64), [str(word) for word in distinct]

    def named(self, test: Callable[[str], bool]) -> BoolArray:
        """Return a mask of the slices whose name passes a test; the test runs once per name."""
        names = self.trace.slices["name"].cat
        passed = np.array([*(test(str(name)) for name in names.categories), False], dtype=bool)
        return np.asarray(passed[names.codes.to_numpy()])

    @cached_property
    def host(self) -> BoolArray:
        """A mask of the slices that are events on threads, except runtime calls."""
        threads = of_kind(self.trace, ("thread", "process"))
        return np.asarray(threads & ~self.of(*RUNTIME_TYPES) & ~self.of(""), dtype=bool)

    def of(self, *types: str) -> BoolArray:
        """Return a mask of the slices that have one of these types."""
        code, words = self._typed
        return np.asarray(np.isin(words, types)[code], dtype=bool)

    @cached_property
    def owner(self) -> IntArray:
        """The host event that launched device work, the event around a runtime call, and otherwise -1."""
        flows = self.trace.flows
        launches = (flows["kind"] == "launch").to_numpy()
        up = np.full(len(self.ts), -1, np.int64)
        up[flows["dst"].to_numpy()[launches]] = flows["src"].to_numpy()[launches]
        return self.around(up)

    def around(self, rows: IntArray) -> IntArray:
        """Return each row's innermost enclosing event other than a runtime call (or itself); -1 if none."""
        own_or_above = inherit(self.parent, np.where(self.host, np.arange(len(self.host)), -1))
        return np.append(own_or_above, -1)[rows]

    @cached_property
    def order(self) -> IntArray:
        """The rows of host events in the order in which Paddle visits them: a thread's last events first."""
        # Paddle pops the events from a stack: each event before those inside it, later ones before earlier
        # ones. That is a reversed post-order walk.
        rows = np.flatnonzero(self.host)
        size = np.ones(len(self.ts), np.int64)
        depth = self.trace.slices["depth"].to_numpy().astype(np.int64)
        inner_first = rows[np.argsort(-depth[rows], kind="stable")]
        edges = np.flatnonzero(np.diff(depth[inner_first])) + 1
        for level in np.split(inner_first, edges):
            level = level[self.parent[level] >= 0]
            np.add.at(size, self.parent[level], size[level])
        track = self.trace.slices["track"].to_numpy()[rows].astype(np.int64)
        position = pd.Series(track).groupby(track).cumcount().to_numpy()
        post = position + size[rows] - 1 - depth[rows]
        return np.asarray(rows[np.lexsort((-post, track))])

    @cached_property
    def position_in_order(self) -> IntArray:
        """The place of each row in `order`; the last place for -1 and for rows that are not visited."""
        positions = np.full(len(self.ts) + 1, len(self.ts), np.int64)
        positions[self.order] = np.arange(len(self.order))
        return positions

    def below(self, *types: str) -> IntArray:
        """Return the time of device work of these types launched by each host event or what is inside it."""
        work = np.flatnonzero(self.of(*types) & of_kind(self.trace, ("stream",)))
        total = np.zeros(len(self.ts), np.int64)
        above, spent = self.owner[work], self.dur[work]
        while len(above):
            above, spent = above[above >= 0], spent[above >= 0]
            np.add.at(total, above, spent)
            above = self.parent[above]
        return total

    @cached_property
    def gpu_ns(self) -> IntArray:
        """The time of all device work below each host event."""
        return self.below(*DEVICE_TYPES)

    def threads(self, rows: IntArray) -> npt.NDArray[Any]:
        """Return the thread id of each of these slices, or its track if there is none."""
        tracks = self.trace.tracks.set_index("track")["tid"]
        track = self.trace.slices["track"].to_numpy()[rows]
        tids = tracks.reindex(track)
        return as_ints(tids.fillna(pd.Series(track, index=tids.index)).to_numpy(dtype=np.int64))
