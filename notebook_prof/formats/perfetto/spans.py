"""Where the packets of a Perfetto trace lie."""

from __future__ import annotations

from typing import Final

import numpy as np

from ...readers.codec.protobuf import WireError, varint
from ...trace.arrays import IntArray
from ...trace.report import ImportReport

_PACKET: Final = 0x0A
_AT_ONCE: Final = 1_024
_REPEATED: Final = 64


def _walked(data: bytes, at: int, last: int, places: list[int]) -> int:
    """Put places of packets into a list; return where the next begins: at the last if its length is long."""
    put = places.append
    for _ in range(_AT_ONCE):
        if at >= last:
            break
        put(at)
        size = data[at + 1]
        if size < 0x80:
            at += size + 2
        elif (more := data[at + 2]) < 0x80:
            at += (size & 0x7F | more << 7) + 3
        elif (most := data[at + 3]) < 0x80:
            at += (size & 0x7F | (more & 0x7F) << 7 | most << 14) + 4
        else:
            break
    return at


def _repeats(data: bytes, at: int, size: int, last: int) -> int:
    """Return how many packets of one size follow, as ends of slices do."""
    count = min((last - at) // size, _AT_ONCE)
    if count < 1:
        return 0
    heads = np.ndarray((count, 2), np.uint8, data, at, (size, 1))
    other = np.flatnonzero(heads[:, 1] != size - 2)
    return int(other[0]) if len(other) else count


def _plain_spans(data: bytes, at: int, end: int) -> tuple[IntArray, IntArray, int]:
    """Return where packets of less than 2 MB lie, up to the first that is another one, and where that is.

    Only lengths are looked at, one packet after another; that they are packets at all is seen afterwards.
    """
    places: list[int] = []
    last = end - 4
    while at < last and (at := _walked(data, at, last, places)) > places[-1]:
        size = at - places[-1]
        if size <= 0x7F and places[-1] - places[-_REPEATED:][0] == size * (_REPEATED - 1):
            while count := _repeats(data, at, size, last):
                places.extend(range(at, at + count * size, size))
                at += count * size
    if not places:
        return np.empty(0, np.int64), np.empty(0, np.int64), at
    content, starts = np.frombuffer(data, np.uint8), np.array([*places, at], np.int64)
    sound = content.take(starts[:-1]) == _PACKET
    inside = starts[1:] <= end
    count = len(places) if (sound & inside).all() else int(np.argmin(sound & inside))
    if count and starts[count] == starts[count - 1]:  # a length that is not plain
        count -= 1
    starts = starts[: count + 1]
    longer = content.take(starts[:-1] + 1) >= 0x80
    begins = starts[:-1] + 2 + longer + (longer & (content.take(starts[:-1] + 2) >= 0x80))
    return begins, starts[1:], int(starts[-1])


def packet_spans(data: bytes, at: int, end: int, report: ImportReport) -> tuple[IntArray, IntArray]:
    """Return where packets lie: only the length of one tells where the next begins."""
    plain_begins, plain_ends, at = _plain_spans(data, at, end)
    begins: list[int] = []
    ends: list[int] = []
    put_begin, put_end = begins.append, ends.append
    try:
        while at < end:
            tag = data[at]
            size = data[at + 1] if at + 1 < end else 0x80
            if size < 0x80 and tag == 0x0A:
                at += 2
            else:
                tag, at = varint(data, at, end)
                if tag & 7 not in (0, 2):
                    raise WireError(f"no packet begins at byte {at}")
                size, at = varint(data, at, end)
                if tag & 7 == 0:
                    continue
            if at + size > end:
                raise WireError(f"the packet at byte {at} ends behind the end of the file")
            if tag == 0x0A:
                put_begin(at)
                put_end(at + size)
            at += size
    except WireError as error:
        report.add("truncated-file", "loss", example=str(error), effect="packets from there on are missing")
    return (
        np.concatenate([plain_begins, np.array(begins, np.int64)]),
        np.concatenate([plain_ends, np.array(ends, np.int64)]),
    )
