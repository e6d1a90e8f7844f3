"""The scenes for a card run on the host as far as they can, and the runner loses nothing whatever fails."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import pytest

import notebook_prof as nbp
from benchmarks.gpu import jobs, outcomes, runner, scene
from benchmarks.gpu.outcomes import Outcome
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


EMPTY = '[{"device work": 3}, {"device work": 0, "trust": "no-device-work"}]'
HANGS = 'import sys, time; print("deep", file=sys.stderr, flush=True); time.sleep(600)'
FAILS = 'print("F\\nE   assert 3 == 4\\nFAILED x\\n1 failed"); raise SystemExit(1)'
JOBS = {
    "scene/good": ("ok", 'print("log"); print(\'ROWS [{"scene": "good", "device work": 1}]\')'),
    "scene/empty": ("no device work", f"print('ROWS {EMPTY}')"),
    "scene/silent": ("failed", 'print("nothing")'),
    "scene/untold": ("no device work", 'print(\'ROWS [{"scene": "untold"}]\')'),
    "nvml/told": ("ok", 'print(\'ROWS [{"nvml": "power"}]\')'),
    "scene/raises": ("failed", 'raise RuntimeError("no capture")'),
    "scene/crashes": ("crashed", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"),
    "scene/hangs": ("timed out", HANGS),
    "scene/lacks": ("skipped", 'print("LACKS jax not installed")'),
    "test/passes": ("ok", 'print(".\\n1 passed in 0.1s")'),
    "test/skips": ("skipped", 'print("s\\nSKIPPED [1] x.py:3: no GPU backend\\n1 skipped in 0.1s")'),
    "test/fails": ("failed", FAILS),
    "scene/last": ("ok", 'print(\'ROWS [{"scene": "last", "device work": 2}, {"other": 3}]\')'),
}
"""How each job ends, and its program."""


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Jobs that are a line of Python each; names of those that ran."""
    ran: list[str] = []

    def command(name: str, folder: Path, device: str) -> list[str]:
        ran.append(name)
        (folder / f"{len(ran)}.nbprof.zip").write_bytes(b"x")
        return [sys.executable, "-c", JOBS[name][1]]

    monkeypatch.setattr(jobs, "command", command)
    monkeypatch.setattr(jobs, "limit_s", lambda name: 3.0 if name == "scene/hangs" else 60.0)
    return ran


def run_all(names: list[str], folder: Path, seconds: float = 600.0) -> list[Outcome]:
    return list(runner.run_all(names, folder, os.environ, time.monotonic() + seconds))


def test_whatever_happens_to_a_job_the_others_run(played: list[str], tmp_path: Path) -> None:
    outcome_of = {one.name: one for one in run_all(list(JOBS), tmp_path)}
    ended = {name: outcome for name, (outcome, _) in JOBS.items()}
    assert {name: one.outcome for name, one in outcome_of.items()} == ended
    assert outcome_of["scene/empty"].reason == "a recording has no work of a device; trust: no-device-work"
    assert outcome_of["scene/raises"].reason == "RuntimeError: no capture"
    assert "Traceback" in outcome_of["scene/raises"].log
    assert outcome_of["scene/crashes"].reason == "signal Segmentation fault"
    assert outcome_of["scene/hangs"].reason.endswith("; deep")
    assert outcome_of["scene/lacks"].reason == "jax not installed"
    assert outcome_of["test/skips"].reason == "SKIPPED [1] x.py:3: no GPU backend"
    assert outcome_of["test/fails"].reason == "E   assert 3 == 4"
    rows = outcomes.figures(outcome_of.values())
    good = [{"scene": "good", "device work": 1}, {"scene": "last", "device work": 2}]
    assert rows == [*good, {"nvml": "power"}, {"other": 3}]


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
