"""The scenes for a card run on the host as far as they can, and the runner loses nothing whatever fails."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import notebook_prof as nbp
from benchmarks import gpu
from benchmarks.gpu import __main__ as program
from benchmarks.gpu import archive, kineto, machine, outcomes, plan, runner, scene, wheels
from benchmarks.gpu.outcomes import Outcome, judge
from notebook_prof.collectors.base import Availability
from notebook_prof.collectors.nvml import collector as program_nvml
from tests.gpu import conftest as alone
from tests.gpu.scenes import BY_NAME, ELEMENTWISE, LEAK_BYTES, SCENES, Scene
from tests.unit.test_nvml import Driver


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
    monkeypatch.setattr(gpu, "KEPT", tmp_path / "card.zip")
    assert gpu.run() == []
    assert "nothing was measured" in capsys.readouterr().err
    rows = [{"card": "X", "wall \u00d7": 1.1}]
    bad = Outcome("scene/b", "failed", 1.0, "it broke", [{"card": "X", "wall \u00d7": 9.9}])
    archive.write(gpu.KEPT, [Outcome("scene/a", "ok", 1.0, "", rows), bad], {})
    assert gpu.run() == rows


def test_a_scene_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On the host: everything but the device's own figures."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr(scene, "_ROUNDS", 2)
    monkeypatch.setattr(scene, "_SESSIONS", 2)
    x = torch.ones(8)
    played = Scene("torch-cnn", ("torch",), lambda device: lambda: [x.add(1) for _ in range(60)])
    (row,) = scene.measure(played, tmp_path)
    assert (row["scene"], row["route"], row["device work"]) == ("torch-cnn", "kineto", 0)
    assert row["slices"] > 50
    assert row["wall \u00d7"] > 0
    kept = nbp.open_profile(tmp_path / "torch-cnn.nbprof.zip")
    assert len(kept.trace.slices) == row["slices"]
    assert [row["session"] for row in scene.sessions(played, tmp_path)] == [1, 2]


@pytest.mark.parametrize("steps", [0, 40])
def test_a_large_recording_is_cut_to_its_end(
    steps: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    b = nbp.TraceBuilder()
    ts = np.arange(20_000) * 1_000
    dur = np.random.default_rng(0).integers(1, 900, len(ts))
    b.slices(ts=ts, dur=dur, name="op", category="operator", track=b.track("main", tid=1))
    if steps:
        b.steps(np.arange(steps), np.arange(steps) * 500_000, np.full(steps, 500_000), "loop")
    monkeypatch.setattr(scene, "LARGEST_BYTES", 45_000)
    scene.keep(nbp.Profile(b.seal()), tmp_path / "x.nbprof.zip")
    kept = nbp.open_profile(tmp_path / "x.nbprof.zip").trace
    assert 0 < len(kept.slices) <= (2_001 if not steps else 500)
    assert len(kept.steps) == bool(steps)


# --- the runner -------------------------------------------------------------------------------------------


class Played(plan.Job):
    """A job that is a line of Python."""

    def command(self, device: str) -> list[str]:
        return [sys.executable, "-c", SCRIPTS[self.name]]


SCRIPTS = {
    "scene/good": 'import sys; print("log"); print(\'ROWS [{"scene": "good", "device work": 1}]\')',
    "scene/empty": 'print(\'ROWS [{"device work": 3}, {"device work": 0, "trust": "no-device-work"}]\')',
    "scene/silent": 'print("nothing")',
    "scene/raises": 'raise RuntimeError("no capture")',
    "scene/crashes": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "scene/hangs": 'import sys, time; print("deep", file=sys.stderr, flush=True); time.sleep(600)',
    "scene/lacks": 'print("LACKS jax not installed")',
    "test/passes": 'print(".\\n1 passed in 0.1s")',
    "test/skips": 'print("s\\nSKIPPED [1] x.py:3: no GPU backend\\n1 skipped in 0.1s")',
    "test/fails": 'print("F\\nE   assert 3 == 4\\nFAILED x\\n1 failed"); raise SystemExit(1)',
    "scene/last": 'print(\'ROWS [{"scene": "last", "device work": 2}, {"other": 3}]\')',
}


def run_all(jobs: list[plan.Job], folder: Path, end_s: float = math.inf) -> list[Outcome]:
    reported: list[Outcome] = []
    done = runner.run_all(jobs, folder, os.environ, end_s=end_s, on_outcome=reported.append)
    assert done == reported
    return done


def test_whatever_happens_to_a_job_the_others_run(tmp_path: Path) -> None:
    jobs: list[plan.Job] = [Played(name, 3.0 if name == "scene/hangs" else 60.0) for name in SCRIPTS]
    outcome_of = {one.name: one for one in run_all(jobs, tmp_path)}
    assert {name: one.outcome for name, one in outcome_of.items()} == {
        "scene/good": "ok",
        "scene/empty": "no device work",
        "scene/silent": "failed",
        "scene/raises": "failed",
        "scene/crashes": "crashed",
        "scene/hangs": "timed out",
        "scene/lacks": "skipped",
        "test/passes": "ok",
        "test/skips": "skipped",
        "test/fails": "failed",
        "scene/last": "ok",
    }
    assert outcome_of["scene/empty"].reason == "no-device-work"
    assert outcome_of["scene/raises"].reason == "RuntimeError: no capture"
    assert "Traceback" in outcome_of["scene/raises"].log
    assert outcome_of["scene/crashes"].reason == "signal SIGSEGV"
    assert outcome_of["scene/hangs"].reason.endswith("; deep")
    assert outcome_of["scene/lacks"].reason == "jax not installed"
    assert outcome_of["test/skips"].reason == "SKIPPED [1] x.py:3: no GPU backend"
    assert outcome_of["test/fails"].reason == "E   assert 3 == 4"
    good = [{"scene": "good", "device work": 1}, {"scene": "last", "device work": 2}, {"other": 3}]
    assert outcomes.figures(outcome_of.values()) == good


def test_when_the_minutes_are_over_the_rest_is_named(tmp_path: Path) -> None:
    jobs: list[plan.Job] = [Played("scene/good", 60.0), Played("scene/last", 60.0)]
    assert [one.outcome for one in run_all(jobs, tmp_path, time.monotonic())] == ["not started"] * 2


def test_the_archive_keeps_what_comes_first_and_has_room(tmp_path: Path) -> None:
    ends = [Outcome("scene/a", "ok", 1.0, rows=[{"x": 1}]), Outcome("scene/b", "failed", 2.0, "why", log="l")]
    files = {"a": os.urandom(3_000), "b": os.urandom(3_000), "c": os.urandom(100)}
    assert archive.write(tmp_path / "deep" / "x.zip", ends, files, most_bytes=4_000) == ["b"]
    kept = archive.read(tmp_path / "deep" / "x.zip")
    assert list(kept.outcomes.values()) == ends
    assert kept.files == {name: files[name] for name in ("a", "c")}
    assert (tmp_path / "deep" / "x.zip").stat().st_size < 4_500
    assert archive.read(tmp_path / "none.zip") == archive.Archive()


def test_a_later_call_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any) -> None:
    """From the archive in the tree; what was skipped or had no device work is tried again."""
    names = ("scene/good", "scene/lacks", "scene/empty", "scene/raises")
    monkeypatch.setattr(program.plan, "JOBS", [Played(name, 60.0) for name in names])
    monkeypatch.setattr(runner, "collect", lambda environment: ["tests/gpu/test_gpu.py::test_x"])
    monkeypatch.setattr(plan, "tests", lambda lines: [Played("test/fails", 60.0)] if lines else [])
    ran: list[str] = []
    original = runner._one

    def one(job: plan.Job, folder: Path, *more: Any) -> Outcome:
        ran.append(job.name)
        (folder / f"{len(ran)}.nbprof.zip").write_bytes(b"x")
        return original(job, folder, *more)

    monkeypatch.setattr(runner, "_one", one)
    tree, out = tmp_path / "tree.zip", tmp_path / "out.zip"
    assert program.main(["--archive", str(tree), "--only", "scene/*"]) == 1
    assert ran == list(names)
    assert program.main(["--archive", str(out), "--onto", str(tree)]) == 1
    assert ran[4:] == [*names[1:], "test/fails"]
    kept = archive.read(out)
    assert {name: one.outcome for name, one in kept.outcomes.items()} == {
        "scene/good": "ok",
        "scene/lacks": "skipped",
        "scene/empty": "no device work",
        "scene/raises": "failed",
        "test/fails": "failed",
    }
    assert set(kept.files) == {f"{number}.nbprof.zip" for number in range(1, 9)}
    text = capsys.readouterr().out
    assert "| scene/raises | failed |" in text
    assert "RuntimeError: no capture" in text
    assert program.main(["--list", "--only", "test/*"]) == 0
    assert capsys.readouterr().out.split() == ["test/fails"]
    assert program.main(["--rehearse", "--archive", str(tmp_path / "r.zip"), "--only", "scene/good"]) == 0
    assert archive.read(tmp_path / "r.zip").outcomes["scene/good"].outcome == "rehearsed"


def test_every_job_can_be_run_and_what_teaches_most_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # as on a bare machine
    names = [job.name for job in plan.JOBS]
    assert len(set(names)) == len(names)
    assert names[0] == outcomes.FACTS
    scenes = {
        one.rpartition("/")[2].partition(":")[0] for one in names if one.startswith(("scene", "kernel"))
    }
    assert scenes == set(BY_NAME)
    tests = plan.tests(runner.collect(os.environ))
    assert len(tests) > 30
    assert all(job.name.startswith("test/test_") for job in tests)
    assert "kernel" in tests[0].name
    assert tests[0].command("cuda")[3].startswith("tests/gpu/test_")


def test_what_is_reported_inside(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("notebook_prof.optional.installed", lambda name: False)
    assert program.inside("scene/jax", tmp_path, "cuda") == 0
    assert capsys.readouterr().out == "LACKS jax not installed\n"
    no_card = Availability(False, "no NVIDIA driver: not found")
    monkeypatch.setattr(program_nvml.NvmlCollector, "availability", lambda: no_card)
    for name in ("machine/facts", "nvml/calls"):
        assert program.inside(name, tmp_path, "cuda") == 0
        assert capsys.readouterr().out == "LACKS no NVIDIA driver: not found\n"
    assert program.inside("machine/facts", tmp_path, "cpu") == 0
    (facts,) = json.loads(capsys.readouterr().out.removeprefix("ROWS "))
    assert facts["python"] == sys.version.split()[0]
    assert facts["collector marks"].startswith("True")


def test_nvmls_readings_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the library that plays a driver."""
    driver = Driver()
    monkeypatch.setitem(sys.modules, "pynvml", driver)  # type: ignore[arg-type]
    monkeypatch.setattr(machine, "_said", lambda command: command[1])
    rows = {row["nvml"]: row for row in machine.counters(seconds=0.05)}
    assert rows["power"]["told"] == "75.0"
    assert rows["power"]["nvidia-smi"] == "--query-gpu=power.draw"
    assert "nvidia-ml-py" in rows["energy"]["told"]
    assert rows["thread, 2 cards"]["nvidia-smi"] == "numbers are surely CUDA's"


def test_calls_and_who_owns_kernels() -> None:
    """From torch's own file: names and numbers of launches, and what Kineto could not name."""

    def span(kind: str, name: str, correlation: int, **more: Any) -> dict[str, Any]:
        return {"cat": kind, "name": name, "dur": 1, "args": {"correlation": correlation, **more}}

    spans = [
        *(span("cuda_runtime", "INVALID", number, cbid=505) for number in (1, 2, 3)),
        span("cuda_runtime", "cudaGetDevice", 4, cbid=17),
        span("cuda_driver", "cuLaunchKernel", 1, cbid=307),
        *(span("kernel", "k", number) for number in (1, 2)),
    ]
    whole, launch, *others = kineto.calls(spans)
    assert (whole["device work"], whole["numbers of both domains"]) == (2, 1)
    assert (launch["call"], launch["cbid"], launch["count"], launch["with kernel"]) == ("INVALID", 505, 3, 2)
    assert {row["call"]: row["with kernel"] for row in others} == {"cudaGetDevice": 0, "cuLaunchKernel": 1}


@pytest.mark.slow
def test_a_scene_in_a_real_kernel_beside_torchs_profiler(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    (row,) = kineto.beside("torch-cnn", tmp_path, "cpu", rounds=1)
    assert (row["kernels"], row["torch's"], row["names alike"], row["device work"]) == (0, 0, True, 0)
    assert row["wall \u00d7"] > 0
    assert len(nbp.open_profile(tmp_path / "torch-cnn-cell.nbprof.zip").trace.slices) > 50


def test_entry_points_where_nothing_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A bare machine has the source and no pip install of it; recordings are kept there all the same."""
    monkeypatch.setattr(runner, "entry_points", lambda group: ())
    path = runner.environment_with(tmp_path)["PYTHONPATH"].split(os.pathsep)
    assert path[:2] == [str(gpu.ROOT), str(tmp_path)]
    text = (tmp_path / "notebook_prof-0.dist-info" / "entry_points.txt").read_text()
    assert "[notebook_prof.writers]\nchrome = notebook_prof.writers.chrome:write_chrome\n" in text


def test_wheels_are_made_small_and_unpacked_where_they_lack(tmp_path: Path) -> None:
    wheel, there = tmp_path / "not_there-1.0-py3-none-any.whl", tmp_path / "pytest-9-py3-none-any.whl"
    large = bytes(range(256)) * 2_000
    with zipfile.ZipFile(wheel, "w") as file:
        for name in ("a/__init__.py", "a/big.so", "a/tests/x.py", "a/b.h"):
            file.writestr(name, large if "big" in name else b"1")
    shutil.copy(wheel, there)
    wheels.shrink(wheel)
    assert wheel.stat().st_size < 5_000
    assert wheels.unpack(tmp_path, tmp_path / "site") == ["not-there"]
    names = {str(path.relative_to(tmp_path / "site")) for path in (tmp_path / "site").rglob("*.*")}
    assert names == {"a/__init__.py", "a/big.so"}
    assert (tmp_path / "site" / "a" / "big.so").read_bytes() == large


def test_too_many_wheels_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fetched: list[list[str]] = []

    def fetch(command: list[str], check: bool) -> None:
        fetched.append(command)
        for name in ("numpy", "pandas", "msgspec"):
            with zipfile.ZipFile(tmp_path / f"{name}-1-py3-none-any.whl", "w") as file:
                file.writestr(f"{name}.py", "")

    monkeypatch.setattr(wheels.subprocess, "run", fetch)
    assert 0 < wheels.make(tmp_path, without=["Pandas", "pyarrow"]) < 1_000
    assert [path.name for path in tmp_path.glob("*.whl")] == ["msgspec-1-py3-none-any.whl"]
    assert {"pandas", "pyarrow", "numpy"}.isdisjoint(fetched[0])
    assert fetched[1][-2:] == ["--no-deps", "cupti-python==13.0.*"]
    monkeypatch.setattr(wheels, "MOST_BYTES", 10)
    with pytest.raises(SystemExit, match="MB of wheels"):
        wheels.make(tmp_path)


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
