"""The scenes for a card run on the host as far as they can, and on a card that is played."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

import notebook_prof as nbp
from benchmarks.gpu import runner, scene
from tests.gpu.scenes import BY_NAME, ELEMENTWISE, LEAK_BYTES, SCENES


@pytest.mark.parametrize("name", [one.name for one in SCENES if one.needs == ("torch",)])
def test_scenes_of_torch_run_on_the_host_too(name: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    body = BY_NAME[name].make("cpu")
    with nbp.profile("torch", memory=True) as p:
        body()
    assert p.operators()["count"].sum() > 3
    if name == "torch-growth":
        assert p.memory.growth()["bytes_per_step"].max() == LEAK_BYTES


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="compiles the driver that is played")
def test_a_rehearsal_on_the_card_that_is_played(tmp_path: Path) -> None:
    """CuPy, NVML, CUPTI and the driver; each recording has work of a device, and ends in a real archive."""
    site, recordings = tmp_path / "site", tmp_path / "recordings"
    (site / "cupti_python-13.0.1.dist-info").mkdir(parents=True)
    text = "Metadata-Version: 2.1\nName: cupti-python\nVersion: 13.0.1\n"
    (site / "cupti_python-13.0.1.dist-info" / "METADATA").write_text(text)
    recordings.mkdir()
    names = ["machine/facts", "nvml/calls", "scene/cupy-raw:cupti", "scene/cupy:counters"]
    environment = runner.environment_of(site, rehearse=True)
    end_s = time.monotonic() + 600
    ran = {one.name: one for one in runner.run_all(names, recordings, environment, end_s, "cpu")}
    assert {name: one.outcome for name, one in ran.items()} == dict.fromkeys(names, "ok"), ran
    assert ran["machine/facts"].rows[0]["cupti-python"] == "13.0.1: works, with a driver for CUDA 13.0"
    launches = [row["device work"] for row in ran["scene/cupy-raw:cupti"].rows]
    assert launches == [ELEMENTWISE] * scene._SESSIONS
    assert {row["route"] for row in ran["scene/cupy-raw:cupti"].rows} == {"cupti"}
    assert [row["device work"] for row in ran["scene/cupy:counters"].rows] == [1] * scene._SESSIONS
    kept = nbp.open_profile(recordings / f"cupy-raw-cupti-{scene._SESSIONS}.nbprof.zip")
    assert kept.kernels()["name"].tolist() == ["own"]
