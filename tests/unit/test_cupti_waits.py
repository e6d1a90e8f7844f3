"""Around a recording through CUPTI: attached before it begins, and the cards idle before it ends."""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from notebook_prof.collectors.cupti import Cupti, CuptiSession
from notebook_prof.collectors.cupti.align import Alignment, Reading
from notebook_prof.collectors.cupti.columns import columns
from notebook_prof.collectors.cupti.layouts import STRUCTS, record
from notebook_prof.collectors.cupti.session import (
    NEEDED,
    ON_DEVICE,
    WELCOME,
    settle,
    short_numbers,
    thread_names,
)
from notebook_prof.collectors.cupti.walk import Records, since
from notebook_prof.collectors.devices import in_use
from notebook_prof.trace import TraceBuilder
from notebook_prof.trace.clocks import Clock
from notebook_prof.trace.report import ImportReport

from .test_cupti import fake, no_pointers, playing  # noqa: F401 (fixtures)


def calls(journal: Path) -> list[tuple[str, int]]:
    lines = journal.read_text().split("\n")[:-1]
    return [(line.split()[0], int(line.split()[1])) for line in lines]


@pytest.fixture
def journal(playing: Any, tmp_path: Path) -> Path:  # noqa: F811
    playing.setenv("FAKE_CUPTI_JOURNAL", str(tmp_path / "calls"))
    return tmp_path / "calls"


def test_cupti_is_attached_when_it_warms_up_and_waits_before_it_ends(fake: str, journal: Path) -> None:  # noqa: F811
    waited: list[Any] = []

    def wait(devices: Any) -> str:
        waited.append((devices, calls(journal)))
        return ""

    session = CuptiSession(lambda: Cupti(fake), keep=(0, 1), wait=wait)
    session.warm(Clock())
    assert calls(journal) == [("enable", kind) for kind in NEEDED]
    session.start(Clock())
    session.stop()
    on_host = [kind for kind in (*NEEDED, *WELCOME) if kind not in ON_DEVICE]
    ((devices, before),) = waited
    assert devices == (0, 1)
    assert [call for call in before if call[0] == "disable"] == [("disable", kind) for kind in on_host]
    after = calls(journal)[len(before) :]
    assert [call for call in after if call[0] == "disable"] == [
        ("disable", kind) for kind in (*NEEDED, *WELCOME) if kind in ON_DEVICE
    ]
    assert after[-2:] == [("flush", 1), ("unsubscribe", 0)]
    session.result(builder := TraceBuilder())
    assert len(session.report) == 0 or "device-not-waited-for" not in session.report
    assert (builder.seal().slices["category"] == "kernel").sum() > 0


def test_a_warm_recording_that_never_starts_gives_everything_back(fake: str, journal: Path) -> None:  # noqa: F811
    session = CuptiSession(lambda: Cupti(fake), wait=lambda devices: pytest.fail("nothing was recorded"))
    session.warm(Clock())
    session.abandon()
    assert calls(journal)[len(NEEDED) :] == [
        *(("disable", kind) for kind in NEEDED),
        ("flush", 1),
        ("unsubscribe", 0),
    ]


def test_a_card_that_cannot_be_waited_for_is_reported(fake: str, playing: Any) -> None:  # noqa: F811
    session = CuptiSession(lambda: Cupti(fake), wait=lambda devices: "GPU 0: CUDA_ERROR_LAUNCH_FAILED (719)")
    session.start(Clock())
    session.stop()
    session.result(builder := TraceBuilder())
    issue = session.report["device-not-waited-for"]
    assert (issue.severity, issue.example) == ("loss", "GPU 0: CUDA_ERROR_LAUNCH_FAILED (719)")
    assert len(builder.seal().slices) == 50  # what came back is shown


def test_what_ended_before_the_window_is_left_out() -> None:
    kernels = np.zeros(4, record("Kernel", 208))
    kernels["start"], kernels["end"] = [10, 80, 110, 0], [20, 120, 130, 0]
    marks = np.zeros(2, record("Marker", 56))
    marks["timestamp"] = [99, 100]
    links = np.zeros(1, record("ExternalCorrelation", 24))
    kept = since(Records({10: kernels, 12: marks, 39: links}), 100)
    assert kept.of[10]["end"].tolist() == [120, 130, 0]
    assert kept.of[12]["timestamp"].tolist() == [100]
    assert len(kept.of[39]) == 1


def test_threads_by_half_of_their_number(fake: str, playing: Any) -> None:  # noqa: F811
    """CUPTI before 12.0 gives the lower half of ``pthread_self``."""
    me = threading.current_thread()
    assert me.ident is not None
    assert short_numbers()[me.ident & 0xFFFFFFFF] == me.native_id
    assert thread_names()[next(pid for pid, _ in thread_names()), me.native_id or 0] == me.name
    calls_ = np.zeros(2, record(STRUCTS[5], 40))
    calls_["start"], calls_["end"] = 5, 9
    calls_["threadId"] = [me.ident & 0xFFFFFFFF, 77]
    clock = Alignment(Reading(0, 0, 0), Reading(10, 10, 0))
    made = columns(
        Records({5: calls_}), clock, lambda *_: "call", ImportReport(), pid=1, threads=short_numbers()
    )
    assert made.tid.tolist() == [me.native_id, 77]
    playing.setenv("FAKE_CUPTI_FAIL", "cuptiSetThreadIdType:27")
    session = CuptiSession(lambda: Cupti(fake))
    session.warm(Clock())
    assert me.ident & 0xFFFFFFFF in session._threads
    session.abandon()


class Driver:
    """libcuda with three cards, of which this process uses those in `active`; it keeps a journal."""

    def __init__(self, active: tuple[int, ...] = (0, 2), fails: dict[str, int] | None = None) -> None:
        self.active, self.fails = active, fails or {}
        self.calls: list[str] = []
        self.current = -1

    def _code(self, name: str) -> int:
        return self.fails.get(name, 0)

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = 3
        return self._code("cuDeviceGetCount")

    def cuDeviceGet(self, device: Any, number: int) -> int:
        device._obj.value = number
        return 0

    def cuDevicePrimaryCtxGetState(self, device: Any, flags: Any, active: Any) -> int:
        active._obj.value = int(device.value in self.active)
        return 0

    def cuDevicePrimaryCtxRetain(self, context: Any, device: Any) -> int:
        context._obj.value = 100 + device.value
        self.calls.append(f"retain {device.value}")
        return self._code("cuDevicePrimaryCtxRetain")

    def cuDevicePrimaryCtxRelease_v2(self, device: Any) -> int:
        self.calls.append(f"release {device.value}")
        return 0

    def cuCtxPushCurrent_v2(self, context: Any) -> int:
        self.current = context.value
        return self._code("cuCtxPushCurrent_v2")

    def cuCtxPopCurrent_v2(self, context: Any) -> int:
        self.current = -1
        return 0

    def cuCtxSynchronize(self) -> int:
        if self.current == -1:
            return 201
        self.calls.append(f"wait {self.current}")
        return self._code("cuCtxSynchronize")

    def cuGetErrorName(self, code: Any, name: Any) -> int:
        names = {700: b"CUDA_ERROR_ILLEGAL_ADDRESS", 2: b"CUDA_ERROR_OUT_OF_MEMORY"}
        name._obj.value = names.get(code.value)
        return 0


@pytest.mark.parametrize(("devices", "waited"), [(None, (0, 2)), ((2,), (2,)), ((1,), ())])
def test_the_cards_in_use_are_waited_for(devices: Any, waited: tuple[int, ...]) -> None:
    driver = Driver()
    assert settle(devices, lambda name: driver) == ""
    assert driver.calls == [f"{what}{n}" for n in waited for what in ("retain ", "wait 10", "release ")]
    assert driver.current == -1


def test_which_cards_are_in_use() -> None:
    assert in_use(lambda name: Driver()) == {0, 2}
    assert in_use(lambda name: Driver(fails={"cuDeviceGetCount": 3})) == set()  # CUDA was never initialised
    assert in_use(lambda name: Driver(fails={"cuDeviceGetCount": 999})) is None

    def absent(name: str) -> ctypes.CDLL:
        raise OSError("not found")

    assert in_use(absent) is None


def test_failures_of_the_wait_in_the_drivers_words() -> None:
    lost = Driver(fails={"cuCtxSynchronize": 700})
    assert settle((0, 2), lambda name: lost) == (
        "GPU 0: CUDA_ERROR_ILLEGAL_ADDRESS (700); GPU 2: CUDA_ERROR_ILLEGAL_ADDRESS (700)"
    )
    assert lost.calls.count("release 0") == 1
    full = Driver(active=(1,), fails={"cuDevicePrimaryCtxRetain": 2})
    assert settle(None, lambda name: full) == "GPU 1: CUDA_ERROR_OUT_OF_MEMORY (2)"
    assert "release 1" not in full.calls  # nothing was taken
    push = Driver(active=(1,), fails={"cuCtxPushCurrent_v2": 999})
    assert settle(None, lambda name: push) == "GPU 1: error (999)"
    assert push.calls == ["retain 1", "release 1"]


def test_where_cuda_is_not_in_use_nothing_is_done() -> None:
    asleep = Driver(fails={"cuDeviceGetCount": 3})
    assert settle(None, lambda name: asleep) == ""
    assert asleep.calls == []

    def absent(name: str) -> ctypes.CDLL:
        raise OSError("not found")

    assert settle(None, absent) == ""
