"""Events in bulk: what torch writes becomes columns without an object for each event."""

from __future__ import annotations

import sys
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from .brackets import brackets
from .collect import Collector, Column, single
from .columns import Ints, MemoryColumns
from .decode import Decoded
from .digits import microseconds_before
from .forms import LEFT, Forms, Tails
from .heads import Coding, Heads, Span
from .instants import MemoryEvents, are_memory
from .rests import OF_FLAGS, RUNNING, Rests
from .rows import UNDECODABLE, Variant, decoder
from .stretches import Bytes, windows

BULK_BYTES: Final = 2 << 20
"""How much text is taken at once."""

_MARGIN: Final = b" " * 512
_NEXT: Final = b", {"
_PHASE: Final = b'"ph": "'
_SPAN, _INSTANT = (ord(sign) for sign in "Xi")
_WIDTH: Final = LEFT + 112
_TAIL: Final = 48
_MOST_ODD: Final = 64
_MOST_BYTES: Final = 8 * BULK_BYTES
_FEW_DISTINCT: Final = 20_000
_MOST_DISTINCT: Final = 1 << 18
_WAIT: Final = 8
_PLAIN: Final = Variant(None, text_times=True)
_NOTHING: Final = {"fwd_thread": 0}

Codes = npt.NDArray[np.int32]


class Spans(NamedTuple):
    """Events with a duration.

    Attributes
    ----------
    good : ndarray of bool
        Those whose columns are right; all others have to be read one by one.
    begin, until : ndarray of int64
    head, rest : ndarray of int32
    ts, dur : ndarray of int64
    running : dict of ndarray of int64
    """

    good: npt.NDArray[np.bool_]
    begin: Ints
    until: Ints
    head: Codes
    rest: Codes
    ts: Ints
    dur: Ints
    running: dict[str, Ints]


class Prepared(NamedTuple):
    """Events that can be kept.

    Attributes
    ----------
    spans : Spans
    odd : list of (int, Decoded)
        Events to be taken in place of those rows of `spans`.
    others : list of Event
    memory : MemoryColumns or None
    """

    spans: Spans
    odd: list[tuple[int, Decoded]]
    others: list[Any]
    memory: MemoryColumns | None


class Bulk:
    """Gives events to a collector, faster than by decoding each.

    An event is taken apart where it opens its arguments: the *head* from its bracket to its times, the
    *form* around the bracket of the arguments with the numbers in it, the *rest* of the arguments, and the
    *tail*. Each distinct one of these is understood once; all together prove that the text is the JSON that
    it seems to be. Events that are another way are decoded, and a part with many such is left to others.

    Parameters
    ----------
    collector : Collector
    """

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._heads, self._rests = Heads(), Rests(collector)
        self._forms, self._tails = Forms(_WIDTH, RUNNING), Tails(_TAIL)
        self._memory = MemoryEvents()
        self._names, self._kinds = Coding(collector.names), Coding(collector.kinds)
        self._wait = 0 if sys.byteorder == "little" else -1
        self._patience, self._seen = _WAIT, 0

    @property
    def useful(self) -> bool:
        """Whether it makes sense to try now; some time after something could not be taken, it does again."""
        if self._wait > 0:
            self._wait -= 1
            return False
        return self._wait == 0

    def prepared(self, listed: memoryview, variant: Variant) -> Prepared | None:
        """Prepare the events of a list.

        Parameters
        ----------
        listed : memoryview
            From `split.EventText.peek`.
        variant : Variant
            With which odd ones are decoded.

        Returns
        -------
        Prepared or None
            None if they have to be decoded.
        """
        prepared = self._prepared(listed, variant)
        if prepared is None:
            self._wait, self._patience = self._patience, 2 * self._patience
        else:
            self._patience = _WAIT
        self._seen += 0 if prepared is None else len(prepared.spans.good)
        distinct = len(self._heads) + len(self._rests) + len(self._forms) + len(self._tails)
        if distinct > min(_FEW_DISTINCT + self._seen // 4, _MOST_DISTINCT):
            self._wait = -1
        return prepared

    def _prepared(self, listed: memoryview, variant: Variant) -> Prepared | None:
        if len(listed) > _MOST_BYTES:
            return None
        text = b"".join((_MARGIN, listed[1:-1], _NEXT, _MARGIN))
        codes = np.frombuffer(text, np.uint8)
        found = brackets(codes, len(text) - len(_MARGIN) - 1)
        if found is None or text.find(b"\0") >= 0:
            return None
        begin, until, _ = found
        if text[: begin[0]].strip():
            return None
        phase = codes[begin + text.find(_PHASE, int(begin[0])) + len(_PHASE) - begin[0]]
        is_span, is_instant = phase == _SPAN, phase == _INSTANT
        spans = self._spans(text, codes, *(each[is_span] for each in found))
        bad = np.flatnonzero(~spans.good).tolist()
        if len(bad) > _MOST_ODD:
            return None
        memory = self._memory.columns(text, codes, *(each[is_instant] for each in found))
        other = ~is_span if memory is None else ~(is_span | is_instant)
        odd = [_decoded(text, spans.begin[i : i + 1], spans.until[i : i + 1], variant) for i in bad]
        others = _decoded(text, begin[other], until[other], _PLAIN)
        if others is None or any(row.__class__ is Span for row in others.rows):
            return None
        if memory is not None and are_memory(others.rows):
            return None
        kept = [(i, each) for i, each in zip(bad, odd, strict=True) if each is not None]
        return Prepared(spans, kept, others.rows, memory) if len(kept) == len(bad) else None

    def _spans(self, text: bytes, codes: Bytes, begin: Ints, until: Ints, args: Ints) -> Spans:
        base = args + 1 - LEFT
        texts = windows(codes, base, _WIDTH)
        form = self._forms.of(texts)
        place = {name: values[form] for name, values in self._forms.places.items() if " " not in name}
        good = (place["times"] >= 0) & (place["dur"] >= 0) & (args > begin)
        good &= self._forms.no_zeros(texts, form)
        ends = np.arange(len(base)) * _WIDTH
        ts, ts_good = microseconds_before(texts, ends + place["ts_end"], place["ts_end"] - place["ts"])
        dur, dur_good = microseconds_before(texts, ends + place["dur_end"], place["dur_end"] - place["dur"])
        good &= ts_good & dur_good
        head = self._heads.of(text, begin, np.where(good, base + place["times"], begin))
        good &= self._heads.good[head]
        open_ = np.flatnonzero(place["end"] < 0)
        good &= (place["end"] < 0) | (base + place["end"] == until)
        rest = np.zeros(len(base), np.int32)
        tail = self._tails.lengths(windows(codes, until[open_] - _TAIL, _TAIL))
        start, end = base[open_] + place["args"][open_], until[open_] - tail
        sound = good[open_] & (tail >= 0) & (start != end)
        # where the last comma of the numbers is the first of the tail, nothing is left
        rest[open_] = self._rests.of(text, start, np.where(sound, np.maximum(start, end), start))
        good[open_] = sound & self._rests.good[rest[open_]]
        running = self._running(texts, form, rest, self._heads.flags[head])
        return Spans(good, begin, until, head, rest, ts, dur, running)

    def _running(
        self, texts: Bytes, form: Codes, rest: Codes, flags: npt.NDArray[np.uint8]
    ) -> dict[str, Ints]:
        result: dict[str, Ints] = {}
        for name in RUNNING:
            if not len(rows := np.flatnonzero(flags & OF_FLAGS[name])):
                continue
            nothing = _NOTHING.get(name, -1)
            values = self._forms.numbers(name, texts, form, rows, nothing)
            result[name] = np.full(len(form), nothing, np.int64)
            result[name][rows] = self._rests.running(name, rest[rows], values)
        return result

    def keep(self, spans: Spans, begin: int, end: int) -> None:
        """Give some of the prepared events to the collector."""
        if begin == end:
            return
        rows = slice(begin, end)
        head, rest = spans.head[rows], spans.rest[rows]
        heads = self._heads.rows
        flags = self._heads.flags[head]
        part: dict[str, Column] = {
            "name": self._names.column(head, lambda one: heads[one].name),
            "kind": self._kinds.column(head, lambda one: heads[one].cat),
            "flags": flags,
            "ts": spans.ts[rows],
            "dur": spans.dur[rows],
            "pid": single(self._heads.pid[head]),
            "tid": single(self._heads.tid[head]),
        }
        part |= {name: values[rows] for name, values in spans.running.items()}
        for name in self._rests.coded:
            which = np.flatnonzero((flags & OF_FLAGS[name] > 0) & (rest > 0))
            if len(which):
                part[name] = column = np.zeros(len(head), np.int32)
                column[which] = self._rests.column(name, rest[which])
        self._collector.add_columns(part, len(head))


def _decoded(text: bytes, begin: Ints, until: Ints, variant: Variant) -> Decoded | None:
    """Decode some events, each with a comma behind it."""
    listed = b"".join([text[a:b] for a, b in zip(begin.tolist(), until.tolist(), strict=True)])
    listed = b"[" + listed.rstrip().removesuffix(b",") + b"]"
    try:
        rows = decoder(variant).decode(listed)
    except UNDECODABLE:
        return None
    return Decoded(rows, variant, listed, None) if len(rows) == len(begin) else None
