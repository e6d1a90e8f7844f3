"""Kinds of files that were once reported wrongly: what is true of each, and what must be said."""

import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import notebook_prof as nbp
from notebook_prof import NotebookProfError
from tests.analysis.test_pprof_reader import profile as pprof

MS = 1_000_000


@dataclass(frozen=True)
class FileKind:
    """A kind of file: its name and content, what is true of it, how to ask, and a pattern of what is said."""

    kind: str
    true: str
    name: str
    content: Callable[[], bytes]
    said: str
    ask: Callable[[Any], str] = lambda p: str(p.verdict).splitlines()[0]


def _json(**keys: Any) -> bytes:
    return json.dumps(keys).encode()


def _kineto(events: list[dict[str, Any]]) -> bytes:
    return _json(schemaVersion=1, deviceProperties=[{"id": 0}], traceEvents=events)


def _frees() -> bytes:
    """Twenty equal iterations, in each nine quick calls and a slow one."""
    events = []
    for number in range(200):
        ts, slow = number * 300 + number // 10 * 10_000, number % 10 == 9
        row = {"ph": "X", "pid": 1, "tid": 1}
        free = {"cat": "cuda_runtime", "name": "hipFree", "ts": ts, "dur": 10_000 if slow else 20}
        after = ts + free["dur"] + 5
        launch = {"cat": "cuda_runtime", "name": "hipLaunchKernel", "ts": after, "dur": 10}
        kernel = {"cat": "kernel", "name": "k", "ts": after + 12, "dur": 100, "pid": 0, "tid": 7}
        args = {"correlation": number + 1}
        events += [
            {**row, **free, "args": {"correlation": number + 1000}},
            {**row, **launch, "args": args},
            {**row, **kernel, "args": {**args, "device": 0, "stream": 7}},
        ]
    return _kineto(events)


def _casts() -> bytes:
    name = (
        "void at::native::vectorized_elementwise_kernel<(int)4, at::native::FillFunctor<float>, "
        "std::array<char *, (unsigned long)1>>(int, T2, T3)"
    )
    kernel = {"ph": "X", "cat": "kernel", "name": name, "ts": 0, "dur": 100, "pid": 0, "tid": 7}
    return _kineto([{**kernel, "args": {"device": 0, "stream": 7, "correlation": 1}}])


def _samples() -> bytes:
    """Forty samples of a millisecond each; both threads sleep for a second in between."""
    frames = {"1": {"category": "lib", "name": "work"}}
    rows = [
        {"cpu": 0, "tid": tid, "ts": base + 10_000 * tid + 1000 * i, "name": "cycles", "sf": "1", "weight": 1}
        for tid in (1, 2)
        for base in (0, 1_000_000)
        for i in range(10)
    ]
    main = {"ph": "X", "pid": 1, "tid": 1, "ts": 0, "dur": 1_020_000, "name": "main"}
    return _json(traceEvents=[main], stackFrames=frames, samples=rows)


def _deep() -> bytes:
    """Forty threads of sixty frames: as many pairs of a thread and a frame as cost 20 s once."""
    frames = [{"name": f"f{i} (a.py:{i})"} for i in range(2400)]
    profiles = [
        {"type": "sampled", "name": f"thread {t}", "unit": "milliseconds", "startValue": 0, "endValue": 100,
         "samples": [[60 * t + i for i in range(1 + s % 60)] for s in range(100)], "weights": [1] * 100}
        for t in range(40)
    ]  # fmt: skip
    schema = "https://www.speedscope.app/file-format-schema.json"
    return json.dumps({"$schema": schema, "shared": {"frames": frames}, "profiles": profiles}).encode()


def _scheduling() -> bytes:
    switch = {"ph": "k", "cpu": 0, "out": {"pid": 1, "tid": 1, "state": 2}, "in": {"pid": 2, "tid": 2}}
    events = [{**switch, "ts": i} for i in range(1000)]
    work = {"ph": "X", "pid": 1, "tid": 1, "ts": 0, "dur": 100, "name": "a"}
    return _json(traceEvents=[work], systemTraceEvents={"type": "fuchsia", "events": events})


def _snapshot() -> bytes:
    block = {"address": 4096, "size": 512, "requested_size": 512, "state": "active_allocated", "frames": []}
    segment = {
        "address": 4096, "device": 0, "total_size": 2 << 20, "allocated_size": 512, "active_size": 512,
        "requested_size": 512, "stream": 0, "segment_type": "small", "blocks": [block], "frames": [],
    }  # fmt: skip
    return pickle.dumps({"segments": [segment], "device_traces": [[]], "allocator_settings": {}})


FILES = (
    FileKind(
        '"happens once"',
        "`hipFree` takes most of each of twenty iterations",
        "frees.pt.trace.json",
        _frees,
        r"^(?!.*happens once)",
    ),
    FileKind(
        "element types in kernels' labels",
        "the kernel fills floats",
        "casts.pt.trace.json",
        _casts,
        r"fill f32 ",
    ),
    FileKind(
        "samples of threads that sleep",
        "40 samples of a millisecond",
        "samples.json",
        _samples,
        r"^4\d ms in work$",
        lambda p: f"{_own_ns(p, 'work') / MS:.0f} ms in work",
    ),
    FileKind(
        "waits by function and module",
        "the thread joins another for most of the time",
        "join.folded",
        lambda: b"<module> (a.py:1);join (threading.py:1119) 80\n<module> (a.py:1);work (a.py:9) 20\n",
        r"^Wait-bound: ",
    ),
    FileKind(
        "other languages",
        "stacks of Rust",
        "rust.folded",
        lambda: b"main;core::ptr::drop_in_place 600\nmain;tokio::park 400\n",
        r"core::ptr::drop_in_place has the most self time",
    ),
    FileKind(
        "many threads, deep stacks and frames",
        "4,000 samples of 40 threads",
        "deep.speedscope.json",
        _deep,
        r"^4000 ms on 40 threads$",
        lambda p: (
            f"{p.trace.slices['self_ns'].sum() / MS:.0f} ms on {p.trace.slices['track'].nunique()} threads"
        ),
    ),
    FileKind(
        "units of pprof",
        "43 µs, written as \u03bcs as austin2pprof writes them",
        "short.pprof",
        lambda: pprof("wall", "\u03bcs"),
        r"43 µs",
    ),
    FileKind(
        "scheduling in `systemTraceEvents`",
        "1,000 events",
        "system.json",
        _scheduling,
        r"×1,000: ",
        lambda p: str(p.trace.report).strip(),
    ),
    FileKind(
        "a snapshot of memory without a history",
        "512 bytes are allocated, and nothing took time",
        "snapshot.pickle",
        _snapshot,
        r"^(?!.*100\.0 %)",
    ),
    FileKind(
        "stacks below a root `DataLoader: …`",
        "`load` takes all of it",
        "worker.folded",
        lambda: b"DataLoader: fetch;__getitem__ (d.py:3);load (d.py:9) 30\n",
        r"load \(d\.py:9\) itself takes 100\.0 %",
    ),
    FileKind(
        "formats that are new in the field",
        "JSON of rocprofv3, of which another form is read",
        "results.json",
        lambda: _json(**{"rocprofiler-sdk-tool": [{"metadata": {"pid": 1}, "buffer_records": {}}]}),
        r"--output-format rocpd",
    ),
)


def _own_ns(profile: Any, name: str) -> int:
    rows = profile.hotspots()
    return int(rows.loc[rows["name"].astype(str).str.startswith(name), "self_ns"].sum())


def opened(kind: FileKind, folder: Path) -> str:
    """Write a file of this kind, open it, and return what is said."""
    file = folder / kind.name
    file.write_bytes(kind.content())
    try:
        profile = nbp.open_profile(file)
    except NotebookProfError as error:
        return str(error).replace(str(file), kind.name).replace(str(folder), "")
    assert all(claim.holds(profile.trace) for claim in profile.verdict.claims)
    return kind.ask(profile)
