"""The scenes for a card run on the host as far as they can, and the benchmark says what it lacks."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import notebook_prof as nbp
from benchmarks import gpu
from notebook_prof.collectors.base import Availability
from tests.gpu.scenes import BY_NAME, LEAK_BYTES, SCENES, Scene


@pytest.mark.parametrize("name", ["torch-cnn", "torch-transformer", "torch-growth"])
def test_scenes_of_torch_run_on_the_host_too(name: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    body = BY_NAME[name].make("cpu")
    with nbp.profile("torch", memory=True) as p:
        body()
    assert len(p.operators()) > 3
    if name == "torch-growth":
        assert p.memory_growth()["bytes_per_step"].max() == LEAK_BYTES


def test_scenes_say_what_they_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.gpu.scenes.installed", lambda name: name == "torch")
    told = {scene.name: scene.missing() for scene in SCENES}
    assert told["torch-cnn"] == ""
    assert told["cupy-and-torch"] == "cupy not installed"
    assert told["jax"] == "jax not installed"


def test_kept_figures_are_shown_where_there_is_no_card(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu.NvmlCollector, "availability", lambda: Availability(False, "no NVIDIA driver"))
    monkeypatch.setattr(gpu, "KEPT", tmp_path)
    assert gpu.run() == []
    assert "no NVIDIA driver" in capsys.readouterr().err
    rows = [{"card": "X", "wall ×": 1.1}]
    (tmp_path / "performance.json").write_text(json.dumps(rows))
    assert gpu.run() == rows


def test_the_benchmark_measures_a_scene(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On the host: everything but the device's own figures."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr(gpu, "_ROUNDS", 2)
    x = torch.ones(8)
    row = gpu._row(
        Scene("torch-cnn", ("torch",), lambda device: lambda: [x.add(1) for _ in range(60)]), tmp_path
    )
    assert (row["scene"], row["route"], row["device work"]) == ("torch-cnn", "kineto", 0)
    assert row["slices"] > 50
    assert row["wall \u00d7"] > 0
    kept = nbp.open_profile(tmp_path / "torch-cnn.nbprof.zip")
    assert len(kept.trace.slices) == row["slices"]


def test_a_scene_that_fails_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(command: list[str], **told: Any) -> Any:
        name = command[command.index("--scene") + 1]
        failed = name == "torch-graph"
        return SimpleNamespace(
            returncode=failed, stdout=f'log\n{{"scene": "{name}"}}\n', stderr="a\nno capture\n"
        )

    monkeypatch.setattr(gpu.subprocess, "run", run)
    monkeypatch.setattr(gpu, "_counters", lambda: {"collector": "nvml"})
    monkeypatch.setattr("tests.gpu.scenes.installed", lambda name: name == "torch")
    names = [row.get("scene", "nvml") for row in gpu.measure(None)]
    assert names == [
        "torch-cnn",
        "torch-transformer",
        "torch-two-streams",
        "torch-copies",
        "torch-growth",
        "nvml",
    ]
    told = capsys.readouterr().err
    assert "torch-graph: no capture" in told
    assert "jax: jax not installed" in told
