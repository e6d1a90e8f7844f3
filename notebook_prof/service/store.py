"""Indexes of one Trace for its views, built when first needed and kept."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from .. import analysis
from ..analysis.device.kernel_launches import launching_rows
from ..analysis.grouping import merged_names
from ..analysis.name_labels import module_classes
from ..analysis.source.lines import LINE
from ..analysis.time.host_states import waiting_names
from ..analysis.time.operators import redispatched
from ..background import at_once
from ..labels import merged_name
from ..trace import DEVICE_CATEGORIES, Trace
from ..trace.arrays import BoolArray, IntArray
from .cached import locked_cached_property
from .columns import DrawnCounter, SliceColumns, coded, drawn_counters
from .detail.chosen import Chosen
from .detail.curve import StepCurve
from .detail.density import LongestBlocks
from .detail.drawn import DrawnIndex, EarlyIndex, PictureCache, WideSlices
from .detail.groups import GroupIndex
from .detail.launched import LaunchedIndex
from .detail.rows import RowIndex
from .palette import NameStyles, name_colours, name_styles
from .selected_rows import Choices, Key, matching_mask

T = TypeVar("T")

GROUPINGS: Final = ("name", "shapes", "module", "category")
TINTS: Final = ("name", "category", "phase", "module", "step")
"""The attributes by which slices can be coloured."""
SCOPES: Final = {"all": ("host", "device"), "host": ("host",), "device": ("device",)}
"""Rows of the table: the host's operators, the device's kernels, or both."""
_EARLY_ROWS: Final = 40
"""Number of rows, and of tracks, from the top that the first picture may show."""
_EARLY_SHARE: Final = 0.6
_SHALLOW: Final = 8
"""Mean depth up to which climbing from every slice is faster than sorting."""
_REMEMBERED: Final = 40
_MOST_BYTES: Final = 1 << 30


class ViewStore:
    """Indexes of one Trace for its views; the Trace is not changed."""

    # Questions come from two threads (JupyterLab answers comms in a subshell), so `lock` is held while one is
    # answered. Everything else is made under its own lock (`locked_cached_property`).
    def __init__(self, trace: Trace, fold: bool = False) -> None:
        self.trace, self._fold = trace, fold
        self.lock = threading.RLock()
        self._cache: OrderedDict[Key, tuple[Any, int]] = OrderedDict()
        self._keeping = threading.Lock()
        self._making: dict[Key, threading.RLock] = {}
        self.pictures = PictureCache()
        self._early: EarlyIndex | None = None
        self._drawing_early = threading.Lock()

    @locked_cached_property
    def columns(self) -> SliceColumns:
        return SliceColumns(self.trace, self._fold)

    @locked_cached_property
    def rows(self) -> RowIndex:
        """Slices by drawn row."""
        c = self.columns
        return RowIndex(c.ts, c.drawn_ns, c.row, c.n_rows, lambda: c.extent)

    @locked_cached_property
    def nested(self) -> RowIndex:
        """Slices by the row that they have inside of one another, which sums need."""
        c = self.columns
        if c.nested_row is c.row:
            return self.rows
        return RowIndex(c.ts, c.drawn_ns, c.nested_row, len(c.row_below), lambda: c.extent)

    @locked_cached_property
    def shallow(self) -> bool:
        """Whether walking up the parents finds the open slices around every slice, faster than sorting."""
        depth = self.columns.depth
        nested = not len(self.columns.crosses_parent)
        return nested and (len(depth) == 0 or float(depth.mean()) < _SHALLOW)

    @locked_cached_property
    def wide(self) -> WideSlices:
        """Slices by width."""
        return WideSlices(self.rows)

    @locked_cached_property
    def blocks(self) -> LongestBlocks:
        """The longest slice of each block."""
        return LongestBlocks(self.rows)

    def draw_early(self) -> None:
        """Index the rows of the first picture first; skipped if they contain most slices."""
        c = self.columns
        with self._drawing_early:
            early = np.zeros(c.n_rows, bool)
            early[:_EARLY_ROWS] = True
            early[[track.first_row for track in c.tracks[:_EARLY_ROWS]]] = True
            slices = np.flatnonzero(early[c.row])
            if len(slices) <= _EARLY_SHARE * c.n:
                self._early = EarlyIndex(c.ts, c.drawn_ns, c.row, early, slices)

    def drawn(self, rows: IntArray, key: Key) -> DrawnIndex:
        """Return the index for a picture of some rows: that of the early rows until all rows are indexed."""
        with self._drawing_early:  # a picture that does not wait would index all rows beside it
            early = self._early
            if early is not None:
                if {"rows", "wide", "blocks"} <= self.__dict__.keys():
                    self._early = None
                elif not key and early.holds(rows):
                    return early.drawn
        return DrawnIndex(self.rows, self.wide, self.blocks)

    @locked_cached_property
    def line_labels(self) -> list[str]:
        """The label of every source line, ``cell:12  y = f(x)``; the last is "", for no line."""
        c = self.columns
        parts = [LINE.fullmatch(name) for name in c.names]
        stands = np.array([*(part is not None for part in parts), False], dtype=bool)[c.name] & (c.line >= 0)
        rows = np.flatnonzero(stands)
        codes, first = np.unique(c.line[rows], return_index=True)
        labels = [*c.lines, ""]
        for code, row in zip(codes.tolist(), rows[first].tolist(), strict=True):
            if part := parts[c.name[row]]:
                labels[code] += f"  {part['text']}"
        return labels

    @locked_cached_property
    def module_colours(self) -> npt.NDArray[np.uint8]:
        """The palette position of every module, by its path, so that it is the same in every recording."""
        modules = self.grouping("module")[2]
        return name_colours(modules, np.zeros(len(modules), bool))

    @locked_cached_property
    def module_classes(self) -> list[str]:
        """The class of every module; empty if not recorded."""
        classes = module_classes(self.trace)
        return [classes.get(path, "") for path in self.grouping("module")[2]]

    @locked_cached_property
    def name_styles(self) -> NameStyles:
        """Label and colour of every name."""
        return name_styles(self.trace)

    @locked_cached_property
    def launches(self) -> tuple[IntArray, IntArray]:
        """Device slices with a known launcher, and the host slice that launched each."""
        launcher = launching_rows(self.trace)
        work = np.flatnonzero((launcher >= 0) & self.side("device"))
        return work, launcher[work]

    @locked_cached_property
    def again(self) -> tuple[IntArray, IntArray]:
        """Slices that pass on the call of the one around them, and that one."""
        rows = np.flatnonzero(redispatched(self.trace))
        return rows, self.columns.parent[rows].astype(np.int64)

    def side(self, side: str) -> BoolArray:
        """Return the slices that ``analysis.operators`` or ``analysis.kernels`` (``device``) count."""
        c = self.columns
        if side == "host":
            return c.of_kind("thread", "process")
        work = np.array([name in DEVICE_CATEGORIES for name in c.categories] + [False])
        return np.asarray(c.of_kind("stream") & work[c.category])

    @locked_cached_property
    def choices(self) -> Choices:
        """The index of selections."""
        return Choices(self.columns, self.rows)

    def effective(self, key: Key) -> Key:
        """Return the key without clauses that keep every slice; an empty one needs no index."""
        return self.choices.effective(key) if key else key

    def chosen(self, key: Key) -> Chosen | None:
        """Return stretches of the RowIndex that match; None for all."""
        if not key:
            return None
        key = self.effective(key)
        return self.keep(("chosen", key), lambda: self.choices.chosen(key)) if key else None

    def matches(self, key: Key, slices: npt.NDArray[np.integer]) -> BoolArray:
        return matching_mask(self.columns, key, slices)

    def grouping(self, by: str) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.int32], list[str]]:
        """Return the group of every slice, the name code of every group (-1: none), and a second label."""
        c = self.columns
        if by == "name":
            return self._counted_name, np.arange(len(c.names), dtype=np.int32), [""] * len(c.names)
        if by == "category":
            return c.category, np.full(len(c.categories), -1, np.int32), c.categories
        if by not in GROUPINGS:
            raise KeyError(by)
        return self.keep(("grouping", by), lambda: self._pairs(by))

    @locked_cached_property
    def waits(self) -> BoolArray:
        """A mask of the names that only wait."""
        return waiting_names(self.trace)

    @locked_cached_property
    def _counted_name(self) -> npt.NDArray[np.integer]:
        """The code of the name under which the table counts every slice; see `labels.merged_name`."""
        c = self.columns
        counted = merged_names(c.names)
        if (counted[:-1] == np.arange(len(c.names))).all():
            return c.name
        return np.asarray(counted[c.name], c.name.dtype)

    def labels(self, by: str) -> list[str]:
        """Return the text of every group."""

        def make() -> list[str]:
            _, names, details = self.grouping(by)
            names_of_code = list(map(merged_name, self.columns.names))
            return [names_of_code[n] if n >= 0 else d for n, d in zip(names.tolist(), details, strict=True)]

        return self.keep(("labels", by), make)

    def groups(self, by: str, key: Key, side: str) -> GroupIndex:
        """Return running sums by group of matching slices on one side (``host`` or ``device``)."""
        key = self.effective(key)
        return self.keep(("groups", by, key, side), lambda: self._grouped(by, key, side))

    def _grouped(self, by: str, key: Key, side: str) -> GroupIndex:
        here = self.side(side)
        chosen = self.choices.slices(key) if key else None
        if chosen is not None:
            chosen = chosen[here[chosen]]
        elif not here.all():
            chosen = np.flatnonzero(here)
        if side == "device":
            return self.sums(by, chosen)
        work, launcher = self.launches
        of_work = tuple(clause for clause in key if clause[0] in ("step", "phase", "rank", "line"))
        kept = self.matches(of_work, work)
        launches, members = (work[kept], launcher[kept]), None
        of_host = tuple(clause for clause in key if clause[0] in ("name", "track", "rank"))
        if of_host and len(launches[0]):
            members = np.where(matching_mask(self.columns, of_host), self.grouping(by)[0], -1)
        return self.sums(by, chosen, launches, members)

    def sums(
        self,
        by: str,
        chosen: IntArray | None,
        launches: tuple[IntArray, IntArray] | None = None,
        members: npt.NDArray[np.integer] | None = None,
    ) -> GroupIndex:
        """Return running sums by group of the chosen slices, and of the device work that they launched."""
        c = self.columns
        codes, names, _ = self.grouping(by)
        # a strong reference would be a cycle, which keeps the trace alive until garbage is collected
        mine = weakref.proxy(self)
        launched = None
        if launches is not None and len(launches[0]):
            members = codes if members is None else members
            launched = LaunchedIndex(lambda: mine.nested, c, members, len(names), launches)
        return GroupIndex(
            lambda: mine.nested, c, codes, len(names),
            again=self.again, launched=launched, chosen=chosen, shallow=self.shallow,
        )  # fmt: skip

    @locked_cached_property
    def counters(self) -> list[DrawnCounter]:
        """Counter tracks with their ranges, in the order of ``trace.tracks``."""
        return drawn_counters(self.trace)

    def counter_curve(self, track: int) -> StepCurve:

        def make() -> StepCurve:
            rows = self.trace.counters[self.trace.counters["track"].to_numpy() == track]
            return StepCurve(rows["ts"].to_numpy(np.int64), rows["value"].to_numpy(np.float64))

        return self.keep(("counter", track), make)

    @locked_cached_property
    def memory_devices(self) -> list[int]:
        """Devices with a memory curve, highest peak first; -1 is the host."""
        peaks = self.trace.allocations.groupby("device")["allocated"].max()
        devices = [int(device) for device in peaks.sort_values(ascending=False, kind="stable").index]
        # Resident memory of the host's process comes last.
        if self.resident is None:
            return devices
        return [*(device for device in devices if device >= 0), -1]

    @locked_cached_property
    def resident(self) -> pd.DataFrame | None:
        """``analysis.memory`` of the host, if resident memory (RSS) was recorded."""
        table = analysis.memory(self.trace, device=-1)
        table = table[table["source"] == "rss"]
        return table if len(table) else None

    def memory_curves(self, device: int) -> dict[str, StepCurve]:
        """Return the curves ``allocated`` and ``reserved`` of a device."""

        def make() -> dict[str, StepCurve]:
            rows = self._allocations(device)
            ts, allocated = rows["ts"].to_numpy(np.int64), rows["allocated"].to_numpy()
            if device != -1 or self.resident is None:
                reserved = rows["reserved"].to_numpy()
                return {"allocated": StepCurve(ts, allocated), "reserved": StepCurve(ts, reserved)}
            # For resident memory: its level, and its initial level; ``blocks`` is the allocator's part.
            at, level = (self.resident[name].to_numpy() for name in ("ts", "allocated_bytes"))
            return {
                "allocated": StepCurve(at, level),
                "reserved": StepCurve(at, np.full_like(level, level[0])),
                "blocks": StepCurve(ts, allocated - min(allocated.min(initial=0), 0)),
            }

        return self.keep(("curves", device), make)

    def selected_memory(self, device: int, key: Key) -> StepCurve | None:
        """Return the live bytes allocated by matching slices; None if everything matches."""
        key = self.effective(key)
        rows = self._allocations(device)
        if not key or not len(rows):
            return None

        def make() -> StepCurve:
            ts = rows["ts"].to_numpy(np.int64)
            owner, size = self.memory_owners(device)
            counted = np.flatnonzero(self.matches(key, np.maximum(owner, 0)) & (owner >= 0))
            # it begins and ends with the recording, at nothing
            edges = np.append(np.append(ts[0], ts[counted]), ts[-1])
            alive = np.append(0, np.cumsum(size[counted]))
            return StepCurve(edges, np.append(alive, alive[-1]))

        return self.keep(("selected memory", device, key), make)

    def memory_owners(self, device: int) -> tuple[IntArray, IntArray]:
        """Return the slice that allocated the block of every event (-1 unknown), and signed bytes."""

        def make() -> tuple[IntArray, IntArray]:
            rows = self._allocations(device)
            size = rows["bytes"].to_numpy(np.int64)
            home = rows["slice"].to_numpy(dtype=np.int64, na_value=-1)
            address = rows["addr"].to_numpy()
            order = np.argsort(address, kind="stable")
            allocates, same = size[order] > 0, np.append(False, address[order][1:] == address[order][:-1])
            freed = np.flatnonzero(~allocates & same)
            owner = np.where(size > 0, home, -1)
            before = order[freed - 1]
            paired = size[before] == -size[order[freed]]
            owner[order[freed[paired]]] = owner[before[paired]]
            # A free belongs to the last allocation at the same address.
            return owner, size

        return self.keep(("owners", device), make)

    def _allocations(self, device: int) -> pd.DataFrame:
        rows = self.trace.allocations
        return rows[rows["device"].to_numpy() == device]

    def _pairs(self, by: str) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.int32], list[str]]:
        second, labels = coded(self.trace.slices[by])
        second = second.astype(np.int32)
        if by == "module":
            return second, np.full(len(labels), -1, np.int32), labels
        width = len(labels) + 1
        codes, pairs = pd.factorize(self._counted_name.astype(np.int64) * width + second + 1)
        labels = ["", *labels]
        return codes.astype(np.int32), (pairs // width).astype(np.int32), [labels[p % width] for p in pairs]

    def keep(self, key: Key, make: Callable[[], T]) -> T:
        """Cache a result of `make`; beyond 40 entries or a gigabyte, the least recently used are dropped."""
        with self._keeping:
            lock = self._making.setdefault(key, threading.RLock())
        with lock, at_once():  # a second thread waits for the first
            with self._keeping:
                if key in self._cache:
                    self._making.pop(key, None)
                    self._cache.move_to_end(key)
                    kept: T = self._cache[key][0]
                    return kept
            made = make()
            with self._keeping:
                self._making.pop(key, None)
                self._cache[key] = made, _size(made)
                while len(self._cache) > 1 and (
                    len(self._cache) > _REMEMBERED
                    or sum(size for _, size in self._cache.values()) > _MOST_BYTES
                ):
                    self._cache.popitem(last=False)
        return made


def _size(value: Any) -> int:
    if isinstance(value, tuple | list):
        return sum(_size(part) for part in value if not isinstance(part, str))
    return int(getattr(value, "nbytes", 0))
