"""CSV files of rocprofv3, against the database of the same run and what a plain reading of them gives."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from notebook_prof import Trace, read_trace
from notebook_prof.errors import FormatError
from notebook_prof.formats.rocm.csv_kinds import kind_of
from tests import samples

FOLDER = samples.ROOTS["shared"] / "rocprof"
RUN = "v3_gfx1151_decode"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the shared recordings are not here")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for name in ("kernel_trace", "hip_api_trace"):
        shutil.copy(FOLDER / f"{RUN}_{name}.csv", tmp_path / f"{RUN}_{name}.csv")
    return tmp_path


def table(trace: Trace, keep: pd.Series) -> pd.DataFrame:
    columns = ["ts", "dur", "name", "category", "device", "stream", "correlation"]
    rows = trace.slices[keep][columns]
    rows = rows.assign(ts=rows["ts"] + trace.metadata["start_unix_ns"])
    rows = rows.astype(dict.fromkeys(("name", "category"), "object"))
    return rows.astype("str").sort_values(columns, ignore_index=True)


def test_a_folder_is_what_the_database_of_the_run_is(run: Path) -> None:
    """The database holds the same rows and three copies more."""
    trace, database = read_trace(run), read_trace(FOLDER / "rocpd_decode_results.db.xz")
    assert trace.metadata["source"] == "rocm_csv"
    own = table(trace, trace.slices["category"] != "memcpy")
    called_copies = trace.slices["category"].isin(["launch", "overhead"])
    assert len(own) == 144 + 920
    pd.testing.assert_frame_equal(
        table(trace, ~called_copies), table(database, database.slices["category"].isin(["kernel", "sync"]))
    )
    calls = table(database, database.slices["category"].isin(["launch", "overhead"]))
    ours = table(trace, called_copies)
    pd.testing.assert_frame_equal(ours.drop(columns="category"), calls.drop(columns="category"))

    def launches(of: Trace) -> list[tuple[int, int]]:
        s = of.slices
        ends = ((s.iloc[row["src"]], s.iloc[row["dst"]]) for _, row in of.flows.iterrows())
        start = of.metadata["start_unix_ns"]
        return sorted(
            (int(a["ts"]) + start, int(b["ts"]) + start) for a, b in ends if b["category"] == "kernel"
        )

    assert launches(trace) == launches(database)
    assert len(launches(trace)) == 27
    events, others = (each.metadata["tables"]["device_events"] for each in (trace, database))
    others = others[others["kind"] == "kernel"]
    facts = ["start_unix_ns", "grid", "block", "registers_per_thread", "shared_memory_bytes"]
    left, right = (
        part[facts].astype("str").sort_values(facts, ignore_index=True) for part in (events, others)
    )
    pd.testing.assert_frame_equal(left, right)


SINGLE = (
    "v3_gfx1151_decode_kernel_trace v3_gfx1151_decode_hip_api_trace v3_docs_hip_trace v3_docs_kernel_trace "
    "v3_docs_marker_api_trace v3_docs_memory_copy_trace"
)


@pytest.mark.parametrize("name", SINGLE.split())
def test_a_single_file_has_the_figures_of_its_rows(name: str) -> None:
    trace = read_trace(FOLDER / f"{name}.csv")
    oracle = json.loads((FOLDER / f"{name}.csv.oracle.json").read_text())
    assert len(trace.slices) == oracle["rows"]
    assert trace.slices["dur"].sum() == oracle["total_ns"]
    assert trace.metadata["start_unix_ns"] == oracle["first_ts"]
    if "copy" not in name:
        sums = trace.slices.groupby("name", observed=True)["dur"].agg(["count", "sum"])
        for row in oracle["top5"]:
            assert sums.loc[row["name"]].tolist() == [row["count"], row["total_ns"]]


def test_other_files_are_none_of_it() -> None:
    """A carriage return inside of a line is an error of Python's csv, and not of who asks."""
    inside = b"austin\rbinary, \xff\x00\n1,2\n"
    database = b"SQLite format 3\0\x10,_\r\0\n"
    for head in (database, b'"Domain,"Function_\r,\x80\n', inside, b"a,b_c\n", b"\n", b""):
        assert kind_of(head) is None


def test_markers_allocations_and_counted_kernels() -> None:
    trace = read_trace(FOLDER / "v3_docs_marker_api_trace.csv")
    assert set(trace.slices["category"]) == {"annotation"}
    assert "hipMemcpy" in set(trace.slices["name"])
    allocations = read_trace(FOLDER / "v3_docs_memory_allocation_trace.csv").allocations
    assert allocations["bytes"].tolist() == [1024, 1024, -1024, -1024]
    assert allocations["addr"].tolist()[:2] == [0x7FFB26354000, 0x7FFB168D6000]
    path = FOLDER / f"{RUN}_stall_counter_collection.csv"
    trace, rows = read_trace(path), pd.read_csv(path)
    once = rows.drop_duplicates("Dispatch_Id")
    assert trace.slices["dur"].sum() == (once["End_Timestamp"] - once["Start_Timestamp"]).sum()
    assert trace.report["table-not-used"].count == len(rows)


def test_agents_and_several_processes(run: Path) -> None:
    """The table of agents numbers the GPUs; processes with kernels are ranks."""
    text = (run / f"{RUN}_kernel_trace.csv").read_text()
    (run / f"{RUN}_kernel_trace.csv").unlink()
    agents = '"Node_Id","Logical_Node_Id","Agent_Type","Logical_Node_Type_Id"\n'
    agents += '0,0,"CPU",0\n1,1,"GPU",0\n2,2,"GPU",1\n'
    for number, agent in ((7, "Agent 2"), (8, "Agent 1")):
        (run / "host").mkdir(exist_ok=True)
        (run / "host" / f"{number}_kernel_trace.csv").write_text(text.replace("Agent 1", agent))
        (run / "host" / f"{number}_agent_info.csv").write_text(agents)
    (run / "host" / "7_kernel_stats.csv").write_text('"Name","Calls"\n"a",1\n')
    trace = read_trace(run)
    streams = trace.tracks[trace.tracks["kind"] == "stream"]
    assert sorted(zip(streams["rank"], streams["device"], strict=True)) == [(0, 1), (1, 0)]
    assert trace.report["file-not-used"].example == "host/7_kernel_stats.csv"


def test_damage_is_counted(run: Path) -> None:
    path = run / f"{RUN}_kernel_trace.csv"
    lines = path.read_text().splitlines(keepends=True)
    lines[5] = lines[5].partition('","')[0] + '"\n'
    lines[7] = lines[7].replace(lines[7].split('","')[9], "soon")
    path.write_text("".join(lines)[:-9])
    trace = read_trace(path)
    assert trace.report["broken-row"].count == 3
    assert len(trace.slices) == 144 - 3
    path.write_text(lines[0])
    with pytest.raises(FormatError, match="have no rows"):
        read_trace(path)


def test_scratch_memory_is_not_used_and_json_is_named(run: Path, tmp_path: Path) -> None:
    header = "Kind,Operation,Agent_Id,Queue_Id,Thread_Id,Alloc_Flags,Start_Timestamp,End_Timestamp\n"
    rows = 'SCRATCH_MEMORY,SCRATCH_MEMORY_ALLOC,"Agent 4",1,7,0,5,9\n' * 2
    before = len(read_trace(run).slices)
    name = next(file.name for file in run.iterdir() if "kernel_trace" in file.name)
    (run / name.replace("kernel_trace", "scratch_memory_trace")).write_text(header + rows)
    trace = read_trace(run)
    assert "scratch_memory_trace" in trace.report["file-not-used"].example
    assert len(trace.slices) == before
    alone = tmp_path / "unknown"
    alone.write_text(json.dumps({"rocprofiler-sdk-tool": [{"metadata": {"pid": 1}, "buffer_records": {}}]}))
    with pytest.raises(FormatError, match=r"rocprofv3's JSON.*--output-format rocpd"):
        read_trace(alone)
