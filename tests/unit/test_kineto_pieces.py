"""Files are read in pieces of any length, and damage stays where it is."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from notebook_prof.readers import read_trace
from notebook_prof.readers.codec.numbers import exact_ns
from notebook_prof.readers.kineto import KinetoColumns, event_decoder
from notebook_prof.readers.kineto.reader import parse
from notebook_prof.trace import TABLES, ImportReport
from tests.frames import differences
from tests.unit.test_kineto_reader import op

TAIL = '], "deviceProperties": [{"id": 0, "name": "x"}, {"id": 1, "name": "y"}], "traceName": "t.json"}'


def in_parts(data: bytes, length: int) -> Iterator[bytes]:
    return (data[at : at + length] for at in range(0, len(data), length))


def parsed(data: bytes, length: int) -> tuple[KinetoColumns, dict[str, object], dict[str, int]]:
    report = ImportReport()
    result = parse(in_parts(data, length), report)
    return result.columns, result.metadata, {issue.code: issue.count for issue in report}


def same(a: KinetoColumns, b: KinetoColumns) -> None:
    for column in ("ts", "dur", "pid", "tid", "device", "stream", "correlation", "sequence", "fwd_thread"):
        np.testing.assert_array_equal(getattr(a, column), getattr(b, column), column)
    for column in ("name", "kind", "shapes", "dtypes", "concrete"):
        ours, theirs = getattr(a, column), getattr(b, column)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            texts = [np.array([*coded.values, None], object)[coded.codes] for coded in (ours, theirs)]
            np.testing.assert_array_equal(*texts, column)
    for column in ("ts", "addr", "size", "allocated", "device", "tid"):
        np.testing.assert_array_equal(getattr(a.memory, column), getattr(b.memory, column), column)


@pytest.mark.parametrize(("length", "chunk"), [(1 << 20, 1), (700, 5000), (97, 1), (1 << 20, 1 << 14)])
@pytest.mark.parametrize("name", ["mini_noschedule", "odd_names", "exception_and_jit", "threads"])
def test_pieces_of_any_length_give_the_same_columns(
    data: Path, monkeypatch: pytest.MonkeyPatch, name: str, length: int, chunk: int
) -> None:
    text = gzip.decompress((data / "torch213_cpu" / f"{name}.pt.trace.json.gz").read_bytes())
    whole, facts, issues = parsed(text, len(text))
    monkeypatch.setattr(event_decoder, "CHUNK_BYTES", chunk)
    columns, metadata, codes = parsed(text, length)
    same(columns, whole)
    assert metadata == facts
    assert codes == issues


def test_damage_costs_the_rows_around_it_only(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = gzip.decompress((data / "torch213_cpu" / "threads.pt.trace.json.gz").read_bytes())
    whole, _, _ = parsed(text, len(text))
    monkeypatch.setattr(event_decoder, "CHUNK_BYTES", 2000)
    at = text.index(b'"cat": "cpu_op"')
    columns, facts, issues = parsed(text[:at] + b'"cat" "cpu_op"' + text[at + 15 :], 4096)
    assert issues["broken-row"] == 1
    assert len(columns) == len(whole) - 1
    assert facts["host"]


def test_what_looks_like_a_boundary_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    nested = [{"name": "a", "ts": 1}, {"name": 'b"}, {"ph": "X"'}, {"ph": "X"}]
    rows = [op(f"op {i}", str(i), "1", inner=nested) for i in range(20)]
    text = ('{"schemaVersion": 1, "traceEvents": [' + ",".join(rows) + TAIL).encode()
    monkeypatch.setattr(event_decoder, "CHUNK_BYTES", 1)
    columns, facts, issues = parsed(text, 50)
    assert list(columns.name.values) == [f"op {i}" for i in range(20)]
    assert facts["devices"] == ["x", "y"]
    assert issues == {}


def test_gzip_is_undone_on_the_way(tmp_path: Path, data: Path) -> None:
    packed = (data / "torch213_cpu" / "mini_noschedule.pt.trace.json.gz").read_bytes()
    text = gzip.decompress(packed)
    path = tmp_path / "unknown"
    parts = b"".join(gzip.compress(text[at : at + 1000]) for at in range(0, len(text), 1000))
    plain = read_trace(data / "torch213_cpu" / "mini_noschedule.pt.trace.json.gz")
    for content, issues in (
        (parts, []),
        (parts + b"\0" * 999, []),
        (parts + b"more", ["bytes-after-gzip"]),
        (b"\xef\xbb\xbf" + text, []),
        (gzip.compress(packed), []),
    ):
        path.write_bytes(content)
        trace = read_trace(path)
        assert [issue.code for issue in trace.report] == issues
        for table in TABLES:
            assert differences(getattr(trace, table.name), getattr(plain, table.name)).empty


def test_numbers_that_lost_something_are_refused() -> None:
    for values in ([1712195495521130.0, 0.5], [0.5, None], [2**70], [0.5, 1e300]):
        assert exact_ns(values) is None
    assert exact_ns([1623212388426902, 0]).tolist() == [1623212388426902000, 0]  # type: ignore[union-attr]
