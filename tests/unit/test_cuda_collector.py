"""Which route leads to CUDA's kernels, and what the collector does on it; conditions are played."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import notebook_prof as nbp
from notebook_prof.collectors import cuda
from notebook_prof.collectors.base import Availability, Recording
from notebook_prof.collectors.cuda import ROUTES, CudaCollector, CudaFacts, choose, routes
from notebook_prof.collectors.registry import make
from notebook_prof.collectors.torch.collector import TorchCollector
from notebook_prof.session import findings
from notebook_prof.trace import Trace, TraceBuilder

from ..new_process import run_python

GPU = Availability(True, "1 GPU")
NO_DRIVER = Availability(False, "no NVIDIA driver: not found")
REFUSED = Availability(False, "Insufficient Permissions")
CUPTI = Availability(True, "cupti-python 13.4.0, by NVIDIA")
ABSENT = Availability(False, "cupti-python is not installed: pip install cupti-python")
home_routes = sys.modules["notebook_prof.collectors.cuda"]


@pytest.mark.parametrize(
    ("facts", "route", "words"),
    [
        (CudaFacts(GPU, torch_cuda="12.8"), "kineto", "CUDA 12.8"),
        (CudaFacts(GPU, torch_cuda="12.8", torch_sees_gpu=True, cupti=CUPTI), "kineto", "CUDA 12.8"),
        (CudaFacts(GPU, torch_cuda="13.0", torch_sees_gpu=False), "counters", "no kernels"),
        (CudaFacts(GPU, torch_cuda="", cupti=CUPTI), "cupti", "by NVIDIA"),
        (CudaFacts(GPU, torch_cuda="13.0", torch_sees_gpu=False, cupti=CUPTI), "cupti", "by NVIDIA"),
        (CudaFacts(NO_DRIVER, torch_cuda="12.8", cupti=CUPTI), "counters", "no NVIDIA"),
        (CudaFacts(GPU), "counters", "no kernels"),
        (CudaFacts(GPU, cupti=ABSENT), "counters", "pip install cupti-python"),
        (CudaFacts(NO_DRIVER, torch_cuda="12.8"), "counters", "no NVIDIA"),
        (CudaFacts(REFUSED, torch_cuda="12.8"), "counters", "Permissions"),
    ],
)
def test_choice(facts: CudaFacts, route: str, words: str) -> None:
    choices = routes(facts)
    assert list(choices) == list(ROUTES)
    assert all(state.reason for state in choices.values())
    assert choose(choices) == route
    assert words in choices[route].reason


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("__version__ = '2.13.0+cu128'\ncuda: Optional[str] = '12.8'\nhip = None\n", "12.8"),
        ("__version__ = '2.4.0'\ncuda = '11.8'\n", "11.8"),
        ("cuda: Optional[str] = None\n", ""),
        ("", ""),
    ],
)
def test_the_build_of_torch_is_read_and_not_imported(
    text: str, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "version.py").write_text(text)
    spec = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(home_routes, "find_spec", lambda name: spec)
    assert home_routes._torch_build() == version


def test_a_route_that_is_asked_for_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that comes behind torch's profiler, which comes first by itself."""
    monkeypatch.setattr(home_routes, "_driver", lambda: GPU)
    monkeypatch.setattr(home_routes, "_torch_build", lambda: "13.0")
    monkeypatch.setattr(home_routes, "_torch_sees_gpu", lambda: None)
    monkeypatch.setattr(home_routes.cupti, "availability", lambda: CUPTI)
    assert CudaCollector()._route == "kineto"
    asked = CudaCollector(route="cupti")
    assert (asked._route, asked._works) == ("cupti", True)


def test_looking_around_loads_nothing() -> None:
    code = (
        "import sys; from notebook_prof.collectors.cuda import CudaCollector;"
        "print(CudaCollector.availability().ok, [m for m in ('torch', 'triton', 'cupy') if m in sys.modules])"
    )
    done = run_python(code)
    assert done.stdout.strip().endswith("[]")
    assert done.stderr == ""


def test_without_a_gpu_every_route_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "survey", lambda *_: CudaFacts(NO_DRIVER))
    assert CudaCollector.availability() == NO_DRIVER
    with nbp.profile("cuda") as p:
        done = sum(range(10))
    assert done == 45
    issue = p.trace.report["collector-failed"]
    assert "no NVIDIA driver" in issue.example
    assert "kineto" in issue.example


def test_the_torch_route_without_a_line_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr(cuda, "survey", lambda *_: CudaFacts(GPU, torch_cuda="12.8", torch_sees_gpu=True))
    with nbp.profile("cuda") as p:
        sum(range(1000))
    assert p.trace.metadata["cuda_route"] == "kineto"
    assert p.trust["code"].tolist()[-1] == "no-device-records"  # Kineto ran, on a machine without a GPU


def test_cupy_without_torch_brings_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = SimpleNamespace(getDeviceCount=lambda: 1)
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime), __spec__=1)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr("notebook_prof.collectors.cupy.installed", lambda name: True)
    monkeypatch.setattr(cuda, "survey", lambda *_: CudaFacts(GPU, torch_cuda="12.8"))
    assert [one.name for one in make()][:2] == ["cuda", "cupy"]
    monkeypatch.setattr(cuda, "survey", lambda *_: CudaFacts(NO_DRIVER))
    assert make()[0].name == "cupy"


class Device(TorchCollector):
    """Plays Kineto on a GPU with the known fault: from the second recording on, kernels are lost or late."""

    name = "cuda"
    holds = frozenset()
    rounds = 0
    kernels = 40

    def __init__(self, lost: int = 0, late_ns: int = 0) -> None:
        super().__init__()
        self._lost, self._late = lost, late_ns

    @classmethod
    def availability(cls) -> Availability:
        return Availability(True)

    def open(self) -> None:
        pass

    def warm(self, clock: object) -> None:
        pass

    def start(self, clock: object) -> None:
        self._begun = clock.now_ns()  # type: ignore[attr-defined]

    def stop(self) -> None:
        Device.rounds += 1

    def abandon(self) -> None:
        pass

    def result(self, builder: TraceBuilder) -> None:
        n, first = self.kernels, self._lost if Device.rounds > 1 else 0
        late = self._late if Device.rounds > 1 else 0
        at = self._begun + 20_000 * np.arange(n)
        main, stream = builder.track("main", tid=1), builder.track("s", "stream", device=0, stream=7)
        builder.slices(ts=at, dur=np.full(n, 9_000), name="add", track=main)
        launch = {"dur": np.full(n, 3_000), "name": "cudaLaunchKernel", "category": "launch"}
        calls = builder.slices(ts=at + 1_000, track=main, **launch)
        kernel = {"dur": np.full(n - first, 5_000), "name": "k", "category": "kernel"}
        work = builder.slices(ts=at[first:] + 6_000 + late, track=stream, **kernel)
        builder.flows("launch", calls[first:], work)


def record(**faults: int) -> Trace:
    with nbp.profile(Device(**faults)) as p:
        pass
    return p.trace


@pytest.mark.parametrize(
    ("faults", "code"),
    [
        ({"lost": 7}, "kernels-lost-at-start"),
        ({"late_ns": 400_000}, "clock-shift"),
        ({"late_ns": -300_000}, "clock-shift"),
        ({}, None),
    ],
)
def test_the_known_fault_of_repeated_recordings(
    monkeypatch: pytest.MonkeyPatch, faults: dict[str, int], code: str | None
) -> None:
    """Five recordings of 40 kernels with idle between (pytorch#175790, pytorch#192021)."""
    monkeypatch.setattr(findings, "_first_delay_ns", None)
    monkeypatch.setattr(Device, "rounds", 0)
    codes_of = []
    for _ in range(5):
        table = nbp.Profile(record(**faults)).trust.set_index("code")
        codes_of.append(set(table.index) - {"counters-missing"})
        if code == "kernels-lost-at-start" and code in table.index:
            assert table.loc[code, "count"] == 7
            assert table.loc[code, "device_share"] == pytest.approx(7 / 40)
    assert codes_of[0] == set()
    assert all((code in codes) if code else not codes for codes in codes_of[1:])


def test_jax_on_a_gpu_and_cuda_want_the_same_place(monkeypatch: pytest.MonkeyPatch) -> None:
    from notebook_prof.collectors.jax import JaxCollector

    monkeypatch.setattr(cuda, "survey", lambda *_: CudaFacts(GPU, cupti=CUPTI))
    for plugin, together in (("jax_cuda13_plugin", False), ("none", True)):
        monkeypatch.setattr(
            "notebook_prof.collectors.jax.installed", lambda name, plugin=plugin: name == plugin
        )
        recording = Recording([CudaCollector(), JaxCollector()])
        assert (recording.names == ["cuda", "jax"]) == together
        assert ("collector-conflict" in recording.report) != together
