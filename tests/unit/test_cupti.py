"""From buffers of CUPTI's records to a trace: real structures, a library that plays, and every refusal."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from notebook_prof.collectors.base import Recording
from notebook_prof.collectors.cupti import Cupti, CuptiSession, find, layouts, names, possible
from notebook_prof.collectors.cupti import arena as arena_module
from notebook_prof.collectors.cupti.align import Alignment, Reading, read
from notebook_prof.collectors.cupti.arena import BUFFER_BYTES, Arena
from notebook_prof.collectors.cupti.columns import columns
from notebook_prof.collectors.cupti.driver_memory import driver_memory
from notebook_prof.collectors.cupti.layouts import STRUCTS, sizes
from notebook_prof.collectors.cupti.walk import Records, walk
from notebook_prof.errors import OptionError, RecordingError
from notebook_prof.readers.kineto import assemble
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.trace.clocks import Clock
from notebook_prof.trace.report import ImportReport

DATA = Path(__file__).parents[1] / "data" / "gpu"
RELEASES = (18, 28, 130500)
T0 = 1_700_000_000_000_000_000
NAMES = {1: "_Z4gemmPf", 2: "cupy_add__float32_float32_float32", 3: "epoch", 4: "here"}
OTHERS = {37: 24}
"""Kind STREAM is not read; a library steps over it all the same."""


def strides(version: int) -> dict[int, int]:
    bytes_of = sizes(version)
    if version == 18:
        bytes_of["Kernel"] = 208
    return {kind: bytes_of[struct] for kind, struct in STRUCTS.items()} | OTHERS


def words(version: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.frombuffer((DATA / f"cupti_{version}.bin").read_bytes(), np.uint64)


@pytest.fixture(autouse=True)
def no_pointers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses of names in the fixtures are numbers."""
    monkeypatch.setattr(names, "text_at", lambda address: NAMES.get(address, ""))


@pytest.mark.parametrize("version", RELEASES)
def test_every_record_is_found(version: int) -> None:
    records = walk([words(version)], strides(version))
    counts = {STRUCTS[kind]: len(rows) for kind, rows in records.of.items() if STRUCTS[kind] != "API"}
    assert counts == {
        "Memory": 2,
        "Marker": 3,
        "Kernel": 22,
        "ExternalCorrelation": 1,
        "Memcpy": 2,
        "MemcpyPtoP": 1,
        "Memset": 1,
        "Overhead": 1,
        "Synchronization": 1,
    }
    assert {len(records.of[kind]) for kind in (4, 5)} == {20, 21}
    assert records.unread == {37: 1}
    assert records.lost_bytes == 0
    external = records.of[39]
    assert (external["externalId"][0], external["correlationId"][0]) == (77, 100)
    p2p = records.of[22]
    assert (p2p["srcDeviceId"][0], p2p["dstDeviceId"][0], p2p["bytes"][0]) == (1, 0, 4096)


def trace_of(version: int) -> tuple[Trace, ImportReport]:
    records = walk([words(version)], strides(version))
    clock = Alignment(Reading(T0, T0, 10), Reading(T0 + 10**6, T0 + 10**6, 20))
    builder, report = TraceBuilder(), ImportReport()
    calls = {(2, 211): "cudaLaunchKernel", (1, 307): "cuLaunchKernel"}
    assemble(columns(records, clock, lambda d, n: calls[d, n], report, pid=5), builder)
    driver_memory(records, clock, builder)
    return builder.seal(), report


@pytest.mark.parametrize("version", RELEASES)
def test_the_trace_of_a_buffer(version: int) -> None:
    trace, report = trace_of(version)
    slices = trace.slices
    count = slices["category"].value_counts()
    assert count[["kernel", "launch", "memcpy", "memset", "sync", "overhead", "annotation"]].tolist() == [
        *(21, 21, 3, 1, 1, 1, 2)
    ]
    kernels = slices[slices["category"] == "kernel"]
    assert kernels["name"].astype(str).value_counts().to_dict() == {
        "cupy_add__float32_float32_float32": 11,
        "gemm(float*)": 10,
    }
    assert sorted(kernels["dur"].unique()) == [8_000, 30_000]
    assert set(zip(kernels["device"], kernels["stream"], strict=True)) == {(1, 7), (1, 13)}
    launches = trace.flows[trace.flows["kind"] == "launch"]
    assert len(launches) == 21
    src, dst = slices.loc[launches["src"]], slices.loc[launches["dst"]]
    assert (src["correlation"].to_numpy() == dst["correlation"].to_numpy()).all()
    assert set(src["name"]) == {"cudaLaunchKernel", "cuLaunchKernel"}  # one of the driver stands alone
    assert (src["name"] == "cuLaunchKernel").sum() == 1
    copies = slices[slices["category"] == "memcpy"]["name"].tolist()
    assert copies == [
        "Memcpy HtoD (Pageable -> Device)",
        "Memcpy DtoH (Device -> Pinned)",
        "Memcpy PtoP (Device -> Device)",
    ]
    epoch = slices[slices["name"] == "epoch"].iloc[0]
    assert epoch["dur"] == 648_000
    assert slices[slices["name"] == "here"]["dur"].tolist() == [0]
    assert report["records-without-times"].count == 1


def test_how_kernels_were_launched_is_reported() -> None:
    trace, _ = trace_of(28)
    from notebook_prof.analysis import kernels, trust

    table = kernels(trace, by=["name", "grid"]).set_index("name")
    row = table.loc["gemm(float*)"]
    assert (row["grid"], row["registers_per_thread"], row["shared_memory_bytes"]) == ("[80, 2, 1]", 40, 1536)
    codes = set(trust(trace)["code"])
    assert not codes & {"kernels-lost-at-start", "kernels-lost-between", "no-device-work", "stream-overlap"}
    counter = trace.tracks.set_index("track").loc[trace.counters["track"].iloc[0], "name"]
    assert counter == "GPU 1 taken from the driver"
    assert trace.counters["value"].tolist() == [1 << 20, 0]


def plain_starts(buffer: np.ndarray[Any, Any], steps: dict[int, int]) -> list[int]:
    """Record by record, as C would."""
    at, offsets = 0, []
    kinds = buffer.view(np.uint32)[::2]
    while at < len(buffer) and (step := steps.get(int(kinds[at]), 0) // 8) and at + step <= len(buffer):
        offsets.append(at)
        at += step
    return offsets


def test_walking_is_the_same_as_record_by_record() -> None:
    """Random kinds, and bodies of small numbers that look like headers."""
    from notebook_prof.collectors.cupti.walk import KINDS, starts

    rng = np.random.default_rng(7)
    steps = strides(28)
    kinds = np.array(sorted(steps))
    lengths = np.zeros(KINDS, np.int64)
    for kind, size in steps.items():
        lengths[kind] = size // 8
    for trial in range(60):
        chosen = rng.choice(kinds, size=int(rng.integers(0, 200)))
        buffer = rng.integers(0, 60, size=int(lengths[chosen].sum())).astype(np.uint64)
        at = np.concatenate([[0], np.cumsum(lengths[chosen])])[:-1].astype(np.int64)
        buffer[at] = chosen
        if trial % 3 == 1 and len(buffer):  # a kind that nobody knows, in the middle
            buffer[at[len(at) // 2]] = 63
        if trial % 3 == 2:  # cut off
            buffer = buffer[: len(buffer) * 2 // 3]
        offsets, end = starts(buffer, lengths)
        expected = plain_starts(buffer, steps)
        assert offsets.tolist() == expected
        assert end == (expected[-1] + steps[int(buffer[expected[-1]])] // 8 if expected else 0)


def test_occupancy_where_the_card_is_known() -> None:
    from notebook_prof.analysis import kernels
    from notebook_prof.collectors.cupti.devices import Device

    card = Device("A100", 40 << 30, 108, 2048, 8, 0, 167_936, 65_536, 32, 1024)
    clock = Alignment(Reading(T0, T0, 1), Reading(T0 + 10**6, T0 + 10**6, 1))
    table = columns(
        walk([words(28)], strides(28)), clock, lambda d, n: "call", ImportReport(), pid=5, devices={1: card}
    )
    assemble(table, builder := TraceBuilder())
    row = kernels(builder.seal()).set_index("name").loc["gemm(float*)"]
    assert row["blocks_per_sm"] == pytest.approx(160 / 108)
    assert row["occupancy"] == pytest.approx(160 / 108 * 256 / 2048)


@pytest.mark.parametrize(("size", "has_priority"), [(208, False), (224, True)])
def test_graphs_nodes_and_priorities(size: int, has_priority: bool) -> None:
    """Three replays of two nodes on two streams; priorities are in the records of CUDA 13.1 on."""
    from notebook_prof.analysis import graph_nodes, kernels

    rows = np.zeros(6, layouts.record("Kernel", size))
    turn, node = np.arange(6) // 2, np.arange(6) % 2
    rows["kind"], rows["name"], rows["deviceId"] = 10, 1 + node, 1
    rows["start"] = T0 + 100 * turn + 40 * node
    rows["end"] = rows["start"] + 30
    rows["streamId"], rows["correlationId"], rows["graphId"] = 7 + 6 * node, 500 + turn, 3
    rows["graphNodeId"] = (3 << 32) + node
    if has_priority:
        rows["priority"] = -5 * node
    moved = np.zeros(1, layouts.record("Memcpy", 88))
    moved["kind"], moved["copyKind"], moved["bytes"], moved["streamId"], moved["deviceId"] = 1, 1, 64, 7, 1
    moved["start"], moved["end"], moved["correlationId"] = T0 + 350, T0 + 360, 502
    moved["graphId"], moved["graphNodeId"] = 3, (3 << 32) + 2
    calls = np.zeros(3, layouts.record("API", 40))
    calls["kind"], calls["cbid"], calls["threadId"] = 5, 311, 11
    calls["start"], calls["correlationId"] = T0 + 100 * np.arange(3) - 20, 500 + np.arange(3)
    calls["end"] = calls["start"] + 10
    clock = Alignment(Reading(T0, T0, 10), Reading(T0 + 10**6, T0 + 10**6, 20))
    records = Records(of={5: calls, 10: rows, 1: moved})
    table = columns(records, clock, lambda d, n: "cudaGraphLaunch", ImportReport(), pid=5)
    assemble(table, builder := TraceBuilder())
    trace = builder.seal()
    nodes = graph_nodes(trace)
    assert nodes[["graph", "node", "name", "stream", "replays"]].values.tolist() == [
        [3, 3 << 32, "gemm(float*)", 7, 3],
        [3, (3 << 32) + 1, "cupy_add__float32_float32_float32", 13, 3],
        [3, (3 << 32) + 2, "Memcpy HtoD (Unknown -> Unknown)", 7, 1],
    ]
    streams = set(trace.tracks.loc[trace.tracks["kind"] == "stream", "name"])
    assert ("GPU 1 stream 13 (priority -5)" in streams) == has_priority
    if has_priority:
        by = kernels(trace, by=["graph_node", "priority"], category="kernel")
        assert sorted(by["priority"]) == [-5, 0]
    else:
        with pytest.raises(OptionError, match="'priority' of launches was not recorded"):
            kernels(trace, by="priority")


def test_what_cannot_be_read_is_counted() -> None:
    buffer = words(28).copy()
    steps = strides(28) | {37: 0}
    records = walk([buffer, words(28)[:0]], steps)
    assert records.lost_bytes > 0
    assert len(records.of[10]) == 21
    assert walk([np.zeros(4, np.uint64)], steps).lost_bytes == 32


def test_the_clocks_are_laid_over_one_another() -> None:
    ticks = iter(range(0, 10_000, 7))
    reading = read(lambda: next(ticks), lambda: 5_000, tries=4)
    assert reading == Reading(3, 5_000, 4)
    line = Alignment(Reading(1_000_000, 500_000, 40), Reading(2_000_100, 1_500_000, 25))
    assert (line.offset_ns, line.drift_ns, line.residual_ns) == (500_000, 100, 40)
    middle = line.to_wall(np.array([500_000, 1_000_000, 1_500_000], np.uint64))
    assert middle.tolist() == [1_000_000, 1_500_050, 2_000_100]
    big = Alignment(Reading(T0 + 7, T0, 1), Reading(T0 + 10**9 + 7, T0 + 10**9, 1))
    assert big.to_wall(np.array([T0 + 123_456_789], np.uint64)).tolist() == [T0 + 123_456_796]


def test_times_that_show_no_drift_keep_their_distances() -> None:
    """Readings wobble by less than their errors: nothing may be stretched, whatever the wobble."""
    ticks = np.arange(T0, T0 + 10**9, 4_999_993, dtype=np.uint64)
    for wobble in range(-60, 61, 7):
        line = Alignment(Reading(T0 + 500, T0, 40), Reading(T0 + 10**9 + 500 + wobble, T0 + 10**9, 25))
        wall = line.to_wall(ticks)
        assert line.steady
        assert (np.diff(wall) == 4_999_993).all()
        shift = int(wall[0]) - T0
        assert abs(shift - 500) <= 40
        assert abs(shift - 500 - wobble) <= 25
    drifting = Alignment(Reading(T0, T0, 40), Reading(T0 + 10**9 + 66, T0 + 10**9, 25))
    assert not drifting.steady
    assert drifting.to_wall(np.array([T0 + 10**9], np.uint64)).tolist() == [T0 + 10**9 + 66]


needs_code = pytest.mark.skipif(not possible(), reason="the callbacks are for Linux on x86-64")
REQUEST = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)
)
COMPLETE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
)


def request_buffer(arena: Arena) -> tuple[int, int, int]:
    buffer, size, most = ctypes.c_void_p(9), ctypes.c_size_t(9), ctypes.c_size_t(9)
    REQUEST(arena.request)(ctypes.byref(buffer), ctypes.byref(size), ctypes.byref(most))
    return buffer.value or 0, size.value, most.value


def complete_buffer(arena: Arena, address: int, valid: int) -> None:
    COMPLETE(arena.complete)(None, 0, address, BUFFER_BYTES, valid)


@needs_code
def test_buffers_are_bounded_and_counted() -> None:
    arena = Arena(3 * BUFFER_BYTES)
    arena.open()
    got = [request_buffer(arena) for _ in range(6)]
    assert {(size, most) for _, size, most in got} == {(BUFFER_BYTES, 0)}
    addresses = [address for address, _, _ in got]
    assert np.diff(addresses).tolist() == [BUFFER_BYTES] * 3 + [0, 0]  # behind the bound all get the last
    assert addresses[0] % 4096 == 0
    assert (arena.refused, arena.outstanding) == (3, 6)
    ctypes.memmove(addresses[1], b"12345678abcdefgh", 16)
    complete_buffer(arena, addresses[1], 16)
    complete_buffer(arena, addresses[0], 0)
    for _ in range(3):
        complete_buffer(arena, addresses[5], 40)
    assert arena.wasted_bytes == 120
    assert arena.outstanding == 1
    (only,) = arena.take()
    assert only.tobytes() == b"12345678abcdefgh"
    complete_buffer(arena, addresses[2], 8)
    assert arena.outstanding == 0
    arena.open()
    assert request_buffer(arena)[0] == addresses[0]
    assert arena.take() == []


@needs_code
def test_between_recordings_nobody_writes_into_buffers_that_are_read() -> None:
    arena = Arena(2 * BUFFER_BYTES)
    arena.open()
    first = request_buffer(arena)[0]
    complete_buffer(arena, first, 8)
    arena.close()
    late = request_buffer(arena)[0]
    assert late == first + 2 * BUFFER_BYTES
    complete_buffer(arena, late, 24)
    arena.open()
    assert arena.take() == []


@needs_code
def test_many_threads_get_different_buffers(fake: str) -> None:
    """Callbacks from threads of C, at the same time, while this one holds the GIL."""
    arena = Arena(64 * BUFFER_BYTES)
    arena.open()
    library = ctypes.PyDLL(fake)  # keeps the GIL: a callback in Python would wait for it for ever
    library.hammer(ctypes.c_void_p(arena.request), ctypes.c_void_p(arena.complete), 8, 7)
    assert (arena.outstanding, arena.refused) == (0, 0)
    buffers = arena.take()
    assert len(buffers) == 56
    assert all(len(part) == 2 and part[0] == part[1] for part in buffers)
    assert len({int(part[0]) for part in buffers}) == 56


def test_where_it_cannot_be_it_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert not possible()
    with pytest.raises(RecordingError, match="Linux on x86-64"):
        Arena()


# --- a library that plays ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> str:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    path = tmp_path_factory.mktemp("fake") / "libcupti.so.12"
    source = DATA / "fake_cupti.c"
    subprocess.run([compiler, "-w", "-shared", "-fPIC", "-pthread", str(source), "-o", str(path)], check=True)
    return str(path)


@pytest.fixture
def playing(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    text = ",".join(f"{kind}:{size}" for kind, size in strides(28).items())
    monkeypatch.setenv("FAKE_CUPTI_STRIDES", text)
    monkeypatch.setenv("FAKE_CUPTI_BYTES", str(DATA / "cupti_28.bin"))
    monkeypatch.setenv("FAKE_CUPTI_NOW", "1")
    if not possible():
        pytest.skip("the callbacks are for Linux on x86-64")
    return monkeypatch


def record(fake: str, most_bytes: int = 16 << 20) -> tuple[CuptiSession, TraceBuilder]:
    session = CuptiSession(lambda: Cupti(fake), most_bytes)
    session.warm(Clock())
    session.start(Clock())
    session.stop()
    builder = TraceBuilder()
    session.result(builder)
    return session, builder


def test_a_recording_through_callbacks_of_a_foreign_thread(fake: str, playing: Any) -> None:
    playing.delenv("NVTX_INJECTION64_PATH", raising=False)
    session, builder = record(fake)
    facts = builder.metadata["cupti"]
    assert (facts["version"], facts["buffers"], facts["dropped"], facts["records"]) == (28, 1, 0, 75)
    assert abs(facts["clock_offset_ns"]) < 1_000_000  # the fake reads this clock
    assert 0 <= facts["clock_residual_ns"] < 1_000_000
    assert len(builder.seal().slices) == 50
    assert "records-dropped" not in session.report
    assert "NVTX_INJECTION64_PATH" not in os.environ


def test_a_second_recording_of_the_process(fake: str, playing: Any) -> None:
    made = []
    for _ in range(3):
        _, builder = record(fake)
        assert len(builder.seal().slices) == 50
        made.append(arena_module._arenas[-1])
    assert made[0] is made[1] is made[2]


def test_dropped_records_are_counted(fake: str, playing: Any) -> None:
    playing.setenv("FAKE_CUPTI_COPIES", "5")
    session, builder = record(fake, 3 * BUFFER_BYTES)
    issue = session.report["records-dropped"]
    size = 2 * (DATA / "cupti_28.bin").stat().st_size
    assert (issue.severity, issue.count) == ("loss", 2)
    assert f"{size:,} bytes of others lay behind the bound of 12 MiB" in issue.example
    assert builder.metadata["cupti"]["buffers"] == 3


def test_buffers_that_are_kept_are_reported(fake: str, playing: Any) -> None:
    playing.setenv("FAKE_CUPTI_KEEP", "1")
    session, builder = record(fake)
    assert session.report["buffers-kept"].count == 1
    assert not len(builder.seal().slices)
    playing.delenv("FAKE_CUPTI_KEEP")
    session, builder = record(fake)  # with buffers that CUPTI does not have
    assert "buffers-kept" not in session.report
    assert len(builder.seal().slices) == 50


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        ("cuptiSubscribe:39", "another CUPTI client is in this process"),
        ("cuptiSubscribe:15", "no NVIDIA driver"),
        ("cuptiActivityEnable:35", "only administrators"),
        ("cuptiActivityEnable:43", "MIG"),
        ("cuptiGetVersion:999", "usually there is no NVIDIA driver"),
        ("cuptiGetTimestamp:1", "could not read its clock"),
    ],
)
def test_refusals_in_words(fake: str, playing: Any, failure: str, words: str) -> None:
    playing.setenv("FAKE_CUPTI_FAIL", failure)
    session = CuptiSession(lambda: Cupti(fake))
    with pytest.raises(RecordingError, match=words):
        session.start(Clock())
    session.abandon()


def test_a_device_lost_in_the_middle(fake: str, playing: Any) -> None:
    session = CuptiSession(lambda: Cupti(fake))
    session.start(Clock())
    playing.setenv("FAKE_CUPTI_FAIL", "cuptiActivityFlushAll:999")
    session.stop()
    session.result(builder := TraceBuilder())
    assert session.report["buffers-not-given-back"].severity == "error"
    assert not len(builder.seal().slices)


def test_wrong_versions_and_wrong_steps(fake: str, playing: Any) -> None:
    playing.setenv("FAKE_CUPTI_VERSION", "77")
    with pytest.raises(RecordingError, match=r"version 77.*not known here"):
        Cupti(fake)
    playing.setenv("FAKE_CUPTI_VERSION", "130500")
    with pytest.raises(RecordingError, match=r"steps 96 bytes over a record of kind 1.*headers.*say 112"):
        Cupti(fake)
    with pytest.raises(RecordingError, match="cannot be loaded"):
        Cupti("/nowhere/libcupti.so.12")


def test_a_failure_is_an_issue_and_the_cell_runs(fake: str, playing: Any) -> None:
    from notebook_prof.collectors.cuda import CudaCollector, collector
    from notebook_prof.collectors.cuda.routes import Availability, Facts

    playing.setattr(collector, "survey", lambda: Facts(Availability(True), cupti=True))
    playing.setenv("FAKE_CUPTI_FAIL", "cuptiSubscribe:39")
    playing.setattr("notebook_prof.collectors.cupti.session.open_users", lambda: Cupti(fake))
    made = CudaCollector()
    assert made.claims() == {"CUPTI"}
    recording = Recording([made])
    recording.start()
    recording.stop()
    assert "another CUPTI client" in recording.report["collector-failed"].example


def test_a_cell_from_end_to_end(fake: str, playing: Any) -> None:
    import notebook_prof as nbp
    from notebook_prof.collectors.cuda import CudaCollector, collector
    from notebook_prof.collectors.cuda.routes import Availability, Facts

    playing.setattr(collector, "survey", lambda: Facts(Availability(True), cupti=True))
    playing.setattr("notebook_prof.collectors.cupti.session.open_users", lambda: Cupti(fake))
    with nbp.profile(CudaCollector()) as p, nbp.annotate("work"):
        begun = time.monotonic()
        while time.monotonic() < begun + 0.05:  # the records are of the first millisecond
            pass
    assert p.trace.metadata["cuda_route"] == "cupti"
    assert "collector-failed" not in p.trace.report
    assert dict(zip(p.kernels()["name"], p.kernels()["count"], strict=True))["gemm(float*)"] == 10
    assert p.device.copies()["pinned"].dropna().tolist() == [False, True]
    assert p.device.copies()["bytes"].sum() == (1 << 20) + (1 << 19) + 4096
    delays = p.device.launches()["delay_ns"]  # both ends are rounded where the clocks drift
    assert delays.iloc[:20].between(4_999, 5_001).all()
    assert not set(p.trust["code"]) & {"kernels-lost-between", "no-device-records", "kernels-before-launch"}
    assert "GPU 1 stream 7" in set(p.trace.tracks["name"])


def test_where_the_library_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maps = tmp_path / "maps"
    maps.write_text(
        "7f00-7f01 r-xp 00000000 08:01 5   /opt/cuda/lib64/libcupti.so.2024.3.2\n"
        "7f02-7f03 r-xp 00000000 08:01 6   /opt/x/libcudart.so.12\n7f04-7f05 rw-p 00000000 00:00 0 [heap]\n"
    )
    assert find.mapped(maps) == {
        "cupti": "/opt/cuda/lib64/libcupti.so.2024.3.2",
        "cudart": "/opt/x/libcudart.so.12",
    }
    assert find.mapped(tmp_path / "none") == {}
    toolkit = tmp_path / "cuda" / "extras" / "CUPTI" / "lib64"
    toolkit.mkdir(parents=True)
    for name in ("libcupti.so", "libcupti.so.11", "libcupti.so.12"):
        (toolkit / name).touch()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    monkeypatch.setattr(find, "find_spec", lambda name: None)
    monkeypatch.setattr(find, "mapped", lambda: {"cudart": "/x/libcudart.so.12"})
    assert find.find_library() == str(toolkit / "libcupti.so.12")
    monkeypatch.setattr(find, "mapped", lambda: {"cupti": "/loaded/libcupti.so.13"})
    assert find.find_library() == "/loaded/libcupti.so.13"
