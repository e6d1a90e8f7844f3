"""The scenes for a card run on the host as far as they can, and the runner loses nothing whatever fails."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import notebook_prof as nbp
from benchmarks import gpu
from benchmarks.gpu import __main__ as program
from benchmarks.gpu import ncu, outcomes, plan, runner, scene
from benchmarks.gpu.outcomes import Outcome, judge
from notebook_prof.collectors.base import Availability
from tests.gpu import conftest as alone
from tests.gpu.scenes import BY_NAME, ELEMENTWISE, LEAK_BYTES, SCENES, Scene


@pytest.mark.parametrize("name", ["torch-cnn", "torch-transformer", "torch-growth"])
def test_scenes_of_torch_run_on_the_host_too(name: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    body = BY_NAME[name].make("cpu")
    with nbp.profile("torch", memory=True) as p:
        body()
    assert len(p.operators()) > 3
    if name == "torch-growth":
        assert p.memory.growth()["bytes_per_step"].max() == LEAK_BYTES


def test_scenes_say_what_they_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.gpu.scenes.installed", lambda name: name == "torch")
    lacks = {one.name: one.missing() for one in SCENES}
    assert lacks["torch-cnn"] == ""
    assert lacks["cupy-and-torch"] == "cupy not installed"
    assert lacks["jax"] == "jax not installed"
    assert lacks["triton"] == "triton not installed"


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
    assert program.main(["--only", "machine/*"]) == 1


def test_a_scene_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On the host: everything but the device's own figures."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr(scene, "_ROUNDS", 2)
    x = torch.ones(8)
    row = scene.measure(
        Scene("torch-cnn", ("torch",), lambda device: lambda: [x.add(1) for _ in range(60)]), tmp_path
    )
    assert (row["scene"], row["route"], row["device work"]) == ("torch-cnn", "kineto", 0)
    assert row["slices"] > 50
    assert row["wall \u00d7"] > 0
    kept = nbp.open_profile(tmp_path / "torch-cnn.nbprof.zip")
    assert len(kept.trace.slices) == row["slices"]


# --- the runner -------------------------------------------------------------------------------------------


class Played(plan.Job):
    """A job that is a line of Python."""

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-c", SCRIPTS[self.name]]


SCRIPTS = {
    "scene/good": 'import sys; print("log"); print(\'ROWS [{"scene": "good", "n": 1}]\')',
    "scene/raises": 'raise RuntimeError("no capture")',
    "scene/crashes": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "scene/hangs": 'import sys, time; print("deep", file=sys.stderr, flush=True); time.sleep(600)',
    "scene/lacks": 'print("LACKS jax not installed")',
    "test/passes": 'print(".\\n1 passed in 0.1s")',
    "test/skips": 'print("s\\nSKIPPED [1] x.py:3: no GPU backend\\n1 skipped in 0.1s")',
    "test/fails": 'print("F\\nE   assert 3 == 4\\nFAILED x\\n1 failed"); raise SystemExit(1)',
    "scene/last": 'print(\'ROWS [{"scene": "last", "n": 2}, {"other": 3}]\')',
}


def test_whatever_happens_to_a_job_the_others_run(tmp_path: Path) -> None:
    reported: list[Outcome] = []
    jobs = [Played(name, 3.0 if name == "scene/hangs" else 60.0) for name in SCRIPTS]
    outcome_of = {one.name: one for one in runner.run_all(jobs, tmp_path, on_outcome=reported.append)}
    assert list(outcome_of.values()) == reported
    assert {name: one.outcome for name, one in outcome_of.items()} == {
        "scene/good": "ok",
        "scene/raises": "failed",
        "scene/crashes": "crashed",
        "scene/hangs": "timed out",
        "scene/lacks": "skipped",
        "test/passes": "ok",
        "test/skips": "skipped",
        "test/fails": "failed",
        "scene/last": "ok",
    }
    assert outcome_of["scene/raises"].reason == "RuntimeError: no capture"
    assert "Traceback" in outcome_of["scene/raises"].log
    assert outcome_of["scene/crashes"].reason == "signal SIGSEGV"
    assert outcome_of["scene/hangs"].reason.endswith("; deep")
    assert outcome_of["scene/lacks"].reason == "jax not installed"
    assert outcome_of["test/skips"].reason == "SKIPPED [1] x.py:3: no GPU backend"
    assert outcome_of["test/fails"].reason == "E   assert 3 == 4"
    assert outcomes.figures(reported) == [{"scene": "good", "n": 1}, {"scene": "last", "n": 2}, {"other": 3}]
    outcomes.write(tmp_path / "o.json", reported)
    assert outcomes.read(tmp_path / "o.json") == outcome_of


def test_when_the_minutes_are_over_the_rest_is_named() -> None:
    jobs = [Played("scene/good", 60.0), Played("scene/last", 60.0)]
    results = runner.run_all(jobs, minutes=0.0)
    assert [one.outcome for one in results] == ["not started"] * 2


def test_a_later_call_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any) -> None:
    monkeypatch.setattr(program.NvmlCollector, "availability", lambda: Availability(True, "1 GPU"))
    monkeypatch.setattr(runner, "collect", lambda: ["tests/gpu/test_gpu.py::test_x", "1 test collected"])
    monkeypatch.setattr(program.plan, "JOBS", [Played("scene/good", 60.0), Played("scene/raises", 60.0)])
    monkeypatch.setattr(plan, "tests", lambda lines: [Played("test/fails", 60.0)] if lines else [])
    ran: list[str] = []
    original = runner._one
    monkeypatch.setattr(runner, "_one", lambda job, *a: (ran.append(job.name), original(job, *a))[1])
    assert program.main(["--save", str(tmp_path), "--only", "scene/*"]) == 1
    assert ran == ["scene/good", "scene/raises"]
    assert program.main(["--save", str(tmp_path)]) == 1
    assert ran[2:] == ["scene/raises", "test/fails"]  # not again what was well
    assert json.loads((tmp_path / "performance.json").read_text()) == [{"scene": "good", "n": 1}]
    out = capsys.readouterr().out
    assert "| scene/raises | failed |" in out
    assert "RuntimeError: no capture" in out
    assert program.main(["--list", "--only", "test/*"]) == 0
    assert capsys.readouterr().out.split() == ["test/fails"]


def test_every_scene_and_every_test_is_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # as on a bare machine
    names = [job.name for job in plan.JOBS]
    assert len(set(names)) == len(names)
    assert {name for name in names if ":" not in name} >= {f"scene/{one.name}" for one in SCENES}
    assert set(plan.ROUTED) <= set(BY_NAME)
    tests = plan.tests(runner.collect())
    assert len(tests) > 30
    assert all(job.name.startswith("test/test_") for job in tests)
    assert tests[0].command[3].startswith("tests/gpu/test_gpu.py::")


def test_what_is_reported_inside(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ncu.shutil, "which", lambda name: None)
    assert program.inside("ncu/product", None) == 0
    assert capsys.readouterr().out == "LACKS ncu is not on the PATH\n"
    monkeypatch.setattr("tests.gpu.scenes.installed", lambda name: False)
    assert program.inside("scene/jax", None) == 0
    assert capsys.readouterr().out == "LACKS jax not installed\n"
    assert program.inside("machine/facts", None) == 0
    (facts,) = json.loads(capsys.readouterr().out.removeprefix("ROWS "))
    assert facts["python"] == sys.version.split()[0]
    assert facts["collector marks"].startswith("True")
    assert facts["writers"] >= 2


def test_entry_points_where_nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bare machine has the source and no pip install of it; recordings are kept there all the same."""
    assert runner._registered() == {}
    monkeypatch.setattr(runner, "entry_points", lambda group: ())
    path = runner._registered()["PYTHONPATH"].split(os.pathsep)
    assert path[0] == str(gpu.ROOT)
    text = (Path(path[1]) / "notebook_prof-0.dist-info" / "entry_points.txt").read_text()
    assert "[notebook_prof.writers]\nchrome = notebook_prof.writers.chrome:write_chrome\n" in text


def test_ncus_words() -> None:
    head = '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"'
    lines = [
        "==PROF== Connected",
        head,
        '"0","gemm","gpu__time_duration.sum","usecond","1,200.5"',
        '"1","gemm","gpu__time_duration.sum","nsecond","900"',
        '"2","fill","other","nsecond","1"',
    ]
    assert ncu.durations(lines) == {"gemm": [1_200_500.0, 900.0]}
    assert ncu.durations(["nothing"]) == {}


# --- pytest's own way -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_test_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "test_them.py").write_text(
        "import os, signal, time, pytest\n"
        "def test_passes(): assert os.environ['NBP_GPU_ALONE'] == '1'\n"
        "def test_fails(): assert 3 == 4\n"
        "def test_skips(): pytest.skip('no GPU backend')\n"
        "def test_crashes(): os.kill(os.getpid(), signal.SIGSEGV)\n"
        "def test_hangs(): time.sleep(600)\n"
    )
    results = {
        name: alone.run_alone(f"test_them.py::test_{name}", tmp_path, 1.0 if name == "hangs" else 120.0)
        for name in ("passes", "fails", "skips", "crashes", "hangs")
    }
    assert {name: outcome for name, (outcome, _) in results.items()} == {
        "passes": "passed",
        "fails": "failed",
        "skips": "skipped",
        "crashes": "failed",
        "hangs": "failed",
    }
    assert "assert 3 == 4" in results["fails"][1]
    assert results["skips"][1].endswith("no GPU backend")
    assert "exit status -11" in results["crashes"][1]
    assert results["hangs"][1].startswith("killed after 1 s")


def test_numbas_kernel_in_its_simulator() -> None:
    pytest.importorskip("numba", reason="numba is not installed")
    code = "import tests.gpu.scenes as s\ns.ELEMENTWISE = 1; s.BY_NAME['numba'].make('cuda')(); print('ran')"
    done = runner.subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=gpu.ROOT,
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"},
    )
    assert done.stdout.split() == ["ran"], done.stderr
    assert ELEMENTWISE > 1


def test_an_empty_output_is_a_failure_too() -> None:
    assert judge("scene/x", 1, 0.1, "", "").outcome == "failed"
    assert judge("test/x", 0, 0.1, "", "").outcome == "skipped"
