"""JAX's recordings: xplane against JAX's own JSON of the same run, and against JAX's own decoder."""

import gzip
import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from notebook_prof import NotebookProfError, Trace, read_trace
from notebook_prof.analysis import device, kernels, operators, steps, verdict
from notebook_prof.errors import FormatError
from notebook_prof.formats.jax import xplane
from notebook_prof.trace import ImportReport

COLUMNS = ["ts", "dur", "name", "category", "step", "module", "self_ns"]


@pytest.fixture
def folder(data: Path) -> Path:
    return data / "jax_cpu"


def rows(trace: Trace) -> pd.DataFrame:
    table = trace.slices[COLUMNS].astype({"name": "object", "category": "object", "module": "object"})
    order = ["ts", "dur", "name", "category"]
    return table.sort_values(order, ignore_index=True)


def test_xplane_and_json_give_the_same_slices(folder: Path) -> None:
    planes = read_trace(folder / "vm.xplane.pb.gz")
    text = read_trace(folder / "vm.trace.json.gz")
    assert planes.metadata["source"] == text.metadata["source"] == "jax"
    assert not planes.report
    assert not text.report
    assert len(planes) == 359 + 88 + 82 + 508
    pd.testing.assert_frame_equal(rows(planes), rows(text))
    assert set(planes.tracks["name"]) == set(text.tracks["name"])
    # the wall clock is in the planes only
    assert planes.metadata["start_unix_ns"] == 1795250314707983678 + 10165
    assert planes.metadata["jax_version"] == "0.10.2"


def test_the_verdict_counts_what_xla_ran_while_python_waited(folder: Path) -> None:
    trace = read_trace(folder / "vm.xplane.pb.gz")
    result = verdict(trace)
    assert result.kind == "compute-bound"
    # all of XLA's operators lie in the steps, and none while a Python frame works
    slices = trace.slices[trace.slices["category"] == "operator"]
    pieces = sorted(zip(slices["ts"], slices["ts"] + slices["dur"], strict=True))
    covered, at = 0, 0
    for start, end in pieces:
        covered, at = covered + max(0, end - max(start, at)), max(at, end)
    hidden_ns = result.share * trace.steps["dur"].sum()
    assert hidden_ns == pytest.approx(covered, rel=0.02)
    assert hidden_ns <= covered


def test_steps_operators_and_frames(folder: Path) -> None:
    trace = read_trace(folder / "vm.xplane.pb.gz")
    assert trace.steps["step"].tolist() == list(range(8))
    assert trace.steps["dur"].tolist()[:2] == [1_598_275, 824_381]
    assert set(trace.steps["source"]) == {"file"}
    assert steps(trace)["step"].tolist() == list(range(8))
    table = operators(trace).set_index("name")
    assert (table.loc["dot.1", "count"], table.loc["dot.1", "total_ns"]) == (8, 467_056)
    hlo = trace.metadata["tables"]["hlo_ops"]
    assert set(hlo["hlo_module"]) == {"jit_train_step"}
    assert hlo["count"].sum() == (trace.slices["category"] == "operator").sum() == 240
    modules = trace.slices["module"][trace.slices["category"] == "operator"]
    assert set(modules.astype(str)) == {"jit_train_step"}
    python = trace.slices[trace.slices["category"] == "python"]
    frame = python[python["name"] == "profiler.py:151 start_trace"].iloc[0]
    stack = trace.stacks.set_index("stack").loc[frame["stack"]]
    assert (stack["name"], stack["file"], stack["line"]) == ("start_trace", "profiler.py", 151)


def arguments(trace: Trace) -> pd.DataFrame:
    table = trace.metadata["tables"]["event_arguments"]
    parsed = [json.loads(text) for text in table["arguments"]]
    return table.assign(parsed=parsed).sort_values(["start_unix_ns", "dur_ns", "track"], ignore_index=True)


def test_annotations_keep_what_they_were_called_with(folder: Path) -> None:
    planes = arguments(read_trace(folder / "vm.xplane.pb.gz"))
    text = arguments(read_trace(folder / "vm.trace.json.gz"))
    batch = planes[planes["name"] == "make_batch"]
    assert batch["parsed"].tolist() == [{"batch": 256}] * 8
    # the JSON has all of them as text, and lacks the number of the program
    rows = json.loads(gzip.decompress((folder / "vm.trace.json.gz").read_bytes()))["traceEvents"]
    elsewhere = {"step_num", "hlo_module"}
    want = [row["args"].keys() - elsewhere for row in rows if row.get("ph") == "X" and "args" in row]
    assert len(planes) == len(text) == sum(map(bool, want)) == 689
    for ours, theirs in zip(planes["parsed"], text["parsed"], strict=True):
        ours.pop("program_id", None)
        assert {name: str(value) for name, value in ours.items()} == theirs


def test_arguments_of_devices_and_of_metadata(shared_traces: Path) -> None:
    table = arguments(read_trace(shared_traces / "jax_gpu_rocm" / "tw003.xplane.pb"))
    kernels = [each for each in table["parsed"] if "kernel_details" in each]
    assert len(kernels) == 235
    assert all(" grid:" in each["kernel_details"] for each in kernels)
    assert sum("allocation_bytes" in each for each in table["parsed"]) == 230


def test_the_kernels_of_eight_gpus_have_launches(shared_traces: Path) -> None:
    trace = read_trace(shared_traces / "jax_gpu_rocm" / "tw003.xplane.pb")
    assert not trace.report
    kinds = trace.slices["category"].value_counts()
    assert (kinds["kernel"], kinds["memcpy"], kinds["launch"]) == (200, 35, 234)
    assert (trace.flows["kind"] == "launch").sum() == 235
    assert sorted(device(trace)["device"]) == list(range(8))
    top = kernels(trace).iloc[0]
    assert top["total_ns"] > 0
    streams = trace.tracks[trace.tracks["kind"] == "stream"]
    assert {"GPU 0 stream 15", "GPU 7 stream 37"} <= set(streams["name"])
    assert trace.metadata["planes"]["/device:GPU:0"]["core_count"] == 304


def test_content_decides_and_log_folders_open(folder: Path, tmp_path: Path) -> None:
    packed = folder / "vm.xplane.pb.gz"
    for name, content in (("unknown", gzip.decompress(packed.read_bytes())), ("a.json", packed.read_bytes())):
        (tmp_path / name).write_bytes(content)
        assert len(read_trace(tmp_path / name)) == 1037
    (tmp_path / "none.pb").write_bytes(b"\x0a\x05" + b"1.0.2" + b"\x10\x01")
    with pytest.raises(NotebookProfError):
        read_trace(tmp_path / "none.pb", format="jax")
    logs = tmp_path / "logs"
    for run in ("2026_11_21_08_00_00", "2026_11_21_09_00_00"):
        profile_folder = logs / "plugins" / "profile" / run
        profile_folder.mkdir(parents=True)
        (profile_folder / "vm.xplane.pb").write_bytes(gzip.decompress(packed.read_bytes()))
        shutil.copy(folder / "vm.trace.json.gz", profile_folder / "vm.trace.json.gz")
    trace = read_trace(logs)
    assert len(trace) == 1037
    assert trace.report["older-runs"].example.endswith("08_00_00")
    (profile_folder / "vm2.xplane.pb").write_bytes(gzip.decompress(packed.read_bytes()))
    both = read_trace(profile_folder)
    assert len(both) == 2 * 1037
    assert sorted(both.tracks["rank"].unique()) == [0, 1]


def test_a_file_that_breaks_off_gives_what_it_has(folder: Path, tmp_path: Path) -> None:
    content = gzip.decompress((folder / "vm.xplane.pb.gz").read_bytes())
    (tmp_path / "short").write_bytes(content[:-40])
    trace = read_trace(tmp_path / "short")
    assert len(trace) == 1037
    assert "truncated-file" in trace.report


def test_jax_and_our_decoder_agree(folder: Path) -> None:
    profiler = pytest.importorskip("jax.profiler", reason="JAX is not installed")
    content = gzip.decompress((folder / "vm.xplane.pb.gz").read_bytes())
    planes = profiler.ProfileData.from_serialized_xspace(content).planes
    theirs = [(plane.name, line.name, list(line.events)) for plane in planes for line in plane.lines]
    ours = xplane.decode(content, ImportReport()).lines
    assert [(plane, name, len(events)) for plane, name, events in theirs] == [
        (line.plane, line.name, len(line.ts)) for line in ours
    ]
    for (_, _, events), line in zip(theirs, ours, strict=True):
        assert [int(event.start_ns) for event in events] == line.ts.tolist()
        assert [int(event.duration_ns) for event in events] == line.dur.tolist()
        assert [event.name for event in events] == [line.names.values[i] for i in line.names.codes]
        for key, values in line.stats.items():
            told = [dict(event.stats).get(key) for event in events]
            assert list(map(str, told)) == list(map(str, values))


def test_a_thread_that_no_system_has_costs_the_others_nothing(folder: Path, tmp_path: Path) -> None:
    file = json.loads(gzip.decompress((folder / "vm.trace.json.gz").read_bytes()))
    row = next(row for row in file["traceEvents"] if row.get("ph") == "X")
    file["traceEvents"].append({**row, "tid": 1 << 63})
    (tmp_path / "unknown").write_text(json.dumps(file))
    ours, whole = read_trace(tmp_path / "unknown"), read_trace(folder / "vm.trace.json.gz")
    assert len(ours) == len(whole) + 1
    assert set(ours.tracks["tid"]) >= set(whole.tracks["tid"])


def test_profiles_above_two_gigabytes_and_riegeli_are_named(tmp_path: Path) -> None:
    empty = tmp_path / "host.xplane.pb"
    empty.write_bytes(b"")
    with pytest.raises(FormatError, match=r"exceeds 2 GB: record fewer steps, or open the \.trace\.json\.gz"):
        read_trace(empty)
    records = tmp_path / "unknown"
    records.write_bytes(bytes.fromhex("83af70d10d884a3f") + bytes(56))
    with pytest.raises(FormatError, match=r"Riegeli.*jax\.profiler\.trace"):
        read_trace(records)
    run = tmp_path / "plugins" / "profile" / "run"
    run.mkdir(parents=True)
    records.rename(run / "host.xplane.riegeli")
    with pytest.raises(FormatError, match="Riegeli"):
        read_trace(run)
    empty.rename(run / "host.xplane.pb")
    events = [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/host:CPU"}},
        {"ph": "X", "pid": 1, "tid": 2, "ts": 0, "dur": 5, "name": "work"},
    ]
    copy = run / "host.trace.json.gz"
    copy.write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    trace = read_trace(run)
    assert trace.slices["name"].tolist() == ["work"]
    assert trace.report["empty-file"].count == 1
