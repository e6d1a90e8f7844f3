"""The verdict on drawn traces: what bounds them is plain to see."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from notebook_prof import Profile, Trace, TraceBuilder
from notebook_prof.analysis import verdict
from notebook_prof.testing import draw

from ..properties.test_verdict_claims import check_claims, value_of

US = 1000


def test_input_bound():
    result = verdict(
        draw(
            """
            steps: [0                     ][1                     ]
            main:  [next/data  ][mm/forward][next/data ][mm/forward]
            """,
            unit_ns=US,
        )
    )
    assert result.kind == "input-bound"
    assert result.share == pytest.approx(25 / 48, abs=0.05)
    assert result.sentence.startswith("Input-bound: 5")
    assert dict(result.select) == {"phase": "data"}
    assert result.claims[1].value == 25 * US
    assert result.lines[1].startswith("2 steps (0 … 1, found by mark): median 24 µs")
    assert result.lines[2].startswith("Phases: data 5")
    assert len(result.lines) == 5


DRAWN: dict[str, tuple[str, dict[str, Any], str, dict[str, str], str]] = {
    "a collective that hides nothing": (
        "main: [launches        ]\nstream 7: [gemm]\nstream 9:    [ncclAllReduce]",
        {"categories": {"ncclAllReduce": "collective"}, "launches": [("launches", "gemm")]},
        *("communication-bound", {}, ""),
    ),
    "a call that waits": (
        "main: [item             ]\nmain:   [cudaStreamSync]\nstream 7:   [gemm]",
        {"categories": {"cudaStreamSync": "sync"}},
        *("sync-bound", {"category": "sync"}, ""),
    ),
    "kernels shorter than their operators": (
        "main: [mm       ][mm       ][mm       ]\nstream 7: [k]        [k]        [k]",
        {"launches": [("mm", "k")]},
        *("launch-bound", {}, "3 kernels"),
    ),
    "a device with one long kernel": (
        "main: [mm][mm]\nstream 7:  [gemm            ][copy]",
        {"categories": {"copy": "memcpy"}},
        *("compute-bound", {"name": "gemm"}, "gemm"),
    ),
    "a processor with one long operator": (
        "main: [aten::conv2d                 ][add]",
        {"unit_ns": 100 * US},
        *("compute-bound", {"name": "aten::conv2d"}, "aten::conv2d alone takes 86.1 %"),
    ),
    "a function of Python": (
        "main: [train             ]\nmain:    [parse      ]",
        {"categories": {"train": "python", "parse": "python"}},
        *("python-bound", {"name": "parse"}, "Own time: parse"),
    ),
    "data without steps": (
        "main:  [next/data  ][mm/forward]",
        {"unit_ns": US},
        *("input-bound", {}, "Input-bound: 52.0 % of the recording waits for data (13 µs of 25 µs)"),
    ),
}


@pytest.mark.parametrize("name", DRAWN)
def test_what_bounds_a_drawing(name: str) -> None:
    picture, options, kind, select, said = DRAWN[name]
    result = verdict(draw(picture, **options))
    assert result.kind == kind
    assert said in str(result)
    assert not select or dict(result.select) == select


def launching(operator: int, kernel: int, *, waits: bool = False, source: str = "kineto") -> Trace:
    """Twenty steps of an operator that launches a kernel, and at the end of each a wait for it, if asked."""
    builder = TraceBuilder(metadata={"source": source})
    main, stream = builder.track("main"), builder.track("gpu", "stream", device=0, stream=7)
    now = free = 0

    def record(track: int, step: int, name: str, category: str, ts: int, dur: int) -> Any:
        times = {"ts": ts * US, "dur": dur * US}
        return builder.slices(track=track, step=step, name=name, category=category, **times)

    for step in range(20):
        begin, now = now, now + operator
        start = max(now + 1, free)
        free = start + kernel
        record(main, step, "aten::mm", "operator", begin, operator)
        call = record(main, step, "cudaLaunchKernel", "launch", now - 2, 2)
        builder.flows("launch", call, record(stream, step, "gemm", "kernel", start, kernel))
        if waits:
            record(main, step, "cudaDeviceSynchronize", "sync", now, free + 1 - now)
            now = free + 1
        builder.steps(step, begin * US, (now - begin) * US, "loop")
    return builder.seal()


@pytest.mark.parametrize(
    ("operator", "kernel", "more", "kind", "said"),
    [
        # with twice as fast kernels its steps would take as long
        (20, 17, {}, "launch-bound", "Critical path: operators of the host "),
        # the host runs ahead, and faster kernels help
        (17, 20, {}, "compute-bound", "Critical path: kernels "),
        (5, 20, {"waits": True}, "compute-bound", "Critical path: kernels "),
        # in other sources a thread that waits may look like one that works: no path is said
        (20, 17, {"source": "megengine"}, "compute-bound", ""),
    ],
)
def test_what_bounds_steps_of_a_busy_device(operator, kernel, more, kind, said):
    result = verdict(launching(operator, kernel, **more))
    assert result.kind == kind
    assert said in str(result)
    assert ("ritical path" in str(result)) == bool(said)
    if kind == "launch-bound":
        assert "but 9" in result.sentence
        assert result.sentence.endswith("of their critical path is the host, which launches 20 kernels.")
        assert value_of(result, "busy_ns") > 0.8


COPIED = "Memcpy HtoD (Pinned -> Device)"


@pytest.mark.parametrize(("kernel", "kind"), [(8, "copy-bound"), (14, "compute-bound")])
def test_a_device_that_is_busy_with_copies_does_not_compute(kernel: int, kind: str):
    builder = TraceBuilder()
    stream = builder.track("stream 7", "stream", device=0, stream=7)
    at, copy = np.arange(10) * 24 * US, 22 - kernel
    for name, category, ts, dur in (("gemm", "kernel", at + copy * US, kernel), (COPIED, "memcpy", at, copy)):
        long = np.full(len(at), dur * US)
        builder.slices(ts=ts, dur=long, track=stream, name=name, category=category, device=0, stream=7)
    rows = {"device": 0, "stream": 7, "start_unix_ns": at, "bytes": np.full(len(at), 2**20)}
    builder.metadata["tables"] = {"device_events": pd.DataFrame(rows)}
    trace = builder.seal()
    result = verdict(trace)
    assert result.kind == kind
    assert all(claim.holds(trace) for claim in result.claims)
    if kind == "copy-bound":
        assert result.sentence.endswith("take only 80 µs; it copies for 140 µs, 10 MiB of it HtoD.")
        assert result.select == {"category": "memcpy"}


def test_a_device_that_does_next_to_nothing_lacks_no_launches():
    """What takes the time is the host; that it launches too slowly is not true."""
    builder = TraceBuilder(metadata={"source": "kineto"})
    main, stream = builder.track("main"), builder.track("gpu", "stream", device=0, stream=7)
    calls = builder.slices(ts=0, dur=2 * US, name="cudaLaunchKernel", category="launch", track=main)
    work = builder.slices(ts=3 * US, dur=US, name="add", category="kernel", track=stream)
    builder.slices(ts=10 * US, dur=990 * US, name="aten::sort", category="operator", track=main)
    builder.flows("launch", calls, work)
    builder.steps(0, 0, 1000 * US, "loop")
    result = verdict(builder.seal())
    assert result.kind == "mixed"
    assert result.sentence.startswith("Device 0 is busy 0.1 % of the steps, and 99.")
    assert result.sentence.endswith(" of their critical path is the host, which launches 1 kernel.")


def test_a_path_through_time_without_a_record_is_not_said():
    """Most of it is a thread on which nothing was recorded: nobody knows what it waited for."""
    builder = TraceBuilder(metadata={"source": "kineto"})
    main, stream = builder.track("main"), builder.track("gpu", "stream", device=0, stream=7)
    calls = builder.slices(ts=0, dur=2 * US, name="cudaLaunchKernel", category="launch", track=main)
    work = builder.slices(ts=3 * US, dur=60 * US, name="add", category="kernel", track=stream)
    builder.slices(ts=95 * US, dur=5 * US, name="aten::item", category="operator", track=main)
    builder.flows("launch", calls, work)
    assert "ritical path" not in str(verdict(builder.seal()))


def test_overhead_bound():
    b = TraceBuilder()
    ts = np.arange(1000) * 10 * US
    b.slices(ts=ts, dur=np.full(1000, 3 * US), name="aten::add", track=b.track("main"))
    result = verdict(b.seal())
    assert result.kind == "overhead-bound"
    assert "1,000 operators with less than 10 µs of self time" in result.sentence
    assert result.share == 1.0


def sampled(*rows):
    """A thread of Python frames: ``(ts, dur, name, file of its frame)``."""
    b = TraceBuilder()
    keys = [b.stack([(name, file, 939)]) for _, _, name, file in rows]
    ts, dur, names, _ = zip(*rows, strict=True)
    b.slices(ts=ts, dur=dur, name=names, category="python", stack=keys, track=b.track("main"))
    return verdict(b.seal())


NUMPY = "/venv/lib/python3.12/site-packages/numpy/_core/fromnumeric.py"


def test_one_line_of_a_product():
    result = sampled((0, 100, "main (run.py)", "run.py"), (0, 80, "run.py:3  b = a@a", "run.py"))
    assert result.sentence == (
        "One line takes 80.0 % of the recording (80 ns of 100 ns): `b = a@a`, a matrix product, in run.py:3."
    )
    assert result.kind == "python-bound"
    assert result.select == {"name": "run.py:3  b = a@a"}
    decorator = sampled((0, 100, "run.py:3  @cached(1)", "run.py"))
    assert "product" not in decorator.sentence


def test_a_loop_in_python():
    result = sampled((0, 100, "run.py:8  for i in range(n):", "run.py"))
    assert result.sentence.startswith("Python-bound: the loop `for i in range(n):` in run.py:8 takes 100.0 %")
    result = sampled((0, 100, "run.py:8  for i in range(n): slow(i)", "run.py"))
    assert result.sentence.startswith("One line takes 100.0 %")


def test_a_library():
    result = sampled(
        (0, 100, "run.py:7  c = np.sort(b)", "run.py"),
        (5, 70, "sort (fromnumeric.py)", NUMPY),
        (80, 10, "sum (fromnumeric.py)", NUMPY),
    )
    assert result.kind == "library-bound"
    assert result.share == 0.8
    assert result.sentence == (
        "Library-bound: 80.0 % of the recording (80 ns of 100 ns) is in NumPy, most of it in "
        "sort (fromnumeric.py:939), called from `c = np.sort(b)` in run.py:7."
    )


WAITING = (
    *("lock.acquire", "_thread.lock.acquire", "<built-in method acquire of _thread.lock object>"),
    *(
        "time.sleep",
        "run.py:4  time.sleep(1)",
        "select.epoll",
        "<method 'acquire' of '_thread.lock' objects>",
    ),
    *("wait (/usr/lib/python3.11/threading.py:320)", "join (python3.13/threading.py:1095)"),
    "Thread._wait_for_tstate_lock (python3.11/threading.py:1125)",
    r"select (C:\Python311\Lib\selectors.py:468)",
    "_recv (/usr/lib/python3.13/multiprocessing/connection.py:396)",
    *("poll (multiprocessing/popen_fork.py:27)", "block_until_ready (array.py)"),
    *("read (ssl.py:1020)", "create_connection (python3.12/socket.py:820)"),
)


@pytest.mark.parametrize("name", WAITING)
def test_waiting(name):
    result = sampled((0, 100, "main", "run.py"), (10, 60, name, "run.py"))
    assert result.kind == "wait-bound"
    assert result.share == 0.6
    assert result.select == {"name": [name]}
    assert sampled((0, 100, "main", "run.py"), (10, 40, name, "run.py")).kind == "python-bound"


@pytest.mark.parametrize(("name", "called"), [("8374", "thread 8374"), ("MainThread", "MainThread")])
def test_who_waits_is_named_if_other_threads_were_recorded(name: str, called: str) -> None:
    b = TraceBuilder()
    b.slices(ts=0, dur=100, name="select (selectors.py:415)", category="python", track=b.track(name))
    b.slices(ts=0, dur=90, name="fact (run.py:31)", category="python", track=b.track("worker"))
    assert verdict(b.seal()).sentence.startswith(f"Wait-bound: {called} waits 100.0 % of the recording")


def test_names_that_only_sound_like_waiting():
    for name in (
        *("acquire_data", "x.py:4  x = sleepy(1)", "select_rows", "awaits", "join (posixpath.py:71)"),
        *("wait (app/threading.py:3)", "read (zzl.py:1020)"),
    ):
        assert sampled((0, 100, name, "run.py")).kind == "python-bound", name


def through_xla(wait: str, dot: int, between: int = 10) -> TraceBuilder:
    """A thread that calls a runtime and waits for it, and the runtime's thread with one operator."""
    b = TraceBuilder()
    main, pool = b.track("main", pid=1, tid=1), b.track("tf_XLA", pid=1, tid=2)
    rows = {"loop": (0, 200, "python"), "batch": (5, 40, "python"), wait: (between + 50, 120, "annotation")}
    for name, (ts, dur, category) in rows.items():
        b.slices(ts=[ts], dur=[dur], name=name, category=category, track=main)
    b.slices(ts=[between + 60], dur=[dot], name="dot.1", category="operator", track=pool)
    return b


@pytest.mark.parametrize("wait", ["train", "api.py:31 try_to_block", "block_until_ready (array.py)"])
def test_waiting_for_a_runtime_on_the_cpu_is_not_python(wait: str) -> None:
    result = verdict(through_xla(wait, 100).seal())
    assert result.kind == "compute-bound"
    assert result.share == 0.5
    assert result.select == {"name": "dot.1"}
    assert "takes 100 ns in 1 call" in result.sentence


def test_python_beside_a_runtime_and_a_window_of_it() -> None:
    # the operator runs while ``batch`` works: nothing waits for it
    result = verdict(through_xla("train", 30, between=-50).seal())
    assert result.kind == "python-bound"
    # 20 ns of the wait are the runtime's: what Python does alone comes first
    result = verdict(through_xla("train", 20).seal())
    assert (result.kind, result.select) == ("mixed", {"name": "train"})
    assert value_of(result, "self_ns") == 120 / 200
    result = verdict(through_xla("train", 100).seal(), window=(100, 200))
    assert result.share == 0.7


def test_nothing_recorded():
    result = verdict(TraceBuilder().seal())
    assert result.kind == "nothing-recorded"
    assert str(result).startswith("Nothing was recorded")
    b = TraceBuilder()
    b.steps([0], [0], [10], "mark")
    assert verdict(b.seal()).kind == "nothing-recorded"


@pytest.mark.parametrize(
    ("exporter", "kind", "words"),
    [("", "mixed", "frame has the most self time"), ("torch", "compute-bound", "")],
)
def test_slices_of_any_program_in_perfetto_are_no_operators(exporter: str, kind: str, words: str) -> None:
    b = TraceBuilder(metadata={"source": "perfetto", "exporter": exporter})
    b.slices(ts=[0, 1_000_000], dur=[900_000, 100_000], track=b.track("main", tid=1), name=["frame", "idle"])
    said = verdict(b.seal())
    assert said.kind == kind
    assert said.sentence.startswith(words)
    assert said.lines[2].startswith("Operators" if exporter else "Own time")


def test_part_of_a_trace_can_be_judged():
    trace = draw("steps: [0         ][1         ]\nmain:  [next/data ][aten::mm/forward]", unit_ns=100 * US)
    assert verdict(trace).kind == "input-bound"
    assert verdict(trace, window=(12 * 100 * US, 24 * 100 * US)).kind == "compute-bound"


def test_instants_take_no_time() -> None:
    b = TraceBuilder()
    b.slices(ts=np.arange(50) * 1_000, dur=np.zeros(50, int), name="mark", track=b.track("MainThread"))
    result = verdict(b.seal())
    assert result.kind == "nothing-recorded"
    assert result.sentence == ("Nothing took time: of 49 µs, only 50 instants were recorded.")
    assert result.share == 0.0
    assert not any("mark" in line for line in result.lines)  # no share of nothing
    b = TraceBuilder()
    b.slices(ts=[0, 10], dur=[0, 5], name=["mark", "work"], track=b.track("MainThread"))
    assert verdict(b.seal()).kind != "nothing-recorded"


@pytest.mark.parametrize("jump_ns", [-600, -40, 0, 40, 600])
def test_nothing_is_judged_by_a_clock_that_was_set(jump_ns: int) -> None:
    b = TraceBuilder(metadata={"clock_jump_ns": jump_ns})
    b.slices(ts=[0], dur=[1_000], name="mm", track=b.track("MainThread"))
    result = verdict(b.seal())
    if abs(jump_ns) < 50:  # less than a twentieth of it
        assert result.kind != "clock-jumped"
        return
    assert (
        str(result)
        == "The system's clock was set while this was recorded, so its times are wrong: record again."
    )
    assert (result.kind, result.share, result.claims) == ("clock-jumped", 0.0, ())


def cell(
    rows: list[tuple[int, int, str]], parts: list[tuple[int, str, int, int]], **tables: object
) -> TraceBuilder:
    """A recorded cell: Python slices ``(ts, dur, name)`` and an account ``(dur, kind, line, steps)``."""
    b = TraceBuilder()
    ts, dur, names = zip(*rows, strict=True)
    b.slices(ts=ts, dur=dur, name=names, category="python", track=b.track("MainThread", pid=1, tid=1))
    account = pd.DataFrame(parts, columns=["dur", "kind", "line", "steps"])
    account.insert(0, "ts", account["dur"].cumsum() - account["dur"])
    b.metadata["tables"] = {"account": account.assign(text="", loop=-1)} | tables
    return b


MS = 1_000_000


def test_a_cell_follows_the_hottest_line_inwards() -> None:
    rows = [
        (0, 100 * MS, "cell:7  run()"),
        (0, 100 * MS, "run (cell)"),
        (2 * MS, 96 * MS, "cell:5  r = X.T @ g"),
        (98 * MS, 2 * MS, "cell:6  move(r)"),
    ]
    result = verdict(cell(rows, [(100 * MS, "code", 7, 0)]).seal())
    assert result.sentence == "Line 5 takes 96.0 % of the cell (96 ms of 100 ms): `r = X.T @ g`."
    assert result.kind == "python-bound"
    assert result.lines[1] == "Cell: 100 ms = line 7 100 ms (100.0 %)"
    assert result.select == {"name": "cell:5  r = X.T @ g"}


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("", ""),
        ("torch-imported-late", "torch was imported in this cell"),
        ("profiler-overtaken", "the cell started another profiler"),
    ],
)
def test_operators_that_nothing_recorded_are_not_called_python(code: str, why: str) -> None:
    n = np.arange(4)
    rows = [(i * 10 * MS, 10 * MS, "cell:5  optimizer.step(closure)") for i in range(4)]
    b = cell(rows, [(40 * MS, "steps", 4, 4)])
    b.steps(step=n, ts=n * 10 * MS, dur=np.full(4, 10 * MS), source="loop")
    if code:
        b.report.add(code, "loss")
    trace = b.seal()
    result = verdict(trace)
    begin, end, kind = (
        (f"Operators were not recorded, since {why}", " of the steps.", "mixed")
        if why
        else ("Python-bound: 100.0 % of the steps is Python, not operators", ".", "python-bound")
    )
    assert result.sentence == f"{begin}; line 5, `optimizer.step(closure)` takes 100.0 %{end}"
    assert result.kind == kind
    check_claims(trace)


def test_a_cell_without_a_hot_line() -> None:
    rows = [(i * 25 * MS, 25 * MS, f"cell:{i + 2}  f{i}()") for i in range(4)]
    result = verdict(cell(rows, [(25 * MS, "code", i + 2, 0) for i in range(4)]).seal())
    assert result.kind == "mixed"
    assert result.sentence.startswith("No line takes most of the cell: line 2 25.0 %, `f0()`; line 3 25.0 %")


def test_a_trifle_has_nothing_to_report() -> None:
    result = verdict(cell([(0, 100, "cell:2  x = 1 + 1")], [(100, "code", 2, 0)]).seal())
    assert str(result) == "Nothing to report: the cell took 100 ns."
    b = cell([(0, 100, "cell:2  1 / 0")], [(100, "code", 2, 0), (60 * MS, "profiler", -1, 0)])
    b.metadata["raised"] = {"error": "ZeroDivisionError", "line": 2}
    own = "Nothing to report: the cell's own code took 100 ns; it ended with ZeroDivisionError."
    assert str(check_claims(b.seal())[0]) == own


def test_what_runs_outside_of_the_steps_comes_first() -> None:
    rows = [(0, 20 * MS, "cell:3  for x in loader:"), (20 * MS, 80 * MS, "cell:8  acc = evaluate(model)")]
    b = cell(rows, [(20 * MS, "steps", 3, 4), (80 * MS, "code", 8, 0)])
    b.steps(range(4), np.arange(4) * 5 * MS, np.full(4, 5 * MS), "loop")
    result = verdict(b.seal())
    assert result.sentence == (
        "Line 8 takes 80.0 % of the cell (80 ms of 100 ms): `acc = evaluate(model)`, outside of the 4 steps, "
        "which take 20 ms."
    )


def test_imports_are_called_imports() -> None:
    result = verdict(cell([(0, 90 * MS, "cell:2  import sklearn.svm")], [(90 * MS, "code", 2, 0)]).seal())
    assert (result.kind, result.sentence.endswith("it imports sklearn.svm.")) == ("import-bound", True)
    text = "import math; a = [math.sin(i) for i in x]"
    result = verdict(cell([(0, 90 * MS, f"cell:2  {text}")], [(90 * MS, "code", 2, 0)]).seal())
    assert (result.kind, result.sentence.endswith(f"`{text}`.")) == ("python-bound", True)


def test_the_code_of_a_claim_gives_its_number() -> None:
    drawing = "steps: [0         ][1         ]\nmain:  [next/data ][aten::mm/forward]"
    trace = draw(drawing, unit_ns=100 * US)
    names = {"p": Profile(trace), "np": np}
    for claim in verdict(trace).claims:
        assert eval(claim.code, names) == pytest.approx(claim.value), claim.code


def test_shares_of_our_own_recording_are_of_all_of_it() -> None:
    """A sampler that joins late does not shorten the recording: the table of lines gives the same share."""
    builder = TraceBuilder()
    builder.metadata["source"] = "recording"
    thread = builder.track("main", tid=1)
    builder.slices(ts=200, dur=600, track=thread, name="cell:1  f()", category="python")
    builder.counter(builder.track("memory", kind="counter", unit="bytes"), [0, 1000], [1, 1])
    p = Profile(builder.seal(start=0))
    assert p.lines()["share"].tolist() == [0.6]
    assert "60.0 % of the recording (600 ns of 1 µs)" in p.verdict.sentence
    check_claims(p.trace)
