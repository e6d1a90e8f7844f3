"""Each rule of advice on a drawing that has its cause, and on one that has not."""

import gzip
import re
import shutil
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from notebook_prof import Selection, TraceBuilder, read_trace
from notebook_prof.analysis import advice, lines, loaders, steps, what_if
from notebook_prof.analysis.advice.advice import RULES
from notebook_prof.analysis.advice.arrays import SAVED
from notebook_prof.analysis.advice.context import RECORDED_NS
from notebook_prof.analysis.advice.host import FUSED, PROCESS_NS
from notebook_prof.analysis.scope import sharing
from notebook_prof.testing import draw
from tests.recording import add_slices
from tests.strategies import traces

US = 1000
MOST_BYTES = 3_000_000
MB = 2**20
DATA = Path(__file__).parents[1] / "data"
NUMBER = re.compile(r"(?<![\w.])<?\d[\d,]*(?:\.\d+)? (?:%|ns|µs|ms|s|min|h|B|[KMGT]iB|cores)(?!\w)")
CONSTANT = "less than 64 KiB each"
SINGLE = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
SEVERAL = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


@sharing
def check_proven(trace, table):
    """Every number in a finding is a cell of a public table."""
    for row in table.itertuples():
        unproven, at = "", 0
        for claim in row.claims:
            assert claim.holds(trace), (row.rule, claim, claim.evaluate(trace))
            assert row.finding[claim.start :].startswith(claim.text)
            unproven, at = unproven + row.finding[at : claim.start] + "#", claim.start + len(claim.text)
        said = re.sub(r"`[^`]*`", "", unproven + row.finding[at:])
        assert not NUMBER.search(said.replace(CONSTANT, "")), (row.rule, said)


@lru_cache(maxsize=2)
def proven_advice(trace, **options):
    table = advice(trace, **options)
    check_proven(trace, table)
    return table.set_index("rule")


def advice_row(trace, rule, **options):
    table = proven_advice(trace, **options)
    return table.loc[rule] if rule in table.index else None


def stepped(n=4, us=100, extra=()):
    """A builder with `n` steps, their thread and a stream of a V100."""
    b = TraceBuilder(metadata={"devices": ["Tesla V100-SXM2-32GB"], **dict(extra)})
    main = b.track("main", tid=1)
    stream = b.track("", "stream", device=0, stream=7)
    b.steps(np.arange(n), np.arange(n) * us * US, np.full(n, us * US), "loop")
    add_slices(b, main, "aten::mm", np.arange(n) * us * US, us * US // 2, phase="forward")
    return b, main, stream, np.arange(n) * us * US


def test_data_that_is_late_by_who_makes_it():
    b, main, _, at = stepped()
    b.slices(ts=at + 60 * US, dur=np.full(4, 30 * US), name=SEVERAL, phase="data", track=main)
    trace = b.seal()
    row = advice_row(trace, "input-bound")
    assert row["gain_ns"] == 4 * 30 * US
    assert row["gain_share"] == pytest.approx(0.3, rel=0.05)
    assert row["bound"]
    assert row["count"] == len(row["rows"]) == 4
    assert "num_workers" in row["remedy"]
    assert advice_row(trace, "dataloader-workers") is None
    trace = draw("steps: [0                 ]\nmain:  [next/data ][mm/forward ]", unit_ns=US)
    assert advice_row(trace, "dataloader-workers")["select"] == {"phase": "data"}
    assert advice_row(trace, "input-bound") is None


@pytest.mark.parametrize(
    ("file", "rule", "words"),
    [
        ("megengine/cli.chrome_timeline.json.gz", "sync-points", "once, for 2.01 ms,"),
        ("mindspore/v200_minddata", "input-bound", "The run waits 705 ms for its data"),
    ],
)
def test_nothing_is_said_of_steps_where_there_are_none(file: str, rule: str, words: str):
    trace = read_trace(DATA / file)
    assert not len(trace.steps)
    assert words in advice_row(trace, rule)["finding"]
    assert not advice(trace)["finding"].str.contains("step").any()


def test_exposed_communication():
    trace = draw(
        """
        steps: [0                         ]
        main:  [mm/backward]
        stream 7: [gemm     ]
        stream 9:      [nccl            ]
        """,
        categories={"nccl": "collective"},
    )
    row = advice_row(trace, "communication-exposed")
    assert row["gain_ns"] == 12
    assert trace.slices["name"].iloc[row["rows"]].tolist() == ["nccl"]


def test_a_device_that_waits_for_launches():
    b, main, stream, at = stepped()
    calls = add_slices(b, main, "cudaLaunchKernel", at + 55 * US, 2 * US, "launch")
    work = b.slices(ts=at + 58 * US, dur=np.full(4, 5 * US), name="add", category="kernel", track=stream)
    b.flows("launch", calls, work)
    row = advice_row(b.seal(), "launch-bound")
    assert row["gain_share"] > 0.8
    assert row["select"] == {"category": "launch"}
    busy, _, stream, at = stepped()
    busy.slices(ts=at, dur=np.full(4, 100 * US), name="add", category="kernel", track=stream)
    assert advice_row(busy.seal(), "launch-bound") is None


def test_steps_cannot_become_shorter_than_their_device_work(data: Path) -> None:
    """Idle time between steps is not part of the gain."""
    trace = read_trace(data / "perfetto/sdk_deltas.pftrace")
    table = steps(trace)
    row = advice_row(trace, "launch-bound")
    assert 0 < row["gain_ns"] <= (table["dur"] - table["device_busy_ns"]).sum()


def optimizers(names, operators=60, work_ns=50_000):
    """Steps of 10 ms, half of them Adam's."""
    b = TraceBuilder()
    main = b.track("main", tid=1)
    at = np.arange(4) * 10_000 * US
    b.steps(np.arange(4), at, np.full(4, 10_000 * US), "loop")
    b.slices(ts=at, dur=np.full(4, 5_000 * US), name="aten::mm", phase="forward", track=main)
    for start in at:
        ts = start + 5_000 * US + np.arange(operators) * (5_000 * US // operators)
        dur = np.full(operators, work_ns)
        b.slices(ts=ts, dur=dur, name=names, phase="optimizer", track=main)
    return b.seal()


def test_an_optimizer_of_many_operators():
    row = advice_row(optimizers("aten::addcmul_"), "unfused-optimizer")
    spent = 4 * 59 * (5_000 * US // 60) + 4 * 50_000  # from the first operator to the end of the last
    cost = 4 * 60 * RECORDED_NS
    assert row["gain_ns"] == pytest.approx(FUSED * (spent - cost), rel=1e-6)
    assert "60 operators a step" in row["finding"]
    assert not row["bound"]
    assert advice_row(optimizers("aten::_foreach_add_"), "unfused-optimizer") is None
    assert advice_row(optimizers("aten::add_"), "unfused-optimizer") is None  # SGD gains nothing


def test_small_operators_are_not_judged_where_recording_costs_much():
    trace = optimizers("aten::addcmul_", operators=5_000, work_ns=900)
    assert advice_row(trace, "unfused-optimizer") is None
    assert "they cannot be judged" in advice(trace).attrs["withheld"]["unfused-optimizer"]


def test_syncs_after_which_the_device_runs_dry():
    picture = """
    steps: [0                                      ]
    main:  [call][item              ][call]
    main:         [cudaStreamSync ]
    stream 7: [gemm         ]           [gemm     ]
    """
    kinds = {"call": "launch", "cudaStreamSync": "sync"}
    row = advice_row(draw(picture, categories=kinds, launches=[("call", "gemm")]), "sync-points")
    assert "once a step, for 17 ns a step, in item;" in row["finding"]
    assert row["gain_ns"] == 11
    assert row["select"] == {"category": "sync"}
    without = picture.replace("[cudaStreamSync ]", " " * 17)
    assert advice_row(draw(without, categories=kinds, launches=[("call", "gemm")]), "sync-points") is None


PIN = "Pin that"
COPIES = {
    "Memcpy HtoD (Pageable -> Device)": (True, "with unpinned memory", [PIN, "Copy constant data once"]),
    "Memcpy HtoD (Pinned -> Device)": (True, "", ["Copy constant data once"]),
    "Memcpy DtoH (Device -> Pageable)": (True, "with unpinned memory", [PIN, "compute on the device"]),
    "Memcpy DtoD (Device -> Device)": (True, "", ["Copy less within"]),
    "Memcpy HtoD (Pinned -> Device) ": (False, "", []),
}


@pytest.mark.parametrize(
    ("name", "size"),
    [
        *((name, 4_096) for name in COPIES),
        *(("Memcpy HtoD (Pageable -> Device)", n) for n in (None, 1 << 20)),
    ],
)
def test_a_device_that_is_busy_with_copies(name, size):
    """What is advised follows from direction, kind of memory and size, as far as they are on record."""
    applies, said, advised = COPIES[name]
    b, main, stream, at = stepped()
    calls = b.slices(ts=at + 5, dur=np.full(4, US), name="cudaMemcpyAsync", category="launch", track=main)
    place = {"track": stream, "device": np.zeros(4, int), "stream": np.full(4, 7)}
    work = b.slices(ts=at + 10 * US, dur=np.full(4, 50 * US), name=name, category="memcpy", **place)
    if size is not None:
        events = {"device": 0, "stream": 7, "start_unix_ns": at + 10 * US, "bytes": size}
        b.metadata["tables"] = {"device_events": pd.DataFrame(events)}
    b.flows("launch", calls, work)
    kernel_us = 10 if applies else 55
    b.slices(ts=at + 40 * US, dur=np.full(4, kernel_us * US), name="gemm", category="kernel", track=stream)
    trace = b.seal()
    table = check(trace).set_index("rule")
    pageable = advice_row(trace, "pageable-copies")
    assert (pageable is not None) == ("HtoD (Pageable" in name)
    if pageable is not None:
        assert pageable["count"] == 4
        assert pageable["gain_ns"] >= 4 * 40 * US
        assert "pin_memory" in pageable["remedy"]
    if not applies:
        assert advice_row(trace, "copy-bound") is None
        return
    row = table.loc["copy-bound"]
    assert row["finding"].startswith("Device 0 copies for 200 µs")
    assert said in row["finding"]
    assert all(words.lower() in row["remedy"].lower() for words in advised)
    assert row["count"] == 4


@pytest.mark.parametrize(
    ("kernel", "device", "advised"),
    [
        ("volta_sgemm_64x64_nt", "Tesla V100-SXM2-32GB", True),
        ("volta_h884gemm_64x64_nt", "Tesla V100-SXM2-32GB", False),
        ("volta_sgemm_64x64_nt", "Tesla P100-PCIE", False),
        ("vectorized_elementwise_kernel", "NVIDIA H100", False),
    ],
)
def test_tensor_cores(kernel, device, advised):
    b, _, stream, at = stepped(extra={"devices": [device]}.items())
    b.slices(ts=at, dur=np.full(4, 80 * US), name=kernel, category="kernel", track=stream)
    row = advice_row(b.seal(), "tensor-cores-unused")
    assert (row is not None) == advised
    if advised:
        assert row["gain_ns"] == 4 * 80 * US // 2


def test_low_occupancy(data: Path, tmp_path: Path):
    path = tmp_path / "synthetic_rank0_time_2026.paddle_trace.json"
    with gzip.open(data / "paddle" / "synthetic_rank0.json.gz") as packed, path.open("wb") as plain:
        shutil.copyfileobj(packed, plain)
    row = advice_row(read_trace(path), "low-occupancy")
    # half a block for each multiprocessor over 518 µs, 0.9875 over 160 µs
    assert row["gain_ns"] == 259_000 + 2_000
    assert row["count"] == 8


def memory(sizes, reserved, total=None):
    properties = [{"id": 0, "totalGlobalMem": total}] if total else []
    b, main, stream, at = stepped(extra={"device_properties": properties}.items())
    b.slices(ts=at, dur=np.full(4, 5), name="k", category="kernel", track=stream)
    b.allocations(
        ts=at + 5, addr=np.arange(4) + 1, bytes=64, device=0, allocated=sizes, reserved=reserved, track=main
    )
    return b.seal()


def test_memory_that_is_nearly_full_or_in_pieces():
    trace = memory([900 * MB] * 4, 970 * MB, 1000 * MB)
    row = advice_row(trace, "memory-near-full")
    assert row["gain_bytes"] == 70 * MB
    assert row["gain_ns"] == 0
    assert advice_row(trace, "memory-fragmented") is None
    pieces = memory([300 * MB] * 4, 970 * MB, 4000 * MB)
    assert advice_row(pieces, "memory-fragmented")["gain_bytes"] == 670 * MB
    assert advice_row(pieces, "memory-near-full") is None


def test_a_driver_that_is_asked_for_memory_in_every_step():
    b, main, stream, at = stepped()
    b.slices(ts=at, dur=np.full(4, 5), name="k", category="kernel", track=stream)
    b.slices(ts=at + 60 * US, dur=np.full(4, 20 * US), name="cudaMalloc", category="launch", track=main)
    row = advice_row(b.seal(), "small-allocations")
    assert row["gain_ns"] == 4 * 20 * US
    assert row["bound"]
    assert row["select"] == {"name": ["cudaMalloc"]}


def test_none_where_there_is_none_and_small_gains_are_left_out():
    sound = draw(
        "steps: [0         ][1         ]\nmain:  [aten::mm/forward][aten::mm/forward]", unit_ns=100 * US
    )
    assert advice(sound).empty
    empty = advice(TraceBuilder().seal())
    assert empty.empty
    assert list(empty) == [
        *["rule", "finding", "remedy", "gain_ns", "gain_share", "gain_bytes", "bound", "place"],
        *["what_if", "count", "rows", "select", "claims"],
    ]
    trace = draw("steps: [0                 ]\nmain:  [next/data ][mm/forward ]", unit_ns=US)
    assert len(advice(trace)) == 1
    assert advice(trace, min_share=0.9).empty


def recorded_lines(text, *calls, total=100):
    """A thread of ms: the cell's line 3 and, of each stretch (function, file, from, to), a call below it."""
    b = TraceBuilder(metadata={"machine": {"cpus": 2, "gil": True}})
    main = b.track("MainThread", pid=1, tid=1)
    root = b.stack([("<module>", "cell", 3)])

    def record(name, start, end, stack=root):
        times = {"ts": start * 1_000_000, "dur": (end - start) * 1_000_000}
        b.slices(name=name, category="python", track=main, stack=stack, **times)

    record("<module> (cell)", 0, total)
    for *_, start, end in calls:
        if end - start > 16:
            record(f"cell:3  {text}", start, end)
    for function, file, start, end in calls:
        stack = b.stack([(function, f"/v/lib/python3.12/site-packages/{file}", 9)], above=root)
        record(f"{function} ({file.rsplit('/', 1)[-1]})", start, end, stack)
    return b.seal()


def test_a_line_that_is_longer_than_its_name_is_read_whole() -> None:
    """``axis=1`` stands behind what a slice is called, and no sample met what gives the rows."""
    source = (
        "big[\"label\"] = big.apply(lambda r: f\"{r['city']}-{r['sku'][-3:]}-{int(r['price'])}\", axis=1)"
    )
    builder = TraceBuilder(metadata={"cell_source": f"%%profile\n{source}"})
    main, name = builder.track("main"), f"cell:2  {source[:59]}…"
    root = builder.stack([("<module>", "cell", 2)])
    file = "/v/lib/python3.12/site-packages/pandas/core/frame.py"
    called = builder.stack([("apply", file, 9)], above=root)
    row = {"category": "python", "track": main}
    builder.slices(ts=0, dur=100_000_000, name=name, stack=root, **row)
    builder.slices(ts=1_000_000, dur=95_000_000, name="apply (frame.py)", stack=called, **row)
    assert "pandas-apply-rows" in set(advice(builder.seal())["rule"])


def thrice(text, function, file, *more):
    """A line of the cell that calls a function three times."""
    return text, *((function, file, *part) for part in ((10, 30), (40, 60), (70, 90))), *more


FRAME, INDEXING = "pandas/core/frame.py", "pandas/core/indexing.py"
NUMPY = "numpy/lib/_function_base_impl.py"
ITEM, FILTER = "_LocationIndexer.__getitem__", "DataFrame._getitem_bool_array"
COMPARE = ("comp_method_OBJECT_ARRAY", "pandas/core/ops/array_ops.py")
HABITS = {
    "pandas-apply-rows": thrice(
        *("out = df.apply(f, axis=1)", "DataFrame.apply", FRAME),
        ("FrameColumnApply.series_generator", "pandas/core/apply.py", 12, 28),
    ),
    "pandas-iterrows": thrice("for i, row in df.iterrows():", "iterrows", FRAME),
    "pandas-scalar-access": thrice("total += df['a'].iloc[i]", ITEM, INDEXING),
    "object-column": thrice("n = (names == word).sum()", *COMPARE),
    "growing-array": thrice("found = np.append(found, x)", "append", NUMPY),
    "repeated-copies": thrice("part = df.copy()", "NDFrame.copy", "pandas/core/generic.py"),
    "pandas-chained-indexing": thrice("part = df[df['a'] > 2]['b']", FILTER, FRAME),
    "numpy-vectorize": thrice("out = np.vectorize(f)(x)", "vectorize._vectorize_call", NUMPY),
}
NO_HABITS = (
    thrice("out = df.apply(f)", "DataFrame.apply", FRAME),
    thrice("part = df.loc[df['a'] > 2, 'b']", ITEM, INDEXING),
    thrice("part = df[df['a'] > 2]", FILTER, FRAME),
    thrice("part = df[df[c] > 2][2:]", FILTER, FRAME),
    thrice("out = s.rolling(30).apply(lambda w: w.iloc[-1])", ITEM, INDEXING),
    thrice("df.loc[len(df)] = row", ITEM, INDEXING),
    thrice("found = np.append(other, x)", "append", NUMPY),
    thrice("part = df.copy(deep=False)", "copy", "pandas/core/generic.py"),
    ("found = np.append(found, x)", ("append", NUMPY, 10, 70)),  # once
    ("x = s.map({1: 2})", ("Series.map", "pandas/core/series.py", 10, 70)),  # no function of the user's
)


@pytest.mark.parametrize("rule", HABITS)
def test_habits_of_pandas_and_numpy_code(rule):
    trace = recorded_lines(*HABITS[rule])
    assert check(trace)["claims"].iloc[0]
    table = advice(trace).set_index("rule")
    assert list(table.index) == [rule]
    row = table.loc[rule]
    assert row["place"] == "cell:3"
    assert HABITS[rule][0] in row["finding"]
    assert row["gain_share"] == pytest.approx(0.6 * SAVED.get(rule, 1), rel=1e-3)
    assert row["count"] == len(row["rows"]) == 3
    assert row["bound"] == (rule not in SAVED)


@pytest.mark.parametrize("calls", NO_HABITS, ids=lambda calls: calls[0])
def test_what_looks_like_a_habit_and_is_none(calls):
    assert advice(recorded_lines(*calls)).empty


def loading(cpus=2, item_ms=1.0, busy=0.1, start_method="fork", slower=1, steps=True, line="", **facts):
    """Ten steps of 40 ms, 32 of them data that the loop's own thread gets, or slower ones."""
    loader = dict.fromkeys(("in_memory", "batched", "pin_memory", "persistent_workers"), False)
    loader |= {"dataset": "Slow", "method": "__getitem__", "file": "/tmp/ipykernel_7/1.py", "line": 9}
    loader |= {"batch_size": 32, "num_workers": 0, "prefetch_factor": 0, "iterators": 1, **facts}
    machine = {"cpus": cpus, "accelerators": [], "start_method": start_method}
    b = TraceBuilder(metadata={"machine": machine, "loaders": [loader]})
    main = b.track("MainThread", pid=1, tid=1)
    ms = 1_000_000 * slower
    at = np.arange(10) * 40 * ms
    if steps:
        b.steps(np.arange(10), at, np.full(10, 40 * ms), "loop")
    data = int(32 * item_ms * ms)
    name = SEVERAL if loader["num_workers"] else SINGLE
    b.slices(ts=at, dur=np.full(10, data), name=name, phase="data", track=main)
    if line:
        within = b.stack([("Slow.__getitem__", loader["file"], 9)])
        times = {"ts": at + ms, "dur": np.full(10, data - 2 * ms)}
        b.slices(**times, name=line, category="python", track=main, stack=within)
    b.slices(ts=at + data, dur=np.full(10, 5 * ms), name="aten::mm", phase="forward", track=main)
    counter = b.track("process CPU", "counter", pid=1, unit="share")
    b.counter(counter, np.arange(1, 5) * 100 * ms, np.full(4, busy))
    return b.seal()


def test_workers_by_the_machine_and_the_item():
    row = advice_row(loading(), "dataloader-workers")
    # 320 ms of waiting side by side in two processes, the last step, and starting them
    assert row["gain_share"] == pytest.approx(1 - (160 + 8 + 25) / 400, abs=0.01)
    assert "num_workers=2" in row["remedy"]
    assert "pin_memory" not in row["remedy"]
    assert row["place"] == "cell:9"
    assert "`Slow.__getitem__` (cell:9)" in row["finding"]
    hottest = check(loading(line="cell:11  x = resize(x)")).iloc[0]["finding"]
    assert hottest.endswith("`Slow.__getitem__` (cell:9), 300 ms of it in `x = resize(x)` (cell:11).")
    assert "num_workers=1" in advice_row(loading(cpus=1), "dataloader-workers")["remedy"]
    # two cores that compute all the time have no time for more
    assert advice_row(loading(busy=1.0), "dataloader-workers") is None
    assert "num_workers=2 in place of 1" in advice_row(loading(num_workers=1), "input-bound")["remedy"]
    assert advice_row(loading(num_workers=2), "input-bound") is None


def test_workers_that_do_not_pay_off_in_the_recording_are_named():
    table = advice(loading(start_method="forkserver"))
    assert table.empty
    # 400 ms of ten batches become 168 ms, and new Python processes start in 3 s
    assert table.attrs["withheld"]["dataloader-workers"] == (
        "starting workers by forkserver takes about 3 s, which pays off after 130 batches; "
        "the recording has 10"
    )


@pytest.mark.parametrize(
    ("cpus", "method", "file", "more"),
    [
        (2, "fork", "/tmp/ipykernel_7/1.py", ""),
        (2, "forkserver", "/home/me/data.py", ""),
        (2, "forkserver", "/tmp/ipykernel_7/1.py", 'in a module, or pass multiprocessing_context="fork"'),
        (2, "spawn", "/tmp/ipykernel_7/1.py", "in a module."),
        (0, "spawn", "/tmp/ipykernel_7/1.py", "in a module."),
    ],
)
def test_workers_that_cannot_import_a_notebook_have_their_start_method_named(cpus, method, file, more):
    row = advice_row(loading(cpus, start_method=method, file=file, slower=100), "dataloader-workers")
    said = f"Workers start by {method} here and cannot import a notebook's classes: define `Slow` "
    assert (said + more in row["remedy"]) == bool(more)
    assert ("start by" in row["remedy"]) == bool(more)


def test_no_workers_for_what_lies_in_memory():
    trace = loading(in_memory=True, dataset="TensorDataset")
    assert advice(trace)["rule"].tolist() == ["items-one-by-one"]
    row = advice_row(loading(in_memory=True, dataset="TensorDataset", steps=False), "items-one-by-one")
    assert row["finding"].startswith("The run spends 320 ms taking items one by one")
    sampler = loading(in_memory=True, dataset="TensorDataset", line="cell:7  time.sleep(0.002)")
    assert advice_row(sampler, "items-one-by-one") is None
    cheap = loading(item_ms=0.01, batch_size=320)
    assert not {"dataloader-workers", "input-bound"} & set(advice(cheap)["rule"])


def _kind(pid, tid):
    return "python" if tid >= 0 else "process" if pid == 1 else "child"


def concurrent(threads_ms, children_ms=(), calls="crunch(n)", function=None, waits_ms=()):
    """200 ms of threads of one process, and children, with the CPU time that each gets in them."""
    ms = 1_000_000
    cpu = {"pid": 1, "tid": 1, "cores": 2.0}
    b = TraceBuilder(metadata={"machine": {"cpus": 2, "gil": True}, "cpu": cpu})
    for number, _ in enumerate(threads_ms):
        track = b.track(f"thread {number}", pid=1, tid=number + 1)
        root = b.stack([("<module>", "cell", number + 1)])
        name = f"cell:{number + 1}  {calls}"
        b.slices(ts=0, dur=200 * ms, name=name, category="python", track=track, stack=root)
        if function and not number:
            stack = b.stack([function], above=root)
            b.slices(ts=0, dur=200 * ms, name="map", category="python", track=track, stack=stack)
    waits_ms = waits_ms or [0] * len(children_ms)
    places = [(1, number + 1, spent, 0) for number, spent in enumerate(threads_ms)]
    places += [(number + 2, -1, *both) for number, both in enumerate(zip(children_ms, waits_ms, strict=True))]
    places += [(1, -1, sum(threads_ms), 0)]
    rows = [
        (pid, tid, "", _kind(pid, tid), at, at // 200 * spent, at // 200 * waited)
        for pid, tid, spent, waited in places
        for at in (0, 200 * ms)
    ]
    table = pd.DataFrame(rows, columns=["pid", "tid", "name", "kind", "ts", "cpu_ns", "wait_ns"])
    b.metadata["tables"] = {"cpu": table}
    return b.seal()


def test_threads_that_take_turns():
    row = advice_row(concurrent([0, 100, 100]), "threads-take-turns")
    assert row["gain_ns"] == 200_000_000 - 100_000_000 - 2 * PROCESS_NS
    assert "2 threads compute" in row["finding"]
    assert advice_row(concurrent([0, 190, 190]), "threads-take-turns") is None  # two cores, as NumPy gets
    assert advice_row(concurrent([0, 195, 2]), "threads-take-turns") is None  # one of them waits


def test_a_pool_that_costs_more_than_it_works():
    function = ("map", "/usr/lib/python3.12/multiprocessing/pool.py", 5)
    row = advice_row(concurrent([5], [10, 12], "pool.map(f, data)", function), "pool-overhead")
    assert row["gain_ns"] == 200_000_000 - 22_000_000
    assert row["place"] == "cell:1"
    assert advice_row(concurrent([5], [190, 190], "pool.map(f, data)", function), "pool-overhead") is None
    other_programs = concurrent([5], [10, 12], "pool.map(f, data)", function, waits_ms=[90, 88])
    assert advice_row(other_programs, "pool-overhead") is None, "its processes waited for a core"
    some = advice_row(
        concurrent([5], [10, 12], "pool.map(f, data)", function, waits_ms=[20, 0]), "pool-overhead"
    )
    assert "compute for 22 ms in all" in some["finding"]
    assert some["gain_ns"] == 200_000_000 - 42_000_000
    joblib = ("Parallel.__call__", "/usr/lib/python3/site-packages/joblib/parallel.py", 5)
    idle = concurrent([190], [0.001], "Parallel(prefer='threads')(jobs)", joblib)
    assert advice_row(idle, "pool-overhead") is None, "joblib ran threads; the child was there before"


windows = st.tuples(st.integers(0, 60), st.integers(61, 120))


def check(trace, window=None):
    """What holds of any advice."""
    table = advice(trace, window=window, min_share=0)
    check_proven(trace, table)
    assert len(table) == table["rule"].nunique() <= len(RULES)
    assert table["gain_ns"].is_monotonic_decreasing
    assert ((table["gain_ns"] >= 0) & table["gain_share"].between(0, 1)).all()
    words = {str(name) for name in trace.slices["name"].cat.categories}
    locations = {f"{file}:{line}" for file, line in lines(trace)[["file", "line"]].to_numpy().tolist()}
    locations |= {f"cell:{line}" for line in loaders(trace)["line"]}
    locations |= {f"{Path(file).name}:{n}" for file, n in loaders(trace)[["file", "line"]].to_numpy()}
    for row in table.itertuples():
        assert row.finding.endswith(".")
        assert row.remedy.endswith(".")
        assert pd.Index(row.rows).isin(trace.slices.index).all()
        assert len(row.rows) <= max(row.count, 0)
        names = row.select.get("name", [])
        assert {names} <= words if isinstance(names, str) else set(names) <= words
        if row.place:
            assert row.place in locations
        selection = Selection()
        selection.update(**row.select)
        if len(row.rows) and row.rule not in ("memory-growth",):
            assert selection.mask(trace.slices)[row.rows].all(), row.rule
        if row.what_if:
            answer = what_if(trace, **row.what_if)
            assert not answer.refused
            assert row.gain_ns <= max(answer.upper, 0) * len(answer.steps)
    if not len(trace.slices):
        assert not table["gain_ns"].any()
    return table


@pytest.mark.parametrize(("waits", "gain"), [(True, 4 * 40 * US), (False, 0)])
def test_gains_are_those_of_the_critical_path(waits, gain):
    """Faster kernels help where the steps wait for them, and not where the host takes as long anyway."""
    b = TraceBuilder(metadata={"devices": ["Tesla V100-SXM2-32GB"], "source": "kineto"})
    main, stream = b.track("main", tid=1), b.track("", "stream", device=0, stream=7)
    at = np.arange(4) * 100 * US
    b.steps(np.arange(4), at, np.full(4, 100 * US), "loop")
    calls = b.slices(ts=at, dur=np.full(4, 5 * US), name="cudaLaunchKernel", category="launch", track=main)
    kernels = add_slices(b, stream, "volta_sgemm_64x64_nt", at + 10 * US, 80 * US, "kernel")
    name, category = ("cudaStreamSynchronize", "sync") if waits else ("aten::sort", "operator")
    b.slices(ts=at + 6 * US, dur=np.full(4, 90 * US), name=name, category=category, track=main)
    b.flows("launch", calls, kernels)
    trace = b.seal()
    table = advice(trace)
    assert check(trace)["gain_ns"].is_monotonic_decreasing
    row = table.set_index("rule").reindex(["tensor-cores-unused"]).iloc[0]
    if gain:
        assert row["gain_ns"] == pytest.approx(gain, rel=0.01)
        assert what_if(trace, **row["what_if"]).gain * 4 == row["gain_ns"]
    else:
        assert pd.isna(row["gain_ns"])
        assert "shorter by 0 ns at most" in table.attrs["withheld"]["tensor-cores-unused"]


def test_every_rule_is_measured_or_a_bound():
    from benchmarks.advice import BOUNDS, PROGRAMS

    match = re.search(r"``rule`` str:(.*?)- ``finding``", advice.__doc__, re.DOTALL)
    rules = {word for part in re.findall(r"``([^`]+)``", match[1]) for word in part.split()}
    measured = {program.rule for program in PROGRAMS}
    assert measured | set(BOUNDS) == rules
    assert not measured & set(BOUNDS)
    assert set(SAVED) <= measured
    assert len(rules) == len(RULES)


@given(traces(), st.none() | windows)
def test_advice_is_sound_for_any_trace(trace, window):
    check(trace, window)


def test_advice_is_sound_for_loaders_threads_and_pools():
    function = ("map", "/usr/lib/python3.12/multiprocessing/pool.py", 5)
    for trace in (
        loading(),
        loading(num_workers=1),
        loading(in_memory=True),
        concurrent([0, 100, 100]),
        concurrent([5], [10, 12], "pool.map(f, data)", function),
        optimizers("aten::addcmul_"),
    ):
        assert check(trace)["claims"].iloc[0]
