"""The reader of MegEngine's files, piece by piece."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from notebook_prof.errors import FormatError
from notebook_prof.readers import read_trace

NODE = 'CompNode("gpu1:0" from "gpux:0")'


def mark(ph: str, name: str, ts: float, tid: int = 1, cat: str | None = None, **args: Any) -> dict[str, Any]:
    row = {"name": name, "ph": ph, "pid": 5, "tid": tid, "ts": ts, "args": args}
    return {**row, "cat": cat} if cat else row


def thread(tid: int, name: str) -> dict[str, Any]:
    return {"name": "thread_name", "ph": "M", "pid": 5, "tid": tid, "args": {"name": name}}


def write(folder: Path, *events: dict[str, Any], **metadata: str) -> Path:
    path = folder / "5.chrome_timeline.json"
    names = [thread(1, "worker"), thread(0, "interpreter"), thread(2, "gpux:0")]
    path.write_text(json.dumps({"traceEvents": [*events, *names], "metadata": metadata}))
    return path


def test_arguments_are_on_the_end(tmp_path: Path) -> None:
    trace = read_trace(write(
        tmp_path,
        mark("B", "MatrixMul", 10.5),
        mark("B", "Input 3", 11.0),
        mark("E", "Input 3", 11.5, id=3, shape="{2,4}", dtype="Float32", device=NODE, nr_elements=8),
        mark("E", "MatrixMul", 20.25, __id__=77, __name__="MatrixMul", transposeA="0"),
        mark("B", "MatrixMul", 30, 2, "Kernel"),
        mark("E", "MatrixMul", 31.001, 2, "Kernel", __id__=77, __name__="MatrixMul"),
        mark("X", "TensorWaitProp", 5, 0) | {"dur": 2.0},
        localTime="1795249274061536970",
    ))  # fmt: skip
    host, kernel = (trace.slices[trace.slices["category"] == word].iloc[0] for word in ("operator", "kernel"))
    assert (host["correlation"], host["shapes"], host["dur"]) == (77, "[[2, 4]]", 9750)
    assert (kernel["dur"], kernel["device"], len(trace.flows)) == (1001, 1, 1)
    assert trace.metadata["start_unix_ns"] == 1795249274061536970 + 5000
    assert trace.metadata["tables"]["operators"]["params"].tolist() == ['{"transposeA":"0"}']


def test_unclosed_begins_last_to_the_end(tmp_path: Path) -> None:
    trace = read_trace(write(
        tmp_path,
        mark("B", "iter0", 0),
        mark("B", "backward", 1),
        mark("B", "fc", 2),
        mark("E", "fc", 3),
        mark("C", "nr_op_pending", 90.0, value=1),
    ))  # fmt: skip
    assert trace.report["unclosed-begin"].count == 2
    assert dict(zip(trace.slices["name"].astype(str), trace.slices["dur"], strict=True)) == {
        "iter0": 90_000,
        "backward": 89_000,
        "fc": 1_000,
    }
    assert trace.slices["phase"].astype(object).tolist()[1:] == ["backward", "backward"]
    assert trace.slices["category"].astype(str).tolist() == ["annotation", "annotation", "module"]


def test_memory_is_the_allocators_total(tmp_path: Path) -> None:
    trace = read_trace(write(
        tmp_path,
        mark("B", "ADD", 1),
        mark("C", "gpu1:0_alloc_mem", 0, value=100.0),
        mark("C", "gpu1:0_alloc_mem", 2, value=164.0),
        mark("E", "ADD", 3, __id__=1),
        mark("B", "Input 1", 4),
        mark("E", "Input 1", 5, device=NODE, id=1, shape="{}"),
        mark("C", "gpu1:0_alloc_mem", 6, value=None),
    ))  # fmt: skip
    assert trace.allocations[["bytes", "allocated", "device"]].values.tolist() == [[0, 100, 1], [64, 164, 1]]
    assert trace.slices["name"].astype(str)[trace.allocations["slice"].dropna()].tolist() == ["ADD"]
    assert trace.report["broken-row"].count == 1


def test_a_graph_without_profile_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"graph_exec": {"operator": {}}}')
    with pytest.raises(FormatError, match="profiler"):
        read_trace(tmp_path / "a")
    (tmp_path / "b").write_text('{"profiler": {"opr_footprint": {')
    with pytest.raises(FormatError, match="cannot be read as MegEngine's JSON"):
        read_trace(tmp_path / "b")


def test_a_drawing_without_tensors_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('<svg xmlns:tag="https://megengine.org.cn"><rect x="1"/></svg>')
    with pytest.raises(FormatError, match="no tensor"):
        read_trace(tmp_path / "a")


def test_missing_figures_of_operators(tmp_path: Path) -> None:
    profile = {
        "graph_exec": {"operator": {"1": {"name": "fc.ADD", "type": "Elemwise", "input": ["9"]}}},
        "profiler": {
            "device": {"1": {"gpu0:0": {"start": 0.1, "kern": 0.2, "end": 0.4}, "gpu0:1": {"start": "x"}}},
            "opr_footprint": {"1": {"computation": 0, "memory": 8, "in_shapes": [[2]]}},
        },
    }  # fmt: skip
    (tmp_path / "a").write_text(json.dumps(profile))
    trace = read_trace(tmp_path / "a")
    table = trace.metadata["tables"]["operators"]
    assert table["flop_count"].isna().all()
    assert table[["device_ns", "device_kern_ns", "memory_bytes"]].values.tolist() == [[3 * 10**8, 10**8, 8]]
    assert trace.report["broken-row"].count == 1
    assert trace.slices["module"].astype(str).tolist() == ["fc"]


def test_shapes_that_are_none_are_left_out(data: Path, tmp_path: Path) -> None:
    file = json.loads(gzip.decompress((data / "megengine" / "profiling_train.json.gz").read_bytes()))
    footprints = file["profiler"]["opr_footprint"]
    for key, shapes in zip(footprints, (7.5, True, "text", {"a": 1}), strict=False):
        footprints[key]["in_shapes"] = shapes
    (tmp_path / "unknown").write_text(json.dumps(file))
    trace = read_trace(tmp_path / "unknown")
    assert trace.slices["device"].notna().sum() == 207
