"""Memory snapshots and memory timelines of PyTorch, against its own figures."""

import copyreg
import gzip
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notebook_prof import Profile, Trace, read_trace
from notebook_prof.errors import FormatError, OptionError
from notebook_prof.formats.torch.memory_timeline import CATEGORIES, load_plain

from ..draws import draws

MIB = 1 << 20
T0 = 1_795_249_391_000_000
FUZZ = settings(max_examples=draws(50))


def frames(*names: str) -> list[dict[str, Any]]:
    """A stack, innermost first as torch writes it."""
    files = {"malloc": "CUDACachingAllocator.cpp", "empty": "/lib/torch/_refs.py"}
    return [{"name": n, "filename": files.get(n, "/home/me/train.py"), "line": 7} for n in names]


def snapshot() -> dict[str, Any]:
    """Two segments, one block from before the history, one freed in it, one live, an OOM."""
    model, work, batch = (frames("malloc", "empty", who, "main") for who in ("load", "work", "batch"))

    def event(us: int, action: str, addr: int, size: int, stack: Any = None) -> dict[str, Any]:
        return {
            "action": action, "addr": addr, "size": size, "stream": 0, "time_us": T0 + us,
            "frames": stack or [], "pool_id": (0, 0), "compile_context": "N/A", "user_metadata": "",
        }  # fmt: skip

    oom = {"action": "oom", "size": 80 * MIB, "device_free": MIB, "stream": 0}
    trace = [
        event(0, "free_requested", 0x7F00_0010_0000, 600),
        event(0, "free_completed", 0x7F00_0010_0000, 600),
        event(5, "segment_alloc", 0x7F00_0100_0000, 20 * MIB, work),
        event(5, "alloc", 0x7F00_0100_0000, 3 * MIB, work),
        event(9, "alloc", 0x7F00_0130_0000, 5 * MIB, batch),
        {**oom, "time_us": T0 + 20, "frames": batch},
        event(30, "free_requested", 0x7F00_0130_0000, 5 * MIB),
        event(31, "free_completed", 0x7F00_0130_0000, 5 * MIB),
        event(40, "snapshot", 0, 0),
    ]

    def block(addr: int, size: int, requested: int, stack: Any = None) -> dict[str, Any]:
        state = "active_allocated" if stack else "inactive"
        place = {"address": addr, "size": size, "requested_size": requested}
        return {**place, "state": state, "frames": stack or []}

    def segment(addr: int, size: int, blocks: list[Any]) -> dict[str, Any]:
        return {
            "device": 1, "address": addr, "total_size": size, "stream": 0, "segment_type": "large",
            "segment_pool_id": (0, 0), "allocated_size": 0, "active_size": 0, "blocks": blocks,
        }  # fmt: skip

    return {
        "segments": [
            segment(0x7F00_0000_0000, 2 * MIB, [
                block(0x7F00_0000_0000, MIB, MIB - 100, model), block(0x7F00_0010_0000, MIB, 0),
            ]),
            segment(0x7F00_0100_0000, 20 * MIB, [
                block(0x7F00_0100_0000, 3 * MIB, 3 * MIB, work), block(0x7F00_0130_0000, 17 * MIB, 0),
            ]),
        ],
        "device_traces": [[], trace],
        "allocator_settings": {"expandable_segments": False},
        "external_annotations": [
            {"device": 1, "time_us": T0 + 1, "stage": "START", "name": "step"},
            {"device": 1, "time_us": T0 + 38, "stage": "END", "name": "step"},
        ],
    }  # fmt: skip


@pytest.fixture(params=[2, 3, 4, 5])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Trace:
    (tmp_path / "unknown").write_bytes(pickle.dumps(snapshot(), protocol=request.param))
    return read_trace(tmp_path / "unknown")


def test_levels_are_counted_back_from_the_blocks(opened: Trace) -> None:
    assert opened.metadata["source"] == "torch_memory"
    model = MIB - 100
    rows = opened.allocations[["ts", "bytes", "allocated", "reserved", "device"]].values.tolist()
    assert rows == [
        [0, 600, 600, 2 * MIB, 1],
        [0, model, 600 + model, 2 * MIB, 1],
        [1000, -600, model, 2 * MIB, 1],
        [6000, 0, model, 22 * MIB, 1],
        [6001, 3 * MIB, model + 3 * MIB, 22 * MIB, 1],
        [10000, 5 * MIB, model + 8 * MIB, 22 * MIB, 1],
        [31000, -5 * MIB, model + 3 * MIB, 22 * MIB, 1],
    ]
    assert "levels-do-not-meet" not in opened.report
    assert opened.report["out-of-memory"].example == f"{80 * MIB:,} bytes were requested"


def test_blocks_have_their_stacks(opened: Trace) -> None:
    live = Profile(opened).memory.live("12us")
    assert live[["bytes", "operator"]].values.tolist() == [
        [5 * MIB, "batch (train.py:7)"],
        [3 * MIB, "work (train.py:7)"],
        [MIB - 100, "load (train.py:7)"],
    ]
    peak = Profile(opened).memory.peak()
    assert peak[["device", "ts", "peak_bytes"]].values.tolist() == [[1, 10000, 9 * MIB - 100]]
    names = opened.slices.set_index("name")
    assert {"cudaMalloc", "out of memory", "step"} <= set(names.index)
    assert names.loc["step", "dur"] == 37_000
    stacks = opened.stacks.set_index("stack")
    leaf = names.loc["batch (train.py:7)", "stack"]
    path = []
    while leaf is not None and not np.isnan(leaf):
        path.append(stacks.loc[leaf, "name"])
        leaf = stacks["parent"].astype("float64")[leaf]
    assert path == ["malloc", "empty", "batch", "main"]


def test_tables_keep_what_the_trace_has_no_place_for(opened: Trace) -> None:
    blocks = opened.metadata["tables"]["memory_blocks"]
    assert blocks["state"].tolist() == ["active_allocated", "inactive"] * 2
    assert blocks.groupby("segment")["bytes"].sum().tolist() == [2 * MIB, 20 * MIB]
    events = opened.metadata["tables"]["memory_events"]
    assert events["action"].tolist()[-2:] == ["free_completed", "snapshot"]
    assert events["unix_ns"].iloc[0] == T0 * 1000
    assert opened.metadata["allocator_settings"] == {"expandable_segments": False}


def test_a_snapshot_that_torch_made_has_the_totals_that_torch_prints(data: Path) -> None:
    """`torch.cuda._memory_viz.segsum` of the file: reserved 105.8 MiB, allocated 540.8 KiB."""
    trace = read_trace(data / "torch_memory" / "profile.snapshot.pickle.gz")
    last = trace.allocations.iloc[-1]
    assert last["reserved"] == 110_895_680
    assert last["allocated"] == 553_776
    assert trace.report["no-times"].count == len(trace.metadata["tables"]["memory_events"]) == 254
    live = Profile(trace).memory.live(trace.span.end)
    assert live["bytes"].sum() == 553_776
    assert live["bytes"].iloc[0] == 400_000
    blocks = trace.metadata["tables"]["memory_blocks"]
    active = blocks[blocks["state"] == "active_allocated"]
    assert set(live["addr"]) == set(active["addr"])


def test_old_snapshots_are_lists_of_segments(tmp_path: Path) -> None:
    history = [{"real_size": 500, "frames": frames("f")}]
    blocks = [
        {"size": 512, "state": "active_allocated", "history": history},
        {"size": 1536, "state": "inactive"},
    ]
    segment = {"device": 0, "address": 4096, "total_size": 2048, "segment_type": "small", "stream": 0}
    old = [{**segment, "blocks": blocks}]
    (tmp_path / "old").write_bytes(pickle.dumps(old, protocol=2))
    trace = read_trace(tmp_path / "old")
    assert trace.allocations[["addr", "bytes", "reserved"]].values.tolist() == [[4096, 512, 2048]]
    assert trace.slices["name"].tolist() == ["f (train.py:7)"]
    assert trace.metadata["tables"]["memory_blocks"]["addr"].tolist() == [4096, 4608]


def test_what_newer_snapshots_have_is_named(tmp_path: Path) -> None:
    """Pinned memory of the host, and events that allocate nothing, as PyTorch 2.14 writes them."""
    old, new = snapshot(), snapshot()
    note = {"action": "annotate", "addr": 0, "size": 0, "time_us": T0 + 6, "user_metadata": "x"}
    new["device_traces"][1].insert(4, note)
    new |= {"host_segments": [{"size": 4}], "host_traces": [[{"action": "alloc"}, {"action": "alloc"}]]}
    traces = []
    for name, content in (("old", old), ("new", new)):
        (tmp_path / name).write_bytes(pickle.dumps(content))
        traces.append(read_trace(tmp_path / name))
    before, after = ({issue.code: issue.count for issue in trace.report} for trace in traces)
    assert after == before | {"host-memory-not-used": 3}
    assert traces[1].metadata["tables"]["memory_events"]["action"].tolist().count("annotate") == 1
    assert traces[0].slices.equals(traces[1].slices)
    assert traces[0].allocations.equals(traces[1].allocations)


def test_broken_rows_are_counted(tmp_path: Path) -> None:
    broken = snapshot()
    rows = [None, {"action": "dance"}, {"action": "alloc", "size": "x", "addr": -1}]
    broken["device_traces"][1][1:1] = rows
    broken["segments"].append(3)
    (tmp_path / "x").write_bytes(pickle.dumps(broken))
    trace = read_trace(tmp_path / "x")
    assert trace.report["broken-event"].count == trace.report["broken-segment"].count == 1
    assert trace.report["unknown-action"].example == "dance"
    assert trace.report["unsorted-events"].count >= 1
    assert trace.allocations["allocated"].iloc[-1] == 4 * MIB - 100


class Evil:
    def __reduce__(self) -> Any:
        return print, ("executed",)


ATTACKS = {
    "reduce": pickle.dumps({"segments": [Evil()]}),
    "global": pickle.dumps({"segments": print}),
    "object": pickle.dumps({"segments": Path("x")}),
    "inst": b"\x80\x02}X\x08\x00\x00\x00segments(ios\nsystem\n(S'true'\ntR.",
    "extension": b"\x80\x02}X\x08\x00\x00\x00segments\x82\xf0s.",
    "persistent": b"\x80\x02}X\x08\x00\x00\x00segmentsPid\ns.",
    "build": b"\x80\x02}X\x08\x00\x00\x00segments}}bs.",
    "memo bomb": b"\x80\x02}r\xff\xff\xff\x7fX\x08\x00\x00\x00segments]s.",
    "long text": b"\x80\x04}\x8d" + b"\xff" * 7 + b"\x7fsegments.",
    "long number": b"\x80\x02}X\x08\x00\x00\x00segments\x8b\xff\xff\xff\x7f.",
    "tuple bomb": b"\x80\x02}X\x08\x00\x00\x00segments" + b"K\x00K\x00\x86" + b"q\x00h\x00\x86" * 60 + b"Ns.",
    "buffers": b"\x80\x05}\x8c\x08segments\x97s.",
    "set": pickle.dumps({"segments": {1}}),
    "bytes": pickle.dumps({"segments": b"x" * 300}),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_pickles_that_do_anything_are_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x").write_bytes(ATTACKS[name])
    with pytest.raises(FormatError, match=r"never does|cut off|damaged"):
        read_trace(tmp_path / "x", format="torch_memory")
    assert capsys.readouterr().out == ""


def test_registered_extensions_are_not_reached() -> None:
    copyreg.add_extension("builtins", "print", 240)
    try:
        pickled = pickle.dumps(print, protocol=2)
        assert pickle.loads(pickled) is print  # now in the cache
        with pytest.raises(FormatError, match="EXT1"):
            load_plain(pickled + b" " * 16)
    finally:
        copyreg.remove_extension("builtins", "print", 240)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text(), inner)
        | st.tuples(st.integers(0, 9), st.none())
        | st.lists(st.integers(-(2**40), 2**40), max_size=9).map(tuple)
    ),
    max_leaves=30,
)


@given(value=PLAIN, protocol=st.integers(2, 5))
@FUZZ
def test_plain_data_loads_as_pickle_does(value: Any, protocol: int) -> None:
    shared = [value, value, {"again": value}]
    assert load_plain(pickle.dumps(shared, protocol=protocol)) == shared


def test_other_pickles_and_cut_ones_are_named(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(pickle.dumps({"weights": [1]}))
    with pytest.raises(FormatError, match=r"x: .*not recognised"):
        read_trace(tmp_path / "x")
    with pytest.raises(FormatError, match=r"dict with the keys \['weights'\], not a memory snapshot"):
        read_trace(tmp_path / "x", format="torch_memory")
    whole = pickle.dumps(snapshot())
    for kept in (200, len(whole) // 2, len(whole) - 1):
        (tmp_path / "x").write_bytes(whole[:kept])
        with pytest.raises(FormatError, match="cut off"):
            read_trace(tmp_path / "x")


# figures of the files themselves: the largest sum of a row, in bytes
PEAKS = {"cnn_sgd": 23_265_720, "cnn_adam": 23_821_848, "lm_adamw": 20_297_836}


@pytest.mark.parametrize("name", PEAKS)
def test_both_timelines_give_the_same_peak(name: str, shared_traces: Path) -> None:
    folder = shared_traces / "torch213_cpu"
    raw = read_trace(folder / f"{name}.memory_timeline.raw.json.gz", device=-1)
    levels = read_trace(folder / f"{name}.memory_timeline.json.gz", device=-1)
    peaks = [Profile(trace).memory.peak() for trace in (raw, levels)]
    assert [peak["peak_bytes"].tolist() for peak in peaks] == [[PEAKS[name]]] * 2
    assert abs(int(peaks[0]["ts"].iloc[0]) - int(peaks[1]["ts"].iloc[0])) <= 1000
    tables = [trace.metadata["tables"]["memory_categories"] for trace in (raw, levels)]
    assert tables[0]["at_peak_bytes"].tolist() == tables[1]["at_peak_bytes"].tolist()
    assert tables[0]["at_peak_bytes"].sum() == PEAKS[name]
    # torch rounds by float division when it makes microseconds
    assert abs(raw.metadata["start_unix_ns"] - levels.metadata["start_unix_ns"]) <= 1000
    assert Profile(raw).memory.live()["bytes"].sum() == PEAKS[name]


def test_levels_by_category_are_those_of_the_file(data: Path) -> None:
    path = data / "torch213_cpu" / "cnn_sgd.memory_timeline.json.gz"
    times, rows = json.loads(gzip.decompress(path.read_bytes()))
    trace = read_trace(path)
    assert trace.report["device-not-named"].example == "taken for device 0"
    assert trace.report["blocks-not-told"].severity == "loss"
    named = trace.tracks.set_index("track")["name"]
    at = (np.array(times) * 1000) - trace.metadata["start_unix_ns"]
    for track, part in trace.counters.groupby("track"):
        column = 1 + CATEGORIES.index(named[track].removeprefix("memory: "))
        rank = np.searchsorted(part["ts"].to_numpy(), at, side="right") - 1
        levels_at = np.where(rank >= 0, part["value"].to_numpy()[np.maximum(rank, 0)], 0)
        last = np.append(np.diff(at) > 0, True)
        assert (levels_at == np.array(rows)[:, column])[last].all()


def test_raw_timelines_sum_to_the_levels(data: Path) -> None:
    trace = read_trace(data / "torch213_cpu" / "cnn_sgd.memory_timeline.raw.json.gz")
    total = trace.counters.groupby("ts")["value"].count()
    assert len(total) > 500
    assert (trace.allocations["bytes"].cumsum() == trace.allocations["allocated"]).all()
    assert trace.report["addresses-matched"].count == len(trace.allocations) == 1286


def test_a_timeline_that_is_cut_off_is_refused(data: Path, tmp_path: Path) -> None:
    for name in ("raw.json", "json"):
        whole = gzip.decompress((data / "torch213_cpu" / f"cnn_sgd.memory_timeline.{name}.gz").read_bytes())
        (tmp_path / "part").write_bytes(whole[: len(whole) * 3 // 4])
        with pytest.raises(FormatError, match="the file was cut, copy or record it again"):
            read_trace(tmp_path / "part")


def test_options(data: Path) -> None:
    path = data / "torch213_cpu" / "cnn_sgd.memory_timeline.json.gz"
    assert set(read_trace(path, device=3).allocations["device"]) == {3}
    with pytest.raises(OptionError, match="device='cpu'"):
        read_trace(path, device="cpu")
    with pytest.raises(OptionError, match="'devices'"):
        read_trace(path, devices=1)
