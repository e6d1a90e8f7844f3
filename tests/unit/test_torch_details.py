"""How kernels were launched and what moved: from a live recording, which is played, as from its file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from notebook_prof.analysis import copies, kernels, trust
from notebook_prof.collectors.torch import result
from notebook_prof.readers.kineto import assemble, read_columns
from notebook_prof.readers.kineto.activity_metadata import attribute_tables
from notebook_prof.readers.kineto.columns import KinetoColumns
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.trace.report import ImportReport

from ..played_kineto import Activity, Event, Result

FILES = (
    "hta/nccl_data.json.gz",
    "kineto_sync/after_fix_trace.json",
    "tracelens/h100/gaunernst_bert-small-uncased__1016001.json.gz",
    "tracelens/mi300/gaunernst_bert-small-uncased__1016001.json.gz",
)


def columns_of(source: Any, report: ImportReport | None = None) -> KinetoColumns:
    report = report if report is not None else ImportReport()
    return result.take(source, Event, report, shapes=False, memory=False, device=True, pid=1, threads={})


def sealed(columns: KinetoColumns) -> Trace:
    assemble(columns, builder := TraceBuilder())
    return builder.seal()


def text_of(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def ordered(table: pd.DataFrame) -> pd.DataFrame:
    text = table.astype(dict.fromkeys(table.select_dtypes("category"), "str"))
    keys = [name for name in text if name in ("device", "stream") or name.startswith("start")]
    return text.sort_values([*keys, *(["name"] if "name" in text else [])], ignore_index=True)


@pytest.mark.parametrize("name", FILES)
def test_a_live_recording_tells_what_its_file_tells(name: str, shared_traces: Path) -> None:
    path = shared_traces / name
    live = attribute_tables(columns_of(Result(path)))
    filed = attribute_tables(read_columns(text_of(path), ImportReport()))
    assert len(filed["device_events"]) >= 3
    assert ("collectives" in filed) == ("collectives" in live) == ("nccl" in name)
    for table in filed.keys() & {"device_events", "collectives"}:
        pd.testing.assert_frame_equal(ordered(live[table]), ordered(filed[table]), check_dtype=False)


def test_analyses_of_a_live_recording_have_bytes_and_occupancy(shared_traces: Path) -> None:
    path = shared_traces / FILES[2]
    live, filed = sealed(columns_of(Result(path))), sealed(read_columns(text_of(path), ImportReport()))
    moved = copies(live)
    assert moved["bytes"].notna().all()
    pd.testing.assert_frame_equal(moved, copies(filed))
    ours, theirs = (kernels(each).set_index("name")["occupancy"].sort_index() for each in (live, filed))
    assert ours.max() == 0.27
    pd.testing.assert_series_equal(ours, theirs)


CALL = {"ph": "X", "cat": "cuda_runtime", "pid": 9, "tid": 9, "dur": 5}
WORK = {"ph": "X", "cat": "kernel", "pid": 0, "dur": 10}


def replays(count: int = 3) -> list[dict[str, Any]]:
    """A graph of two nodes on two streams, the second of high priority, and one kernel outside it."""
    rows: list[dict[str, Any]] = []
    for at in range(count):
        begin, arguments = 100 * at, {"correlation": at + 1, "device": 0, "graph id": 3}
        rows.append(CALL | {"name": "cudaGraphLaunch", "ts": begin, "args": {"correlation": at + 1}})
        for node, stream, name in ((1, 7, "gemm"), (2, 9, "add")):
            args = arguments | {"stream": stream, "priority": -5 * (node - 1)}
            args["graph node id"] = (3 << 32) + node
            rows.append(WORK | {"name": name, "tid": stream, "ts": begin + 10 * node, "args": args})
    alone = {"correlation": 99, "device": 0, "stream": 7, "graph id": 0, "graph node id": 0, "priority": 0}
    rows.append(CALL | {"name": "cudaLaunchKernel", "ts": 900, "args": {"correlation": 99}})
    rows.append(WORK | {"name": "gemm", "tid": 7, "ts": 910, "args": alone})
    return rows


@pytest.mark.parametrize("way", ["file", "live"])
def test_graphs_nodes_and_priorities(way: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": replays()}))
    columns = columns_of(Result(path)) if way == "live" else read_columns(path.read_bytes(), ImportReport())
    trace = sealed(columns)
    streams = trace.tracks[trace.tracks["kind"] == "stream"]
    assert set(streams["name"]) == {"GPU 0 stream 7", "GPU 0 stream 9 (priority -5)"}
    table = kernels(trace, by=["name", "graph", "graph_node", "priority"])
    counts = table.set_index(["name", "graph", "graph_node", "priority"])["count"]
    assert counts[("gemm", 3, (3 << 32) + 1, 0)] == 3
    assert counts[("add", 3, (3 << 32) + 2, -5)] == 3
    alone = table[table["graph"].isna()]
    assert (len(table), alone["count"].tolist(), alone["graph_node"].isna().all()) == (3, [1], True)


def test_kernels_of_a_graph_hang_on_the_call_that_launches_graphs(tmp_path: Path) -> None:
    """CUPTI before 13.1 U1 numbers them wrongly in later recordings of a process."""
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": replays()}))
    good = sealed(read_columns(path.read_bytes(), ImportReport()))
    assert "graph-launch-wrong" not in set(trust(good)["code"])
    path.write_text(path.read_text().replace("cudaGraphLaunch", "cudaMemcpyAsync"))
    trace = sealed(read_columns(path.read_bytes(), ImportReport()))
    row = trust(trace).set_index("code").loc["graph-launch-wrong"]
    assert (row["severity"], row["count"], row["device_share"]) == ("loss", 6, pytest.approx(6 / 7))
    assert "CUPTI before 13.1 Update 1" in row["advice"]


class Broken(Activity):
    """Tells something that is no JSON, once."""

    def metadata_json(self) -> str:
        return "no json" if self._ts == 910_000 else super().metadata_json()


class BrokenResult(Result):
    def trace_activities(self) -> list[Activity]:
        return [Broken(row, self._base) for row in self._rows]


def test_what_cannot_be_read_is_counted_and_the_rest_is_kept(tmp_path: Path) -> None:
    path, report = tmp_path / "trace.json", ImportReport()
    path.write_text(json.dumps({"traceEvents": replays()}))
    columns = columns_of(BrokenResult(path), report)
    assert report["details-unreadable"].count == 1
    assert attribute_tables(columns)["device_events"]["graph"].tolist() == [3] * 6
    assert len(columns) == 3 + 6 + 2
