"""The scenes for a card run on the host as far as they can, and the runner loses nothing whatever fails."""

from __future__ import annotations

import json
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
from benchmarks.gpu import jobs, kineto, machine, outcomes, runner, scene, wheels
from benchmarks.gpu.outcomes import Outcome, judge
from notebook_prof.collectors import nvml as program_nvml
from notebook_prof.collectors.base import Availability
from notebook_prof.collectors.cuda.cupti import fitting
from tests.gpu import conftest as alone
from tests.gpu.scenes import BY_NAME, ELEMENTWISE, LEAK_BYTES, SCENES, Scene
from tests.pretend_nvml import Driver


@pytest.mark.parametrize("name", [one.name for one in SCENES if one.needs == ("torch",)])
def test_scenes_of_torch_run_on_the_host_too(name: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    body = BY_NAME[name].make("cpu")
    with nbp.profile("torch", memory=True) as p:
        body()
    assert p.operators()["count"].sum() > 3
    if name == "torch-growth":
        assert p.memory.growth()["bytes_per_step"].max() == LEAK_BYTES


def test_scenes_say_what_they_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.gpu.scenes.installed", lambda name: name == "torch")
    lacks = {one.name: one.missing("cpu") for one in SCENES}
    assert lacks["torch-cnn"] == ""
    assert lacks["cupy-and-torch"] == "cupy not installed"
    assert lacks["jax"] == "jax not installed"
    assert lacks["triton"] == "triton not installed"
    assert BY_NAME["torch-cnn"].missing("cpu", ("ipykernel",)) == "ipykernel not installed"
    monkeypatch.setattr("tests.gpu.scenes.installed", lambda name: not name.startswith("jax_"))
    assert BY_NAME["jax"].missing() == "the installed JAX has no GPU backend"


def test_kept_figures_are_shown_where_there_is_no_card(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "KEPT", tmp_path / "card.zip")
    assert gpu.run() == []
    assert "nothing was measured" in capsys.readouterr().err
    rows = [{"card": "X", "wall \u00d7": 1.1}]
    bad = Outcome("scene/b", "failed", 1.0, "it broke", [{"card": "X", "wall \u00d7": 9.9}])
    outcomes.write(gpu.KEPT, [Outcome("scene/a", "ok", 1.0, "", rows), bad], {})
    assert gpu.run() == rows


def test_a_scene_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On the host: everything but the device's own figures."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr(scene, "_SESSIONS", 3)
    x = torch.ones(8)
    played = Scene("torch-cnn", ("torch",), lambda device: lambda: [x.add(1) for _ in range(60)])
    monkeypatch.setitem(BY_NAME, "torch-cnn", played)
    rows = scene.measure("torch-cnn", tmp_path)
    assert [row["session"] for row in rows] == [1, 2, 3]
    row = rows[-1]
    assert (row["scene"], row["route"], row["device work"]) == ("torch-cnn", "kineto", 0)
    assert row["slices"] > 50
    assert row["wall \u00d7"] > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"torch-cnn-{n}.nbprof.zip" for n in (1, 3)]
    kept = nbp.open_profile(tmp_path / "torch-cnn-3.nbprof.zip")
    assert len(kept.trace.slices) == row["slices"]


def test_a_large_recording_is_cut_to_its_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    b = nbp.TraceBuilder()
    ts = np.arange(20_000) * 1_000
    dur = np.random.default_rng(0).integers(1, 900, len(ts))
    b.slices(ts=ts, dur=dur, name="op", category="operator", track=b.track("main", tid=1))
    monkeypatch.setattr(scene, "LARGEST_BYTES", 45_000)
    scene.keep(nbp.Profile(b.seal()), tmp_path / "x.nbprof.zip")
    kept = nbp.open_profile(tmp_path / "x.nbprof.zip").trace
    assert 0 < len(kept.slices) <= 2_001
    monkeypatch.setattr(scene, "LARGEST_BYTES", 10)
    scene.keep(nbp.Profile(kept), tmp_path / "y.nbprof.zip")
    assert not (tmp_path / "y.nbprof.zip").exists()


# --- the runner -------------------------------------------------------------------------------------------


SCRIPTS = {
    "scene/good": 'import sys; print("log"); print(\'ROWS [{"scene": "good", "device work": 1}]\')',
    "scene/empty": 'print(\'ROWS [{"device work": 3}, {"device work": 0, "trust": "no-device-work"}]\')',
    "scene/silent": 'print("nothing")',
    "scene/untold": 'print(\'ROWS [{"scene": "untold"}]\')',
    "nvml/told": 'print(\'ROWS [{"nvml": "power"}]\')',
    "scene/raises": 'raise RuntimeError("no capture")',
    "scene/crashes": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "scene/hangs": 'import sys, time; print("deep", file=sys.stderr, flush=True); time.sleep(600)',
    "scene/lacks": 'print("LACKS jax not installed")',
    "test/passes": 'print(".\\n1 passed in 0.1s")',
    "test/skips": 'print("s\\nSKIPPED [1] x.py:3: no GPU backend\\n1 skipped in 0.1s")',
    "test/fails": 'print("F\\nE   assert 3 == 4\\nFAILED x\\n1 failed"); raise SystemExit(1)',
    "scene/last": 'print(\'ROWS [{"scene": "last", "device work": 2}, {"other": 3}]\')',
}


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Jobs that are a line of Python each; names of those that ran."""
    ran: list[str] = []

    def command(name: str, folder: Path, device: str) -> list[str]:
        ran.append(name)
        (folder / f"{len(ran)}.nbprof.zip").write_bytes(b"x")
        return [sys.executable, "-c", SCRIPTS[name]]

    monkeypatch.setattr(jobs, "command", command)
    monkeypatch.setattr(jobs, "limit_s", lambda name: 3.0 if name == "scene/hangs" else 60.0)
    return ran


def run_all(names: list[str], folder: Path, seconds: float = 600.0) -> list[Outcome]:
    return list(runner.run_all(names, folder, os.environ, time.monotonic() + seconds))


def test_whatever_happens_to_a_job_the_others_run(played: list[str], tmp_path: Path) -> None:
    outcome_of = {one.name: one for one in run_all(list(SCRIPTS), tmp_path)}
    assert {name: one.outcome for name, one in outcome_of.items()} == {
        "scene/good": "ok",
        "scene/empty": "no device work",
        "scene/silent": "failed",
        "scene/untold": "no device work",
        "nvml/told": "ok",
        "scene/raises": "failed",
        "scene/crashes": "crashed",
        "scene/hangs": "timed out",
        "scene/lacks": "skipped",
        "test/passes": "ok",
        "test/skips": "skipped",
        "test/fails": "failed",
        "scene/last": "ok",
    }
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


def test_when_the_minutes_are_over_the_rest_is_named(played: list[str], tmp_path: Path) -> None:
    outcomes_ = run_all(["scene/good", "scene/last"], tmp_path, 0.0)
    assert [one.outcome for one in outcomes_] == ["not started"] * 2
    assert not played


def test_a_job_that_hangs_is_killed_when_the_minutes_are_over(
    played: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(jobs, "limit_s", lambda name: 60.0)
    monkeypatch.setattr(runner, "_SHORTEST_S", 1.0)
    begun = time.monotonic()
    (one,) = run_all(["scene/hangs"], tmp_path, 2.0)
    assert one.outcome == "timed out"
    assert time.monotonic() - begun < 30


def test_the_archive_keeps_what_comes_first_and_has_room(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(outcomes, "MOST_BYTES", 4_000)
    ends = [Outcome("scene/a", "ok", 1.0, rows=[{"x": 1}]), Outcome("scene/b", "failed", 2.0, "why", log="l")]
    files = {"a": os.urandom(3_000), "b": os.urandom(3_000), "c": os.urandom(100)}
    assert outcomes.write(tmp_path / "deep" / "x.zip", ends, files) == ["b"]
    kept, recordings = outcomes.read(tmp_path / "deep" / "x.zip")
    assert list(kept.values()) == ends
    assert recordings == {name: files[name] for name in ("a", "c")}
    assert (tmp_path / "deep" / "x.zip").stat().st_size < 4_500
    assert outcomes.read(tmp_path / "none.zip") == ({}, {})


def test_an_archive_fits_where_files_of_16_mib_come_back(tmp_path: Path) -> None:
    files = {f"{number}.zip": os.urandom(700_000) for number in range(30)}
    outcomes.write(
        tmp_path / "x.zip", [Outcome(f"test/{n}", "failed", 1.0, log="l" * 12_000) for n in range(90)], files
    )
    assert 14 << 20 < (tmp_path / "x.zip").stat().st_size < 16 << 20


def test_a_later_call_goes_on(
    played: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    """From the archive in the tree; what was skipped or had no device work is tried again."""
    names = ("scene/good", "scene/lacks", "scene/empty", "scene/raises")
    monkeypatch.setattr(jobs, "JOBS", names)
    monkeypatch.setattr(runner, "collect", lambda environment: ["tests/gpu/fails"])
    tree, out = tmp_path / "tree.zip", tmp_path / "out.zip"
    monkeypatch.setattr(program, "KEPT", tree)
    assert program.main(["--only", "scene/*"]) == 1
    assert played == list(names)
    assert program.main(["--archive", str(out)]) == 1
    assert played[4:] == [*names[1:], "test/fails"]
    kept, recordings = outcomes.read(out)
    assert {name: one.outcome for name, one in kept.items()} == {
        "scene/good": "ok",
        "scene/lacks": "skipped",
        "scene/empty": "no device work",
        "scene/raises": "failed",
        "test/fails": "failed",
    }
    assert set(recordings) == {f"{number}.nbprof.zip" for number in range(1, 9)}
    text = capsys.readouterr().out
    assert "| scene/raises | failed |" in text
    assert "RuntimeError: no capture" in text
    assert program.main(["--list", "--only", "test/*"]) == 0
    assert capsys.readouterr().out.split() == ["test/fails"]


def test_a_rehearsal_does_nothing_for_good(
    played: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(jobs, "JOBS", ("scene/good", "scene/empty", "scene/lacks", "scene/raises"))
    monkeypatch.setattr(runner, "collect", lambda environment: [])
    monkeypatch.setattr(runner, "environment_of", lambda site, rehearse: os.environ)
    monkeypatch.setattr(program, "KEPT", tmp_path / "tree.zip")
    out = tmp_path / "r.zip"
    assert program.main(["--rehearse", "--archive", str(out), "--only", "scene/[gel]*"]) == 0
    assert outcomes.read(out)[0]["scene/good"].outcome == "rehearsed"
    assert program.main(["--rehearse", "--archive", str(out)]) == 1  # one fails
    assert played[3:] == ["scene/good", "scene/empty", "scene/lacks", "scene/raises"]
    with pytest.raises(SystemExit):
        program.main(["--rehearse"])
    assert not (tmp_path / "tree.zip").exists()


def test_every_job_can_be_run_and_what_teaches_most_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # as on a bare machine
    names = jobs.JOBS
    assert len(set(names)) == len(names)
    assert names[0] == outcomes.FACTS
    scenes = {
        one.rpartition("/")[2].partition(":")[0] for one in names if one.startswith(("scene", "kernel"))
    }
    assert scenes == set(BY_NAME)
    tests = jobs.tests(runner.collect(os.environ))
    assert len(tests) > 30
    assert all(name.startswith("test/test_") for name in tests)
    assert "kernel" in tests[0]
    first = [name for name in tests if any(one in name for one in jobs._FIRST)]
    assert {name.partition("::")[2].partition("[")[0] for name in first} == set(jobs._FIRST)
    assert tests[: len(first)] == first
    assert jobs.command(tests[0], Path(), "cuda")[3].startswith("tests/gpu/test_")


def test_what_is_reported_inside(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tests.gpu.scenes.installed", lambda name: False)
    assert jobs.inside("scene/jax", tmp_path, "cuda") == 0
    assert capsys.readouterr().out == "LACKS jax not installed\n"
    no_card = Availability(False, "no NVIDIA driver: not found")
    monkeypatch.setattr(program_nvml.NvmlCollector, "availability", lambda: no_card)
    for name in ("machine/facts", "nvml/calls"):
        assert jobs.inside(name, tmp_path, "cuda") == 0
        assert capsys.readouterr().out == "LACKS no NVIDIA driver: not found\n"
    assert jobs.inside("machine/facts", tmp_path, "cpu") == 0
    (facts,) = json.loads(capsys.readouterr().out.removeprefix("ROWS "))
    assert facts["python"] == sys.version.split()[0]
    assert facts["collector marks"].startswith("True")


def test_nvmls_readings_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the library that plays a driver."""
    driver = Driver()
    monkeypatch.setitem(sys.modules, "pynvml", driver)  # type: ignore[arg-type]
    monkeypatch.setattr(machine, "_printed", lambda *command: command[1])
    rows = {row["nvml"]: row for row in machine.counters(seconds=0.05)}
    assert rows["power"]["value"] == "75.0"
    assert "power.draw" in rows["nvidia-smi"]["value"]
    assert "nvidia-ml-py" in rows["energy"]["value"]
    assert rows["thread, CPU in 10 ms"]["value"] == "2 cards, numbers surely CUDA's"


@pytest.mark.slow
def test_a_scene_in_a_real_kernel_beside_torchs_profiler(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    (row,) = kineto.beside("torch-cnn", tmp_path, "cpu", rounds=1)
    assert (row["kernels"], row["torch's"], row["same names"], row["device work"]) == (0, 0, True, 0)
    assert row["wall \u00d7"] > 0
    assert len(nbp.open_profile(tmp_path / "torch-cnn-cell.nbprof.zip").trace.slices) > 50
    assert len(nbp.open_profile(tmp_path / "torch-cnn-torch.json.gz").trace.slices) > 50


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


def test_entry_points_where_nothing_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A bare machine has the source and no pip install of it; recordings are kept there all the same."""
    monkeypatch.setattr(runner, "entry_points", lambda group: ())
    path = runner.environment_of(tmp_path)["PYTHONPATH"].split(os.pathsep)
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
    assert fetched[1][-2:] == ["--no-deps", "cupti-python<13.1"]
    for driver, number in (("13.0", 13_000), ("13.4", 13_040), ("12.8", 12_080)):
        assert fitting(number) == f'pip install "{wheels.cupti_python(driver)}"'
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


def test_a_row_that_was_cut_off_costs_nothing_else() -> None:
    one = judge("scene/x", -11, 0.1, 'ROWS [{"device work": 3}]\nROWS [{"dev', "")
    assert (one.outcome, one.rows) == ("crashed", [{"device work": 3}])


def test_an_empty_output_is_a_failure_too() -> None:
    assert judge("scene/x", 1, 0.1, "", "").outcome == "failed"
    assert judge("test/x", 0, 0.1, "", "").outcome == "failed"
