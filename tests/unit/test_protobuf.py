"""Messages decoded many at once, against one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notebook_prof.readers.codec import protobuf
from notebook_prof.readers.codec.protobuf import PADDING, Fields, WireError, fields

from ..draws import draws
from ..messages import varint


def one(number: int, value: int | bytes, wire: int) -> bytes:
    """A field."""
    tag = varint(number << 3 | wire)
    if isinstance(value, bytes):
        return tag + varint(len(value)) + value
    return tag + (varint(value) if wire == 0 else value.to_bytes(8 if wire == 1 else 4, "little"))


NUMBER = st.integers(1, 20) | st.integers(1, 3_000)
FIELD = st.one_of(
    st.builds(one, NUMBER, st.integers(0, 300) | st.integers(0, 2**64 - 1), st.just(0)),
    st.builds(one, NUMBER, st.integers(0, 2**64 - 1), st.just(1)),
    st.builds(one, NUMBER, st.integers(0, 2**32 - 1), st.just(5)),
    st.builds(one, NUMBER, st.binary(max_size=200), st.just(2)),
)


def is_settled(message: bytes) -> bool:
    """Whether all decoders agree on it: some pass over impossible field numbers and values of 11 bytes."""
    try:
        return all(0 < number < 1 << 29 for number, _ in fields(message, (0, len(message))))
    except WireError as error:
        return "has no end" not in str(error)


NO_FIELD = st.one_of(
    st.builds(lambda number, wire: varint(number << 3 | wire), NUMBER, st.sampled_from([3, 4, 6, 7])),
    st.sampled_from([b"\x12\xff\xff\xff\xff\x0f", b"\x12" + b"\xff" * 9 + b"\x01", b"\x12\x85"]),
    st.builds(lambda field, size: field[: max(size, 1)], FIELD, st.integers(1, 4)),
    st.binary(min_size=1, max_size=12),
)
LONGER = st.sampled_from([b"\x88\x00\x01", b"\x08\x81\x80\x00", b"\x92\x80\x00\x81\x00z"])
"""Numbers that are written with more bytes than they need."""
MESSAGE = st.lists(FIELD | LONGER, max_size=8).map(b"".join)
MESSAGES = st.lists(MESSAGE, max_size=60)
DAMAGED = st.lists(
    st.builds(lambda *parts: b"".join(parts), MESSAGE, NO_FIELD, MESSAGE).filter(is_settled) | MESSAGE,
    max_size=30,
)


def expected(data: bytes, begin: int, end: int) -> tuple[list[tuple[int, int, int, int]], bool]:
    """Fields of one message, as far as they are sound, and whether all are."""
    rows = []
    try:
        for number, value in fields(data, (begin, end)):
            if isinstance(value, tuple):
                rows.append((number, 0, *value))
            else:
                rows.append((number, value - (1 << 64) if value >> 63 else value, -1, -1))
    except WireError:
        return rows, False
    return rows, True


def check(messages: list[bytes]) -> None:
    """Compare all fields of messages that lie one behind the other with those of each."""
    end = np.cumsum([len(message) for message in messages], dtype=np.int64)
    begin = end - np.array([len(message) for message in messages], np.int64)
    data = b"".join(messages)
    columns = Fields(np.frombuffer(data + bytes(PADDING), np.uint8), begin, end)
    rows: dict[int, list[tuple[int, int, int, int]]] = {}
    broken = 0
    for message, span in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        own, sound = expected(data, *span)
        broken += not sound
        for number, *others in own:
            rows.setdefault(number, []).append((message, *others))
    assert columns.broken == broken
    assert {number: count for number, count in columns.counts().items() if count} == {
        number: len(each) for number, each in rows.items()
    }
    for number, each in rows.items():
        every = columns.occurrences(number)
        parts = (part.tolist() for part in (every.owner, every.value, every.begin, every.end))
        assert list(zip(*parts, strict=True)) == each
        last = {row[0]: row[1:] for row in each}
        texts = [last.get(message, (0, -1, -1))[1:] for message in range(len(messages))]
        assert list(zip(*(part.tolist() for part in columns.contents(number)), strict=True)) == texts
        values = [last.get(message, (-7,))[0] for message in range(len(messages))]
        assert columns.ints(number, -7).tolist() == values
        assert columns.has(number).tolist() == [message in last for message in range(len(messages))]


@pytest.fixture
def _blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protobuf, "_AT_ONCE", 50)


SHARED = settings(max_examples=draws(30))


@pytest.mark.usefixtures("_blocks")
@given(MESSAGES)
@SHARED
def test_fields_are_those_of_each_message(messages: list[bytes]) -> None:
    check(messages)


@pytest.mark.usefixtures("_blocks")
@given(DAMAGED)
@SHARED
def test_fields_before_damage_are_kept(messages: list[bytes]) -> None:
    """Types and numbers that do not exist, groups, numbers without an end, and what is cut."""
    check(messages)


def test_very_many_messages_alike() -> None:
    numbers = np.random.default_rng(3).integers(0, 2**63, 40_000).tolist()
    kinds = (
        lambda n: one(8, n, 0) + one(53, one(2, b"kernel", 2), 2),
        lambda n: one(8, n >> 40, 0) + one(47, n, 1) + one(4, b"x" * (n % 300), 2) + one(4, b"", 2),
        lambda n: one(8, n, 0)[: n % 7],
        lambda n: one(3_000, n % 90, 0) + one(1, n % 3, 0),
    )
    check([kinds[n % 31 % 4](n) for n in numbers])


@given(st.lists(st.tuples(st.sampled_from([1, 2, 3, 4, 5]), st.binary(max_size=6)), max_size=8))
@settings(max_examples=draws(100))
def test_fields_are_those_that_googles_library_reads(rows: list[tuple[int, bytes]]) -> None:
    """Of messages with random bytes in them as well; groups, which it knows, are left out."""
    from google.protobuf import empty_pb2
    from google.protobuf.message import DecodeError
    from google.protobuf.unknown_fields import UnknownFieldSet

    messages = [
        b"".join(one(number, part, 2) + part for number, part in rows[:n]) for n in range(len(rows) + 1)
    ]
    for raw in filter(is_settled, messages):
        data = np.frombuffer(raw + bytes(PADDING), np.uint8)
        columns = Fields(data, np.array([0]), np.array([len(raw)]))
        message = empty_pb2.Empty()
        try:
            message.ParseFromString(raw)
        except DecodeError:
            assert columns.broken == 1
            continue
        if any(field.wire_type == 3 for field in UnknownFieldSet(message)):
            continue
        assert columns.broken == 0
        unknown = [(field.field_number, field.data) for field in UnknownFieldSet(message)]
        for number in {number for number, _ in unknown}:
            own = columns.occurrences(number)
            read = [
                value % (1 << 64) if begin < 0 else raw[begin:end]
                for value, begin, end in zip(
                    own.value.tolist(), own.begin.tolist(), own.end.tolist(), strict=True
                )
            ]
            assert read == [value for each, value in unknown if each == number]
