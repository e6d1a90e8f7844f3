"""The only way to make a Trace: from columns, or from single events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..errors import OptionError, nearest
from .arrays import IntArray
from .intervals import as_ints
from .nesting import pair
from .sealing import Collected, seal
from .strings import UNNAMED, Coded, Interner
from .taxonomy import CATEGORIES, FLOW_KINDS, PHASES, STEP_SOURCES, TRACK_KINDS
from .trace import Trace

__all__ = ["Coded", "TraceBuilder"]

_TEXTS = ("name", "category", "phase", "shapes", "module")
_FIXED = {"category": CATEGORIES, "phase": PHASES}


class TraceBuilder:
    """Collects columns of events and makes a Trace from them.

    All times passed in are int64 nanoseconds on one absolute clock (Unix time). `seal` subtracts the earliest
    one and stores it as ``metadata["start_unix_ns"]``.

    Parameters
    ----------
    metadata : mapping, optional
        Initial entries of `metadata`. More can be added until `seal`.

    Attributes
    ----------
    metadata : dict
    report : ImportReport
        Collects problems with the data.
    window : (int, int) or None
        The recorded window in absolute ns, if known.

    Examples
    --------
    >>> b = TraceBuilder()
    >>> main = b.track("main", pid=1, tid=1)
    >>> rows = b.slices(ts=[0, 10], dur=[100, 30], track=main, name=["train", "aten::mm"])
    >>> b.seal()
    <Trace: 2 slices over 100 ns on 1 thread>
      self time: operator 100 %
    """

    def __init__(self, *, metadata: Mapping[str, Any] | None = None) -> None:
        interners = {
            name: Interner(_FIXED.get(name, ()), UNNAMED if name == "name" else None) for name in _TEXTS
        }
        self._parts = Collected(dict(metadata or {}), interners)
        self.metadata, self.report = self._parts.metadata, self._parts.report
        self._track_keys: dict[tuple[Any, ...], int] = {}
        self._count = 0
        self._marks: list[tuple[npt.NDArray[Any], ...]] = []
        self._sealed = False
        self.window: tuple[int, int] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing with a time was added: no slice, counter value, step or allocation."""
        return not (
            self._count or self._marks or self._parts.counters or self._parts.steps or self._parts.allocations
        )

    def track(
        self,
        name: str,
        kind: str = "thread",
        *,
        pid: int | None = None,
        tid: int | None = None,
        device: int | None = None,
        stream: int | None = None,
        rank: int | None = None,
        unit: str = "",
    ) -> int:
        """Return the key of a new or known track.

        Threads and streams with equal `pid`, `tid`, `device`, `stream` and `rank` are the same track, so
        several collectors can share a thread; the first non-empty name is kept. For counters and memory, and
        without `tid`, `device` and `stream`, names must be equal too.

        Raises
        ------
        OptionError
            If `kind` is not one of ``thread stream counter memory process``.
        """
        _check("kind of track", kind, TRACK_KINDS)
        ids = (pid, tid, device, stream, rank)
        by_name = kind in ("counter", "memory") or all(part is None for part in ids[1:4])
        key = (kind, ids, name if by_name else None)
        if (existing := self._track_keys.get(key)) is not None:
            if name and not self._parts.tracks[existing]["name"]:
                self._parts.tracks[existing]["name"] = name
            return existing
        self._track_keys[key] = number = len(self._parts.tracks)
        row = dict(zip(("pid", "tid", "device", "stream", "rank"), ids, strict=True))
        self._parts.tracks.append({"track": number, "name": name, "kind": kind, "unit": unit, **row})
        return number

    def slices(
        self,
        *,
        ts: Any,
        dur: Any,
        track: Any,
        name: Any,
        category: Any = "operator",
        phase: Any = None,
        step: Any = None,
        correlation: Any = None,
        device: Any = None,
        stream: Any = None,
        shapes: Any = None,
        module: Any = None,
        stack: Any = None,
    ) -> IntArray:
        """Add slices, given as one column per property.

        Parameters
        ----------
        ts, dur : array_like of int64, shape (n,)
            Absolute start and duration in ns. Negative durations become 0 and are counted.
        track : int or array_like of int
            Keys from `track`.
        name, category, phase, shapes, module : str, Coded, array_like of str, or None
            One value for all slices, or one per slice. Categories and phases must exist.
        step, correlation, device, stream, stack : int, array_like of int, or None
            In arrays, -1 stands for a missing value.

        Returns
        -------
        ndarray of int64, shape (n,)
            Handles for `flows`.

        Raises
        ------
        OptionError
            If a category or phase does not exist, or columns differ in length.
        """
        begins, durs = np.atleast_1d(as_ints(ts)), np.atleast_1d(as_ints(dur))
        n = len(begins)
        if len(durs) != n:
            raise OptionError(f"{n} starts but {len(durs)} durations were given")
        if (negative := durs < 0).any():
            self.report.add_where(
                "negative-duration",
                "loss",
                negative,
                lambda i: f"{durs[i]} ns",
                "kept as instants",
                "check the clock of the source",
            )
            durs = np.maximum(durs, 0)
        labels = {"name": name, "category": category, "phase": phase, "shapes": shapes, "module": module}
        texts = {key: self._text(key, value, n) for key, value in labels.items()}
        numbers = {"step": step, "correlation": correlation, "device": device}
        numbers |= {"stream": stream, "stack": stack}
        ready = {
            "ts": begins,
            "dur": durs,
            "track": _column(track, n, np.int32),
            **{key: _column(value, n, np.int32) for key, value in texts.items()},
            **{key: _column(-1 if value is None else value, n, np.int64) for key, value in numbers.items()},
        }
        for key, column in ready.items():
            self._parts.columns.setdefault(key, []).append(column)
        handles = np.arange(self._count, self._count + n, dtype=np.int64)
        self._count += n
        return handles

    def placed(self, track: int) -> tuple[IntArray, IntArray, Coded, Coded]:
        """Return the slices added to a track so far.

        Returns
        -------
        ts, dur : ndarray of int64, shape (n,)
            Absolute ns, as passed in.
        name, category : Coded
        """
        rows_of_part = [np.flatnonzero(part == track) for part in self._parts.columns.get("track", ())]

        def column(key: str) -> npt.NDArray[Any]:
            parts = [
                part[rows] for part, rows in zip(self._parts.columns.get(key, ()), rows_of_part, strict=True)
            ]
            return np.concatenate([np.empty(0, np.int64), *parts])

        name, category = (
            Coded(column(key).astype(np.int32), self._parts.interners[key].values)
            for key in ("name", "category")
        )
        return column("ts"), column("dur"), name, category

    def begin(self, ts: Any, name: Any, track: Any, category: Any = "annotation") -> None:
        """Open slices, which last until the matching `end` on their track. Single values or columns."""
        self._mark(ts, track, True, name, category)

    def end(self, ts: Any, track: Any) -> None:
        """Close the latest open slice of a track. Single values or columns."""
        self._mark(ts, track, False, None, None)

    def counter(self, track: Any, ts: Any, value: Any) -> None:
        """Add values of counters: track keys (one or a column), times in ns, and numbers."""
        times = np.atleast_1d(as_ints(ts))
        values = np.atleast_1d(np.asarray(value, dtype=np.float64))
        tracks = _column(track, len(times), np.int64)
        self._parts.counters.append({"track": tracks, "ts": times, "value": values})

    def flows(self, kind: str, src: Any, dst: Any) -> None:
        """Link slices, given by their handles. `kind` is one of `FLOW_KINDS`, such as ``launch``."""
        _check("kind of flow", kind, FLOW_KINDS)
        self._parts.flows.append((kind, np.atleast_1d(as_ints(src)), np.atleast_1d(as_ints(dst))))

    def steps(self, step: Any, ts: Any, dur: Any, source: str, *, loop: Any = 0) -> None:
        """Add steps: their numbers, absolute starts and durations in ns, source and loop."""
        _check("source of steps", source, STEP_SOURCES)
        number, begins, durs = (np.atleast_1d(as_ints(part)) for part in (step, ts, dur))
        words = {"loop": loop, "source": STEP_SOURCES.index(source)}
        rest = {key: _column(value, len(number), np.int64) for key, value in words.items()}
        self._parts.steps.append({"step": number, "ts": begins, "dur": durs, **rest})
        if source == "file":
            self.metadata.setdefault("steps_source", source)

    def allocations(
        self, *, ts: Any, addr: Any, bytes: Any, device: Any, allocated: Any, reserved: Any, track: Any = -1
    ) -> None:
        """Add memory events. `bytes` is negative for frees, `device` is -1 for the host.

        If `track` is given, the innermost open slice of that track becomes ``allocations.slice``.
        """
        times = np.atleast_1d(as_ints(ts))
        n = len(times)
        numbers = {"bytes": bytes, "device": device, "allocated": allocated}
        numbers |= {"reserved": reserved, "track": track}
        rows: dict[str, Any] = {key: _column(value, n, np.int64) for key, value in numbers.items()}
        rows["addr"] = np.broadcast_to(np.asarray(addr).astype(np.uint64), n)
        self._parts.allocations.append({"ts": times, **rows})

    def table(self, name: str, frame: pd.DataFrame, *, times: Sequence[str] = ("ts",)) -> None:
        """Add a separate table, which becomes ``trace.metadata["tables"][name]``.

        Parameters
        ----------
        name : str
            A table of the same name is replaced.
        frame : DataFrame
            It is copied.
        times : sequence of str
            Columns of absolute int64 ns. `seal` makes them relative to the start of the trace, like all
            times, and lists them in ``trace.metadata["table_times"]``.

        Raises
        ------
        OptionError
            If a column of `times` does not exist or does not hold whole numbers.

        Examples
        --------
        >>> b = TraceBuilder()
        >>> _ = b.slices(ts=[100], dur=[9], name=["mm"], track=b.track("main"))
        >>> b.table("moments", pd.DataFrame({"ts": [104], "text": ["here"]}))
        >>> b.seal().metadata["tables"]["moments"].values.tolist()
        [[4, 'here']]
        """
        ready = frame.reset_index(drop=True)
        for column in times:
            if column not in ready or (len(ready) and ready[column].dtype.kind not in "iu"):
                raise OptionError(f"table {name!r} has no column {column!r} of whole nanoseconds")
        ready = ready.assign(**{column: as_ints(ready[column]) for column in times})
        self._parts.other_tables[name] = ready, tuple(times)

    def stack(self, frames: Sequence[tuple[str, str, int]], *, above: int = -1) -> int:
        """Return the key of a call stack, root first; -1 without frames. A frame is (function, file, line).

        `above` is the key of the stack whose leaf calls these frames.
        """
        leaf = above
        for name, file, line in frames:
            leaf = self._parts.frames.setdefault((leaf, name, file, line), len(self._parts.frames))
        return leaf

    def seal(self, *, window: tuple[int, int] | None = None, start: int | None = None) -> Trace:
        """Make the Trace: sort, pair, nest, inherit, link. Can be called only once.

        Parameters
        ----------
        window : (int, int), optional
            Absolute ns, half-open; by default the attribute `window`. Slices outside it are dropped and
            slices across its edges are cut, and the report counts both. Counters and allocations outside it
            are dropped.
        start : int, optional
            Absolute ns at which the recording began. Each counter starts there, with its last value before
            it.

        Returns
        -------
        Trace
        """
        if self._sealed:
            raise OptionError("this TraceBuilder is sealed already: make a new one for another Trace")
        self._sealed = True
        self._close_marks()
        return seal(self._parts, window if window is not None else self.window, start)

    def _text(self, key: str, value: Any, n: int) -> npt.NDArray[np.int32]:
        interner = self._parts.interners[key]
        codes = interner.codes(value, n)
        if key in _FIXED and len(values := interner.values) > len(words := _FIXED[key]):
            unknown = values[len(words)]
            raise OptionError(f"no {key} {unknown!r}: {nearest(unknown, words)}")
        return codes

    def _mark(self, ts: Any, track: Any, opens: bool, name: Any, category: Any) -> None:
        times = np.atleast_1d(as_ints(ts))
        n = len(times)
        codes = (
            as_ints(self._text(key, value, n)) for key, value in (("name", name), ("category", category))
        )
        self._marks.append((_column(track, n, np.int64), times, np.full(n, opens), *codes))

    def _close_marks(self) -> None:
        if not self._marks:
            return
        track, ts, opens, name, category = (np.concatenate(parts) for parts in zip(*self._marks, strict=True))
        pairs = pair(track, ts, opens)
        end_of_trace = int(
            max(ts.max(), *(int(c.max()) for c in self._parts.columns.get("ts", []) if len(c)), 0)
        )
        begin, dur = pairs.spans(ts, end_of_trace)
        names, categories = (self._parts.interners[key].values for key in ("name", "category"))
        word, kind = Coded(name[begin], names), Coded(category[begin], categories)
        self.slices(ts=ts[begin], dur=dur, track=track[begin], name=word, category=kind)
        add, until = self.report.add_where, "kept until the end of the trace"
        add("unclosed-begin", "loss", pairs.unclosed, lambda i: names[name[i]], until)
        add("end-without-begin", "loss", pairs.unopened, lambda i: f"at {ts[i]} ns", "ignored")


def _column(value: Any, n: int, dtype: Any) -> npt.NDArray[Any]:
    if isinstance(value, pd.Series | pd.arrays.IntegerArray):
        value = pd.array(value).to_numpy(dtype=np.int64, na_value=-1)
    array = np.asarray(value, dtype=dtype)
    if array.ndim == 1 and len(array) != n:
        raise OptionError(f"a column of {len(array)} values was given for {n} rows")
    return np.broadcast_to(array, n)


def _check(what: str, word: str, words: Sequence[str]) -> None:
    if word not in words:
        raise OptionError(f"no {what} {word!r}: {nearest(word, words)}")
