"""Which devices torch's profiler is calls for, and why a recording has no kernels."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import notebook_prof as nbp
from notebook_prof.collectors.torch import collector, no_kernels
from notebook_prof.collectors.torch.no_kernels import Cupti, ask_cupti, tell, why_no_gpu
from notebook_prof.collectors.torch.session import device_kind, unrecorded_kinds
from notebook_prof.trace.report import ImportReport

from ..pretend_cupti import Driver

MAPS = "7f00-7f01 r-xp 00000000 08:01 42   /site/nvidia/cu13/lib/libcupti.so.13\n"


def played(supported: str = "CPU", *, available: str = "", built: str | None = "13.0") -> Any:
    """A torch whose profiler records on these kinds of devices."""
    activities = {name: SimpleNamespace(name=name) for name in supported.split()}
    kinds = {
        name: SimpleNamespace(is_available=lambda name=name: name in available.split(), is_initialized=bool)
        for name in ("cuda", "xpu", "mtia", "hpu", "mps")
    }
    return SimpleNamespace(
        version=SimpleNamespace(cuda=built),
        profiler=SimpleNamespace(supported_activities=lambda: list(activities.values())),
        backends=SimpleNamespace(mps=kinds.pop("mps")),
        _C=SimpleNamespace(_get_privateuse1_backend_name=lambda: "npu"),
        **kinds,
    )


@pytest.mark.parametrize(
    ("supported", "kind"),
    [
        *(("CPU", None), ("CPU CUDA", "cuda"), ("CPU XPU", "xpu"), ("MTIA CPU", "mtia"), ("CPU HPU", "hpu")),
        *(("CPU PrivateUse1", "npu"), ("CPU MPS", "mps"), ("CPU XPU CUDA", "cuda"), ("CPU MPS HPU", "hpu")),
    ],
)
def test_every_kind_of_device_is_recorded_under_its_own_name(supported: str, kind: str | None) -> None:
    assert device_kind(played(supported)) == kind


def test_a_kind_without_a_recorder_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a torch for CUDA that was built without CUPTI, and Apple's devices."""
    torch = played("CPU XPU", available="cuda xpu mps")
    assert unrecorded_kinds(torch) == ["cuda", "mps"]
    real = pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr(collector, "unrecorded_kinds", lambda torch: ["cuda"])
    with nbp.profile("torch") as p:
        real.ones(3)
    issue = p.trace.report["device-not-recorded"]
    assert (issue.severity, "cuda" in issue.example, "CUPTI" in issue.advice) == ("loss", True, True)


@pytest.mark.parametrize(
    ("torch", "load", "words"),
    [
        (played(built=None), Driver().load, ""),
        (played(available="cuda"), Driver().load, ""),
        (played(), Driver(code=803).load, "(803)"),
        (played(), Driver(cards=0).load, "no GPU"),
        (played(), Driver(version=12_040).load, "built for CUDA 13.0, and the driver supports CUDA 12.4"),
        (played(), Driver().load, "is_available"),
    ],
)
def test_why_torch_has_no_gpu(torch: Any, load: Any, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = why_no_gpu(torch, load)
    assert (reason is None) == (not words)
    if reason is not None:
        assert words in reason.example
        assert reason.advice
    monkeypatch.setenv("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # then torch has not initialised CUDA
    assert why_no_gpu(torch, load) is None


class Library:
    """Plays libcupti: what it was calls, and its answer to the recording of kernels."""

    def __init__(self, code: int) -> None:
        self.code, self.on, self.calls = code, False, 0

    def cuptiGetVersion(self, version: Any) -> int:
        version._obj.value = 130_000
        return 0

    def cuptiActivityEnable(self, kind: int) -> int:
        assert kind == 10
        self.on, self.calls = not self.code, self.calls + 1
        return self.code

    def cuptiActivityDisable(self, kind: int) -> int:
        self.on = False
        return 0


@pytest.mark.parametrize("code", [0, 15, 27, 33, 35, 36, 38, 39, 40, 41, 42, 43, 45, 999])
def test_what_cupti_refuses_is_told_with_what_to_do(code: int, tmp_path: Path) -> None:
    maps = tmp_path / "maps"
    maps.write_text(f"7f-8f r--p 0 0:0 0\n{MAPS}")
    library = Library(code)
    cupti = ask_cupti({"/site/nvidia/cu13/lib/libcupti.so.13": library}.__getitem__, maps)
    assert (cupti.version, library.on, library.calls) == (130_000, False, 1)
    tell(report := ImportReport(), None, cupti)
    if not code:
        assert not report
        return
    issue = report["kernels-refused"]
    assert (issue.severity, f"error {code}" in issue.example, bool(issue.advice)) == ("loss", True, True)


def test_without_cupti_in_the_process_nothing_is_loaded(tmp_path: Path) -> None:
    def refuse(name: str) -> Any:
        raise AssertionError(name)

    (tmp_path / "maps").write_text("7f-8f r--p 0 0:0 0 /lib/libc.so.6\n")
    assert ask_cupti(refuse, tmp_path / "maps") == Cupti()
    assert ask_cupti(refuse, tmp_path / "none") == Cupti()


def test_reasons_are_in_the_report_of_a_recording_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    refusal = no_kernels.Reason("the driver restricts profiling to administrators", "ask them")
    monkeypatch.setattr(collector, "asked_once", lambda: Cupti(130_000, refusal))
    monkeypatch.setattr(collector, "why_no_gpu", lambda torch: no_kernels.Reason("no driver", "install one"))
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with nbp.profile("torch") as p:
        torch.ones(3)
    assert p.trace.report["kernels-refused"].advice == "ask them"
    assert p.trace.report["no-gpu-for-torch"].severity == "info"
    assert p.trace.metadata["cupti_version"] == 130_000
    assert "kernels-refused" in set(p.trust["code"])
