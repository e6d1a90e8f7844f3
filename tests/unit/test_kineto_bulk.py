"""Events in bulk: whatever is taken so is what the decoder makes of it."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notebook_prof.errors import NotebookProfError
from notebook_prof.readers.kineto import parser
from notebook_prof.readers.kineto.bulk import Bulk
from notebook_prof.readers.kineto.digits import microseconds_before, whole_before
from notebook_prof.readers.kineto.taking import Taker
from notebook_prof.readers.stream import in_pieces
from notebook_prof.trace import ImportReport
from tests import samples
from tests.damage import damaged
from tests.unit.test_kineto_crew import LARGE_BYTES, SAMPLES, exactly

EVENT = """
  {
    "ph": "X",
    "cat": "cpu_op",
    "name": "aten::conv2d",
    "pid": 5,
    "tid": 7,
    "ts": 4392371366199.943,
    "dur": 33378.570
    ,
    "args": {
      "External id": 5,"Sequence number": 40, "Fwd thread id": 0, "Record function id": 0, "Concrete Inputs": ["", "[1, 1]"], "Input type": ["float", "ScalarList"], "Input Dims": [[64, 3], []], "Ev Idx": 4
    }
  },"""  # noqa: E501
FILE = '{{"baseTimeNanoseconds": 17, "traceEvents": [{}\n  {{"ph": "M"}}]}}'


class Watch:
    """Counts parts that were taken in bulk and events in them that were not; or lets all be decoded.

    What cannot be taken in bulk is not looked at: it goes the way of the decoder in any case.
    """

    def __init__(self, decode: bool) -> None:
        self.decode = decode
        self.taken = self.odd = 0

    def take_bulk(self, taker: Taker, listed: memoryview) -> bool:
        prepared = taker.bulk.prepared(listed, taker._variant)
        if prepared is None:
            return False
        self.taken += 1
        self.odd += len(prepared.odd)
        if not self.decode:
            return TAKE_BULK(taker, listed)
        decoded = taker.take(listed, last=False)
        assert decoded is not None
        assert decoded.tail is None
        return True


TAKE_BULK = Taker.take_bulk


def parsed(pieces: Any, name: str, size: int, decode: bool) -> tuple[Any, Watch]:
    report, watch = ImportReport(), Watch(decode)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parser, "BULK_BYTES", size)
        patch.setattr(Taker, "take_bulk", lambda self, listed: watch.take_bulk(self, listed))
        patch.setattr(Bulk, "useful", True)
        try:
            found = parser.parse(pieces, report, name)
        except NotebookProfError as error:
            return repr(error), watch
    return (exactly(found.columns), found.facts, list(report)), watch


def both(text: bytes, size: int) -> Watch:
    ours, watch = parsed([text], "", size, decode=False)
    theirs, _ = parsed([text], "", size, decode=True)
    assert ours == theirs
    return watch


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_decoder_gives_the_same(sample: str) -> None:
    path = samples.path_of(sample)
    if not path.exists():
        pytest.skip(f"{path.name} is not here")
    if path.stat().st_size > LARGE_BYTES:
        pytest.skip("large: of each kind of file there is a small one")
    size = max(len(next(in_pieces(path, ImportReport()) or iter([b""]), b"")) // 5, 2000)
    found = [
        parsed(in_pieces(path, ImportReport()) or (), path.name, size, decode)[0] for decode in (False, True)
    ]
    assert found[0] == found[1]


def recorded(data: Path, name: str) -> bytes:
    return gzip.decompress((data / "torch213_cpu" / f"{name}.pt.trace.json.gz").read_bytes())


@pytest.mark.parametrize("name", ["cnn_adam", "threads"])
def test_all_that_torch_writes_is_taken(data: Path, name: str) -> None:
    text = recorded(data, name)
    _, watch = parsed([text], "", 60_000, decode=False)
    assert watch.taken >= len(text) // 75_000
    assert watch.odd == 0


@pytest.fixture(scope="module")
def some(data: Path) -> bytes:
    """The head of a file, operators, Python calls, memory, arrows, and the end."""
    text = recorded(data, "threads")
    begins = [0, *(text.index(mark, 60_000) for mark in (b'"python_function"', b'"[memory]"', b'"ph": "f"'))]
    parts = [text[: text.index(b"\n  },\n", 4000) + 5]]
    for begin in begins[1:]:
        start = text.index(b"\n  {\n", begin)
        parts.append(text[start : text.index(b"\n  },\n", start + 2500) + 5])
    return b"".join([*parts, text[text.rindex(b"\n  {\n") :]])


def test_the_part_that_is_damaged_is_taken_when_it_is_not(some: bytes) -> None:
    watch = both(some, 2500)
    assert watch.taken > 3
    assert watch.odd == 0


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_damage_is_not_taken_for_something_else(some: bytes, data: st.DataObject) -> None:
    both(data.draw(damaged(some)), 2500)


@settings(max_examples=50, deadline=None)
@given(at=st.integers(0, len(EVENT) - 1), put=st.sampled_from(list('0159-.,:"{}[]\\ \n\x00ex')))
def test_no_character_is_overlooked(at: int, put: str) -> None:
    changed = EVENT[:at] + put + EVENT[at + 1 :]
    both(FILE.format(EVENT + changed + EVENT * 2).encode(), 1400)


def replaced(old: str, new: str) -> str:
    assert old in EVENT
    return EVENT.replace(old, new)


@pytest.mark.parametrize(
    ("event", "odd"),
    [
        (EVENT, 0),
        (replaced("33378.570", "3.570"), 0),
        (replaced("4392371366199.943", "4392371366199"), 1),
        (replaced("33378.570", "33378.57"), 1),
        (replaced("33378.570", "033378.570"), None),
        (replaced("33378.570", "-33378.570"), 1),
        (replaced('"Fwd thread id": 0', '"Fwd thread id": 01'), None),
        (replaced('"Ev Idx": 4', '"Ev Idx": 04'), None),
        (replaced('"Ev Idx": 4', '"Ev Idx": 4, "Sequence number": 77'), 0),
        (replaced('"Sequence number": 40', '"Sequence number": 999999999999999999'), 0),
        (replaced('"Sequence number": 40', '"Sequence number": 9223372036854775807'), 0),
        (replaced('"Sequence number": 40', '"Sequence number": -40'), 0),
        (replaced('"Sequence number": 40', '"Sequence number": 40.0'), None),
        (replaced("4392371366199.943", "4392371366199999.943"), 0),
        (replaced("4392371366199.943", "9992371366199999.943"), 1),
        (replaced("aten::conv2d", "f(){lambda}::{\\n"), 0),
        (replaced('"Input Dims": [[64, 3], []]', '"Input Dims": "soon"'), 0),
        (replaced('"tid": 7', '"tid": "stream 7"'), 0),
        (replaced('"tid": 7', '"tid": 7, "ts": 3'), 1),
        (replaced('"Ev Idx": 4', '"device": {"Sequence number": 3}'), None),
        (EVENT[: EVENT.index('"args"')] + '"id": 3\n  },', 1),
        ('\n  {"ph": "C", "name": "a", "ts": 1, "args": {"b": 2}},' + EVENT, None),
        (EVENT + '\n  {"ph": "X", "name": "a", "ts": 1, "dur": 2},', None),
    ],
)
def test_an_event_that_is_another_way_is_decoded(event: str, odd: int | None) -> None:
    text = FILE.format(EVENT * 2 + event + EVENT * 3)
    begin = text.index("[")
    watch = both(text.encode(), len(EVENT) * 5 + len(event) - begin)
    assert watch.taken == (0 if odd is None else 1)
    assert watch.odd == (odd or 0)


def test_what_is_distinct_in_each_event_is_left_to_the_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("notebook_prof.readers.kineto.bulk._FEW_DISTINCT", 20)
    monkeypatch.setattr(parser, "BULK_BYTES", 5000)
    tried = []
    real = Bulk.prepared

    def noted(self: Bulk, *told: Any) -> Any:
        tried.append(real(self, *told))
        return tried[-1]

    monkeypatch.setattr(Bulk, "prepared", noted)
    events = "".join(EVENT.replace("[64, 3]", f"[64, {i}]") for i in range(200))
    columns = parser.read_columns(FILE.format(events).encode(), ImportReport())
    assert len(columns) == 200
    assert len(tried) < 5


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 10**15 - 1), min_size=1, max_size=30))
def test_numbers_of_any_length_are_read(numbers: list[int]) -> None:
    for texts, read in (
        ([f"{n}.{n % 1000:03d}" for n in numbers], lambda *told: microseconds_before(*told)[0]),
        ([str(n) for n in numbers], whole_before),
    ):
        text = " " * 24 + " ".join(texts)
        length = np.array([len(each) for each in texts])
        end = 24 + np.cumsum(length + 1) - 1
        expected = [int(each.replace(".", "")) for each in texts]
        assert read(np.frombuffer(text.encode(), np.uint8), end, length).tolist() == expected
