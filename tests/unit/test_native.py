"""Our own format: what comes back is equal, and what is not whole is refused."""

from __future__ import annotations

import json
import shutil
import zipfile
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notebook_prof import Trace, TraceBuilder, read_trace
from notebook_prof.errors import FormatError, NotebookProfError, OptionError
from notebook_prof.readers.native import FrameReader
from notebook_prof.trace import TABLES
from notebook_prof.trace.arrays import FIRST, LAST, SCHEMA
from notebook_prof.writers.native import write_native
from notebook_prof.writers.values import ValueEncoder
from tests.strategies import traces

from ..draws import draws
from ..new_process import run_python

KINDS = ("run.nbprof", "run.nbprof.zip")
QUICK = settings(max_examples=draws(25))


def assert_same(again: Trace, trace: Trace) -> None:
    for table in TABLES:
        pd.testing.assert_frame_equal(getattr(again, table.name), getattr(trace, table.name))
    assert again.span == trace.span
    assert list(again.report) == list(trace.report)


def full_trace() -> Trace:
    """Everything that a Trace can hold, also what is rare."""
    b = TraceBuilder(metadata={"source": "recording", "steps_requested": (3, None)})
    main = b.track("main", pid=1, tid=2, rank=0)
    stream = b.track("", "stream", device=0, stream=7)
    stack = b.stack([("main", "a.py", 1), ("f", "a.py", 7)])
    host = b.slices(
        ts=[10, 12, 20],
        dur=[30, 3, 0],
        track=main,
        name=["fit", "mm", "naïve 中文 \x00 \u2028"],
        phase=["forward", None, None],
        shapes=["[[1, 2]]", None, None],
        module=["net.0", None, None],
        stack=[-1, stack, -1],
        correlation=[-1, 5, 6],
    )
    work = b.slices(
        ts=[16], dur=[9], track=stream, name=["gemm<float>"], category="kernel", device=0, stream=7
    )
    b.flows("launch", host[1], work)
    b.steps([0, 1], [10, 20], [10, 20], "loop")
    b.counter(b.track("power", "counter", unit="W"), [11, 12], [1.5, np.nan])
    blocks = {"addr": np.array([2**64 - 1, 7], np.uint64), "bytes": [8, -8], "allocated": [8, 0]}
    b.allocations(ts=[11, 13], device=[0, -1], reserved=64, track=main, **blocks)
    b.report.add("something-lost", "loss", 3, "this", "that", "do")
    return b.seal()


def extended(trace: Trace) -> Trace:
    """The same with extra columns and metadata of all kinds."""
    tables = {table.name: getattr(trace, table.name) for table in TABLES}
    n = len(tables["slices"])
    tables["slices"] = tables["slices"].assign(
        flops=np.linspace(0, 1, n),
        half=np.arange(n).astype(np.float16),
        bytes=pd.array([1, None, 3, 4][:n], dtype="Int64"),
        sure=pd.array([True, None, False, True][:n], dtype="boolean"),
        when=np.arange(n).astype("datetime64[us]"),
        took=np.arange(n).astype("timedelta64[ns]"),
        args=[{"a": [1, (2,)]}, None, "x", 2**70][:n],
        same=[[1, 2], [3, 4], [5, 6], [7, 8]][:n],
        lone=pd.Series(["\ud800", "b", "c", "d"][:n], dtype=object),
        rank=pd.Categorical([3, 1, None, 3][:n], categories=[3, 2, 1], ordered=True),
        empty=pd.Categorical([None] * n),
        text=pd.Series(["a", None, "c", "d"][:n], dtype="string"),
    )
    frame = pd.DataFrame({"name": ["a", "b"], "total_ns": [1, 2]})
    deep = frame.set_index(["name", "total_ns"], drop=False)
    metadata = {
        **trace.metadata,
        "tables": {"summary": frame, "deep": deep},
        "none": frame.iloc[:0],
        "number": np.float32(0.1),
        "infinite": [float("inf"), float("-inf")],
        "big": -(2**80),
        "keys": {1: "one", (2, 3): None, "$": "dollar"},
        "$": "tag",
        "lone": "\udfff",
        "ok": True,
    }
    return Trace(tables, metadata=metadata, report=trace.report, span=trace.span)


@pytest.fixture(params=KINDS)
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / str(request.param)
    write_native(full_trace(), path)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_everything_comes_back_equal(kind: str, tmp_path: Path) -> None:
    trace = extended(full_trace())
    write_native(trace, tmp_path / kind)
    again = read_trace(tmp_path / kind)
    assert_same(again, trace)
    frames = ("tables", "none")
    for name, frame in trace.metadata["tables"].items():
        pd.testing.assert_frame_equal(again.metadata["tables"][name], frame)
    pd.testing.assert_frame_equal(again.metadata["none"], trace.metadata["none"])
    left = {key: value for key, value in again.metadata.items() if key not in frames}
    assert left == {key: value for key, value in trace.metadata.items() if key not in frames}
    assert list(again.metadata) == list(trace.metadata)
    assert list(again.slices["name"].cat.categories) == list(trace.slices["name"].cat.categories)
    assert again.slices["rank"].cat.ordered


@given(trace=traces(), zipped=st.booleans())
@QUICK
def test_any_trace_comes_back_equal(trace: Trace, zipped: bool, tmp_path: Path) -> None:
    path = tmp_path / KINDS[zipped]
    write_native(trace, path)
    again = read_trace(path)
    assert_same(again, trace)
    assert dict(again.metadata) == dict(trace.metadata)


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text(), inner)
        | st.dictionaries(st.integers() | st.tuples(st.integers()), inner)
        | st.tuples(inner, inner)
    ),
    max_leaves=10,
)


NOWHERE: Any = SimpleNamespace(content={"columns": {}})


@given(JSON_LIKE)
@QUICK
def test_any_value_comes_back_equal(value: Any) -> None:
    encoder = ValueEncoder(lambda frame: "")
    text = json.dumps(encoder.encode(value))
    assert FrameReader(NOWHERE).value(json.loads(text)) == value
    assert encoder.lost == []


def test_what_has_no_place_becomes_text_and_the_report_says_so(tmp_path: Path) -> None:
    b = TraceBuilder(metadata={"a": {"path": Path("x") / "y"}})
    loop: list[Any] = []
    loop.append(loop)
    b.metadata["loop"] = loop
    write_native(b.seal(), tmp_path / "run.nbprof")
    again = read_trace(tmp_path / "run.nbprof")
    assert again.metadata["a"] == {"path": str(Path("x") / "y")}
    assert again.report["metadata-as-text"].count == 2
    assert "metadata['a']['path']" in again.report["metadata-as-text"].example


def test_a_folder_that_somebody_zipped_opens_too(tmp_path: Path) -> None:
    write_native(full_trace(), tmp_path / "run.nbprof")
    for prefix, method in (("", zipfile.ZIP_DEFLATED), ("run.nbprof/", zipfile.ZIP_STORED)):
        with zipfile.ZipFile(tmp_path / "sent.zip", "w", method) as archive:
            for file in sorted((tmp_path / "run.nbprof").iterdir(), reverse=not prefix):
                archive.write(file, prefix + file.name)
        if not prefix:
            assert_same(read_trace(tmp_path / "sent.zip"), full_trace())


def test_names_of_columns_can_be_read_by_other_tools(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    write_native(full_trace(), tmp_path / "run.nbprof")
    table = parquet.read_table(tmp_path / "run.nbprof" / "slices.parquet").to_pydict()
    assert table["category"] == list(full_trace().slices["category"])
    assert table["parent"] == [None, 0, None, 0]


@pytest.mark.parametrize("lost", [LAST, "slices.parquet"])
def test_an_unfinished_folder_is_never_trusted(lost: str, tmp_path: Path) -> None:
    write_native(full_trace(), tmp_path / "run.nbprof")
    (tmp_path / "run.nbprof" / lost).unlink()
    message = "not written to its end" if lost == LAST else "'slices.parquet' is missing"
    with pytest.raises(FormatError, match=rf"^run\.nbprof: .*{message}"):
        read_trace(tmp_path / "run.nbprof")


def test_an_unfinished_zip_is_never_trusted(tmp_path: Path) -> None:
    write_native(full_trace(), tmp_path / "run.nbprof.zip")
    whole = (tmp_path / "run.nbprof.zip").read_bytes()
    for kept in (len(whole) - 1, len(whole) // 2, 200):
        (tmp_path / "part.zip").write_bytes(whole[:kept])
        with pytest.raises(FormatError, match="not written to its end"):
            read_trace(tmp_path / "part.zip")


@pytest.mark.parametrize("kind", KINDS)
def test_a_write_that_fails_leaves_what_was_there(kind: str, tmp_path: Path) -> None:
    path = tmp_path / kind
    write_native(full_trace(), path)

    class Full(dict):  # type: ignore[type-arg]
        def items(self) -> Any:
            raise OSError("no space left")

    bad = full_trace()
    broken = Trace({table.name: getattr(bad, table.name) for table in TABLES}, metadata={"tables": Full(a=1)})
    with pytest.raises(OSError, match="no space"):
        write_native(broken, path)
    assert_same(read_trace(path), full_trace())
    assert [entry.name for entry in tmp_path.iterdir()] == [kind]


@pytest.mark.parametrize("kind", KINDS)
def test_a_recording_may_be_replaced_and_nothing_else(kind: str, tmp_path: Path) -> None:
    path = tmp_path / kind
    write_native(TraceBuilder().seal(), path)
    write_native(full_trace(), path)
    assert_same(read_trace(path), full_trace())
    assert [entry.name for entry in tmp_path.iterdir()] == [kind]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("important")
    with pytest.raises(OptionError, match="'mine' is a folder with other files"):
        write_native(full_trace(), tmp_path / "mine")
    (tmp_path / "file").write_text("important")
    with pytest.raises(OptionError, match="'file' is a file"):
        write_native(full_trace(), tmp_path / "file")
    with pytest.raises(OptionError, match="there is no folder"):
        write_native(full_trace(), tmp_path / "absent" / "run.nbprof")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "important"


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (SCHEMA + 1, "newer notebook_prof: its schema is 3.*reads up to 2.*pip install --upgrade"),
        (0, "older notebook_prof: its schema is 0.*from 2 on"),
        ("one", "version of the recording cannot be read"),
    ],
)
def test_other_versions_get_a_sentence(schema: object, message: str, tmp_path: Path) -> None:
    path = tmp_path / "run.nbprof"
    write_native(full_trace(), path)
    for name in (FIRST, LAST):
        content = json.loads((path / name).read_text())
        (path / name).write_text(json.dumps({**content, "schema": schema}))
        with pytest.raises(FormatError, match=message):
            read_trace(path)


def test_rows_with_impossible_values_are_refused(tmp_path: Path) -> None:
    """Checksums are right: a depth of -1 ended in the picture of the timeline."""
    trace = full_trace()
    tables = {table.name: getattr(trace, table.name) for table in TABLES}
    wrong = [("parent", 1, 1), ("parent", 1, 99), ("parent", 0, 3), ("stack", 1, 2), ("track", 0, 9)]
    wrong += [("track", 0, -1), ("depth", 1, -1), ("depth", 1, 5), ("dur", 1, -1), ("ts", 1, 2**62)]
    for column, row, value in [*wrong, ("self_ns", 1, -5)]:
        changed = tables["slices"][column].copy()
        changed[row] = value
        slices = tables["slices"].assign(**{column: changed})
        write_native(Trace({**tables, "slices": slices}, span=trace.span), tmp_path / "x.zip")
        with pytest.raises(FormatError, match=f"slices.{column} of row {row} is {value}"):
            read_trace(tmp_path / "x.zip")


def test_a_damaged_file_of_a_zip_is_named_once(tmp_path: Path) -> None:
    path = tmp_path / "run.nbprof.zip"
    write_native(full_trace(), path)
    path.write_bytes(path.read_bytes().replace(b'"span"', b'"plan"', 1))
    with pytest.raises(FormatError) as caught:
        read_trace(path)
    assert str(caught.value).count("is damaged") == 1


def test_size_is_limited(saved: Path) -> None:
    with pytest.raises(FormatError, match="max_bytes="):
        read_trace(saved, max_bytes=1000)
    assert_same(read_trace(saved, max_bytes=10**6), full_trace())


def test_names_do_not_lead_out(tmp_path: Path) -> None:
    path = tmp_path / "run.nbprof"
    write_native(full_trace(), path)
    shutil.move(path / "slices.parquet", tmp_path / "slices.parquet")
    content = json.loads((path / LAST).read_text())
    content["files"]["../slices.parquet"] = content["files"]["slices.parquet"]
    content["metadata"]["stolen"] = {"$": "frame", "v": "../slices"}
    content["files"]["slices.parquet"] = {"bytes": 0, "crc32": 0}
    (path / LAST).write_text(json.dumps(content))
    with pytest.raises(FormatError, match="missing"):
        read_trace(path)
    (path / "slices.parquet").symlink_to(tmp_path / "slices.parquet")
    with pytest.raises(FormatError, match="link out of the folder"):
        read_trace(path)
    shutil.rmtree(path)
    write_native(full_trace(), path)
    whole = json.loads((path / LAST).read_text())
    whole["metadata"] = content["metadata"]
    whole["files"]["../slices.parquet"] = whole["files"]["slices.parquet"]
    (path / LAST).write_text(json.dumps(whole))
    with pytest.raises(FormatError, match="is not the name of a file of a recording"):
        read_trace(path)


EDIT = st.tuples(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=4))


@given(
    edits=st.lists(EDIT, min_size=1, max_size=3), swap=st.sampled_from([b"", b"null", b"-1", b'"x"', b"[]"])
)
@settings(max_examples=draws(40))
def test_damaged_metadata_never_does_harm(edits: Any, swap: bytes, tmp_path: Path) -> None:
    path = tmp_path / "run.nbprof"
    if not path.exists():
        write_native(extended(full_trace()), path)
        shutil.copy(path / LAST, tmp_path / "whole.json")
    data = (tmp_path / "whole.json").read_bytes()
    numbers = [i for i, byte in enumerate(data) if byte in b'0123456789{["']
    for share, patch in edits:
        at = numbers[int(share * len(numbers))] if swap else int(share * len(data))
        data = data[:at] + (swap or patch) + data[at + 1 :]
    (path / LAST).write_bytes(data)
    with suppress(NotebookProfError):
        assert isinstance(read_trace(path), Trace)


def beside_trace() -> Trace:
    """A cell with an account that begins before anything was recorded, and two loops."""
    b = TraceBuilder(metadata={"source": "recording"})
    b.slices(ts=[100], dur=[9], name=["mm"], track=b.track("main", pid=1, tid=2))
    b.steps([0, 1], [100, 110], [10, 5], "hook", loop=[0, 1])
    b.table("account", pd.DataFrame({"ts": [90, 100], "dur": [10, 40], "text": ["x = 1", "f()"]}))
    return b.seal()


@pytest.mark.parametrize("name", KINDS)
def test_tables_beside_come_back_with_their_times(name: str, tmp_path: Path) -> None:
    trace = beside_trace()
    trace.save(tmp_path / name)
    again = read_trace(tmp_path / name)
    assert_same(again, trace)
    pd.testing.assert_frame_equal(again.metadata["tables"]["account"], trace.metadata["tables"]["account"])
    assert again.metadata["table_times"] == {"account": ["ts"]}
    assert (again.span.end, again.steps["loop"].tolist()) == (50, [0, 1])


CUT = """
import os, sys
from notebook_prof import read_trace
from notebook_prof.readers.native import storage

raw = storage.Storage._raw_bytes

def cut(self, name):
    found = raw(self, name)
    for folder, _, files in os.walk(os.path.dirname(path)):
        for file in files:
            os.truncate(os.path.join(folder, file), 0)
    return found

storage.Storage._raw_bytes = cut
for path in sys.argv[1:]:
    try:
        read_trace(path)
    except Exception as error:
        print(type(error).__name__)
"""


def test_a_file_that_is_cut_while_it_is_read_does_not_end_the_process(tmp_path: Path) -> None:
    paths = [tmp_path / kind / kind for kind in KINDS]
    for path in paths:
        path.parent.mkdir()
        write_native(extended(full_trace()), path)
    assert {*run_python(CUT, *paths).stdout.split()} <= {"FormatError"}
