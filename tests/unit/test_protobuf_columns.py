"""Messages decoded many at once, against one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from notebook_prof.readers.codec.protobuf import WireError, fields
from notebook_prof.readers.codec.protobuf_columns import PADDING, Fields, varints
from notebook_prof.readers.perfetto.packets import _spans
from notebook_prof.trace import ImportReport


def varint(value: int) -> bytes:
    """A number of seven bits a byte."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def one(number: int, value: int | bytes, wire: int) -> bytes:
    """A field."""
    tag = varint(number << 3 | wire)
    if isinstance(value, bytes):
        return tag + varint(len(value)) + value
    return tag + (varint(value) if wire == 0 else value.to_bytes(8 if wire == 1 else 4, "little"))


NUMBER = st.integers(1, 3_000)
FIELD = st.one_of(
    st.builds(one, NUMBER, st.integers(0, 2**64 - 1), st.just(0)),
    st.builds(one, NUMBER, st.integers(0, 2**64 - 1), st.just(1)),
    st.builds(one, NUMBER, st.integers(0, 2**32 - 1), st.just(5)),
    st.builds(one, NUMBER, st.binary(max_size=200), st.just(2)),
)
MESSAGES = st.lists(st.lists(FIELD, max_size=8).map(b"".join), max_size=60)


def expected(data: bytes, begin: int, end: int) -> list[tuple[int, int, int, int]]:
    """Fields of one message, as far as they are sound."""
    rows = []
    try:
        for number, value in fields(data, (begin, end)):
            if isinstance(value, tuple):
                rows.append((number, 0, *value))
            else:
                rows.append((number, value - (1 << 64) if value >> 63 else value, -1, -1))
    except WireError:
        pass
    return rows


def check(data: bytes, begin: list[int], end: list[int]) -> None:
    content = np.frombuffer(data + bytes(PADDING), np.uint8)
    columns = Fields(content, np.array(begin, np.int64), np.array(end, np.int64))
    for message, span in enumerate(zip(begin, end, strict=True)):
        rows = columns.owner == message
        parts = (part[rows].tolist() for part in (columns.number, columns.value, columns.begin, columns.end))
        assert list(zip(*parts, strict=True)) == expected(data, *span)


@given(MESSAGES)
@settings(max_examples=60, deadline=None)
def test_fields_are_those_of_each_message(messages: list[bytes]) -> None:
    ends = np.cumsum([len(message) for message in messages]).tolist()
    check(b"".join(messages), [end - len(m) for end, m in zip(ends, messages, strict=True)], ends)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=50))
def test_numbers_of_any_length(values: list[int]) -> None:
    parts = [varint(value & (2**64 - 1)) for value in values]
    ends = np.cumsum([0, *map(len, parts)])
    data = np.frombuffer(b"".join(parts) + bytes(PADDING), np.uint8)
    decoded, after = varints(data, ends[:-1])
    assert decoded.tolist() == values
    assert after.tolist() == ends[1:].tolist()


def test_a_message_with_very_many_fields_among_small_ones() -> None:
    messages = [one(1, i, 0) for i in range(100)] + [one(2, b"x", 2) * 5_000 + one(3, 7, 0)]
    ends = np.cumsum([len(message) for message in messages]).tolist()
    check(b"".join(messages), [end - len(m) for end, m in zip(ends, messages, strict=True)], ends)


PACKET = st.tuples(
    st.integers(0, 400) | st.sampled_from([127, 128, 16_383, 16_384]), st.sampled_from([10, 10, 10, 18])
)


@settings(max_examples=80, deadline=None)
@given(st.lists(PACKET, max_size=20), st.integers(0, 3), st.booleans())
def test_packets_lie_where_their_lengths_say(rows: list[tuple[int, int]], cut: int, padded: bool) -> None:
    """Long ones, other fields, lengths with a byte more than they need, and files that are cut."""
    data, expected_spans = b"", []
    for size, tag in rows:
        length = varint(size)
        length = length[:-1] + bytes([length[-1] | 0x80, 0]) if padded and size % 3 == 0 else length
        data += bytes([tag]) + length + bytes([10]) * size
        if tag == 10:
            expected_spans.append((len(data) - size, len(data)))
    whole = data[: len(data) - cut] if cut else data
    report = ImportReport()
    begin, end = _spans(whole, 0, len(whole), report)
    kept = [span for span in expected_spans if span[1] <= len(whole)]
    assert list(zip(begin.tolist(), end.tolist(), strict=True)) == kept
    assert ("truncated-file" in report) == (bool(cut) and bool(data))
