"""Whatever is done to a file of any format: a Trace with a report, or an error that says what was seen."""

import gzip
import io
import zipfile
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notebook_prof import NotebookProfError, Trace, list_formats, read_trace
from notebook_prof.testing import draw

from ..damage import damaged
from ..unit.test_collapsed_kinds import PY_SPY, TACHYON, WALL

DATA = Path(__file__).parents[1] / "data"
WRITTEN = {
    "trace_event": b'[{"ph": "B", "name": "a", "pid": 1, "tid": 2, "ts": 1, "args": {"k": [1, "x"]}},\n'
    b'{"ph": "E", "name": "a", "pid": 1, "tid": 2, "ts": 9.5},\n'
    b'{"ph": "b", "cat": "c", "id": "0x1", "name": "r", "pid": 1, "ts": 2}, '
    b'{"ph": "e", "cat": "c", "id": "0x1", "name": "r", "pid": 1, "ts": 3},\n'
    b'{"ph": "X", "name": "x", "pid": 1, "tid": 2, "ts": 2, "dur": 3, "sf": 5},\n'
    b'{"ph": "C", "name": "mem", "pid": 1, "ts": 4, "args": {"used": 1, "free": 2.5}},\n'
    b'{"ph": "s", "id": 7, "name": "f", "pid": 1, "tid": 2, "ts": 2},\n'
    b'{"ph": "f", "bp": "e", "id": 7, "name": "f", "pid": 1, "tid": 2, "ts": 4},\n'
    b'{"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "main"}}]',
    "scalene": b'{"elapsed_time_sec": 1.5, "entrypoint_dir": "/", "max_footprint_mb": 3.5,\n'
    b'"samples": [[0.1, 2.5], [0.2, 3.5]], "stacks": [[["a.py f:1;", "b.py g:2;"], {"cpu_samples": 3.0}]],\n'
    b'"files": {"a.py": {"functions": [], "lines": [{"lineno": 1, "line": "x", "n_cpu_percent_python": 9.0,'
    b'"n_cpu_percent_c": 1.0, "n_sys_percent": 0.5}]}}}',
    "pprof": b"\x0a\x04\x08\x01\x10\x02\x12\x06\x0a\x02\x01\x02\x12\x00\x12\x07\x0a\x02\x02\x01\x12\x01\x28"
    b"\x22\x08\x08\x01\x22\x04\x08\x01\x10\x09\x22\x08\x08\x02\x22\x04\x08\x02\x10\x07\x2a\x04\x08\x01\x10\x03"
    b"\x2a\x06\x08\x02\x10\x04\x20\x05\x32\x00\x32\x03cpu\x32\x0bnanoseconds\x32\x01f\x32\x04main\x32\x04a.go",
    "gecko": b'{"meta": {"preprocessedProfileVersion": 57, "interval": 1, "startTime": 1700000000000.5,\n'
    b'"sampleUnits": {"threadCPUDelta": "ns"}, "categories": [{"name": "Idle"}, {"name": "JS"}]},\n'
    b'"counters": [{"name": "heap", "category": "Memory", "samples": {"time": [0, 2], "count": [5, -3]}}],\n'
    b'"processes": [{"meta": {"startTime": 1700000000050}, "threads": []}],\n'
    b'"threads": [{"name": "main", "pid": "7", "tid": 8, "stringArray": ["main", "f", "a.py", "GC"],\n'
    b'"samples": {"stack": [1, 1, 0, null], "timeDeltas": [0, 1, 1.5, 2], "weight": [1, 1, 2, 1],\n'
    b'"threadCPUDelta": [9, 500000, 10, null], "weightType": "samples"},\n'
    b'"stackTable": {"frame": [0, 1], "prefix": [null, 0]}, "resourceTable": {"name": [2]},\n'
    b'"frameTable": {"func": [0, 1], "line": [3, null], "category": [1, 0]},\n'
    b'"funcTable": {"name": [0, 1], "fileName": [2, null], "resource": [-1, 0]},\n'
    b'"markers": {"schema": {"name": 0, "startTime": 1, "endTime": 2, "phase": 3, "data": 4},\n'
    b'"data": [[3, 1, 2, 1, {"type": "Text", "name": "x"}], [3, 1.5, null, 2], [3, null, 4, 3]]}}]}',
    "rocm_csv": b'"Kind","Agent_Id","Queue_Id","Kernel_Name",'
    b'"Correlation_Id","Start_Timestamp","End_Timestamp"\n'
    b'"KERNEL_DISPATCH","Agent 4",1,"void f<float>(float*, int)",7,1550151853029637,1550151853042437\n'
    b'"KERNEL_DISPATCH","Agent 5",2,"g(int)",8,1550151853064037,1550151853075237\n',
    "proton": b'[{"frame": {"name": "ROOT"}, "metrics": {}, "children": [{"frame": {"name": "f"}, "metrics":'
    b'{"count": 2, "time (ns)": 9.5, "device_id": "0", "device_type": "A"}, "children": []}]}, {"A": {}}]',
    "tachyon_jsonl": b'{"type":"meta","v":1,"run_id":"a","sample_interval_usec":500,"mode":"wall"}\n'
    b'{"type":"str_def","v":1,"run_id":"a","defs":[{"str_id":1,"value":"f"},{"str_id":2,"value":"a.py"}]}\n'
    b'{"type":"frame_def","v":1,"defs":[{"frame_id":1,"path_str_id":2,"func_str_id":1,"line":7,"col":4}]}\n'
    b'{"type":"agg","v":1,"kind":"frame","scope":"final","entries":[{"frame_id":1,"self":2,"cumulative":9}]}\n'
    b'{"type":"end","v":1,"run_id":"a","samples_total":2}\n',
    "execution_trace": b"\x09\x0a\x07version\x0d\x08\x01\x12\x01a\x18\x04\x38\x09\x2a\x02\x02\x03"
    b"\x0e\x08\x02\x12\x02bc\x18\x07\x22\x01\x01\x38\x05\x0d\x08\x03\x12\x01d\x18\x04\x38\x07\x2a\x02\x01\x02",
    "collapsed": b"main;step;mm (ops.py:3) 17\nmain;step 4\nmain;load 2.5\nidle 9\n",
}
COLLAPSED = {"austin": WALL, "austin in full mode": WALL.replace("wall", "full")}
COLLAPSED |= {"tachyon": TACHYON, "py-spy": PY_SPY}
MEGENGINE = ("cli.chrome_timeline.json", "memory_flow.svg", "profiling_train.json")
PADDLE = ("synthetic_rank0", "v262_static")
SAMPLES = {
    "jax": ("jax_cpu/vm.trace.json.gz", "jax_cpu/vm.xplane.pb.gz"),
    "kineto": ("torch213_cpu/mini_noschedule.pt.trace.json.gz", "torch213_cpu/odd_names.pt.trace.json.gz"),
    "megengine": tuple(f"megengine/{name}.gz" for name in MEGENGINE),
    "mindspore": (
        "mindspore/v200_graph/profiler/cpu_op_execute_timestamp_0.txt.gz",
        "mindspore/v200_minddata/minddata_cpu_utilization_0.json",
        "mindspore/v200_minddata/minddata_pipeline_raw_0.csv",
        "mindspore/v2100_graph/vm_5010_20261121082513922_ascend_ms/ASCEND_PROFILER_OUTPUT/trace_view.json.gz",
    ),
    "memray": ("python_profilers/memray.csv",),
    "nsys": ("nsys/nvtx_cpu.sqlite.gz",),
    "paddle": tuple(f"paddle/{name}.{kind}.gz" for name in PADDLE for kind in ("json", "pb")),
    "perfetto": ("perfetto/sdk_deltas.pftrace",),
    "pstats": ("python_profilers/profile.pstats",),
    "pyinstrument": ("python_profilers/pyinstrument.json", "python_profilers/session.pyisession.gz"),
    "rocm": ("rocm/rocpd_decode_results.db.gz",),
    "speedscope": ("python_profilers/pyinstrument.speedscope.json",),
    "torch_compile": ("torch_compile/dedicated_log_torch_trace_sample.log.gz",),
    "torch_memory": (
        "torch213_cpu/cnn_sgd.memory_timeline.json.gz",
        "torch_memory/profile.snapshot.pickle.gz",
    ),
    "viztracer": ("viztracer/numpy_loop.min.json.gz",),
    **{name: (name,) for name in (*WRITTEN, "native")},
}
SAMPLES["proton"] += ("proton/scopes.hatchet_msgpack",)
SAMPLES["collapsed"] += tuple(COLLAPSED)
SAMPLES["gecko"] += ("python_profilers/tachyon.gecko.json.gz",)
CASES = [(name, file) for name, files in SAMPLES.items() for file in files]
QUICK = settings(suppress_health_check=list(HealthCheck))


@cache
def content(file: str) -> bytes:
    if file == "native":
        with TemporaryDirectory() as folder:
            path = Path(folder) / "run.nbprof.zip"
            draw("main: [aten::mm ]\nstream 7: [gemm ]").save(path)
            return path.read_bytes()
    if file in COLLAPSED:
        return COLLAPSED[file].encode()
    if file in WRITTEN:
        return WRITTEN[file]
    raw = (DATA / file).read_bytes()
    return gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw


def survives(raw: bytes, name: str | None) -> None:
    with TemporaryDirectory(prefix="nbp-damage-") as folder:
        path = Path(folder) / "unknown"
        path.write_bytes(raw)
        try:
            trace = read_trace(path, name, max_bytes=1 << 26)
        except NotebookProfError:
            return
    assert isinstance(trace, Trace)
    assert (trace.slices["dur"] >= 0).all()
    assert (trace.slices["self_ns"] >= 0).all()
    if trace.metadata["source"] == "collapsed":  # its slices never overlap: root slices hold all self times
        roots = trace.slices[trace.slices["depth"] == 0]
        assert trace.slices["self_ns"].sum() == roots["dur"].sum()
    for issue in trace.report:
        assert issue.count > 0
        assert issue.effect, issue
        assert issue.advice, issue
        assert issue.example or issue.severity == "info", issue


def test_every_reader_is_damaged() -> None:
    assert set(SAMPLES) == set(list_formats()["format"])


@pytest.mark.parametrize(("name", "file"), CASES, ids=[file.rsplit("/", 1)[-1] for _, file in CASES])
def test_samples_are_sound(name: str, file: str, tmp_path: Path) -> None:
    path = tmp_path / "unknown"
    path.write_bytes(content(file))
    assert read_trace(path).metadata.get("source", name) == name


@pytest.mark.parametrize(("name", "file"), CASES, ids=[file.rsplit("/", 1)[-1] for _, file in CASES])
@QUICK
@given(st.data())
def test_damage_is_survived(name: str, file: str, draw: st.DataObject) -> None:
    survives(draw.draw(damaged(content(file))), draw.draw(st.sampled_from([None, name])))


@pytest.mark.parametrize("name", SAMPLES)
@QUICK
@given(st.data())
def test_the_start_and_then_anything_is_survived(name: str, draw: st.DataObject) -> None:
    start = content(draw.draw(st.sampled_from(SAMPLES[name])))[: draw.draw(st.integers(0, 60))]
    survives(start + draw.draw(st.binary(max_size=200)), name)


@pytest.mark.parametrize("pack", ["gzip", "zip"])
@QUICK
@given(st.data())
def test_damage_to_the_packing_is_survived(pack: str, draw: st.DataObject) -> None:
    name, file = draw.draw(st.sampled_from(CASES))
    raw = content(file)[:50_000]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../unknown", raw)
    packed = gzip.compress(raw, 1) if pack == "gzip" else out.getvalue()
    survives(draw.draw(damaged(packed)), draw.draw(st.sampled_from([None, name])))
