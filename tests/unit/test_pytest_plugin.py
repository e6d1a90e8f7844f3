"""The pytest plugin, in pytest's own sandbox: tests that are held to limits far from what they take."""

from __future__ import annotations

import os
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from ..new_process import run_python

pytest_plugins = ("pytester",)

LOOP = """
import time
import pytest

def steps(seconds=0.002, count=20):
    import notebook_prof as nbp
    from notebook_prof.expectations import quantities
    quantities.dependence = lambda times: 1.0  # those of a busy machine are correlated
    for _ in range(count):
        time.sleep(seconds)
        nbp.step()
"""


def _run(pytester: pytest.Pytester, source: str, *options: str) -> pytest.RunResult:
    """Run a test file; a process of its own, as a recording runs in ours."""
    pytester.makepyfile(test_it=LOOP + source)
    return pytester.runpytest_subprocess("--strict-markers", "-p", "no:cacheprovider", *options)


def test_the_marker_holds_tests_to_limits(pytester: pytest.Pytester) -> None:
    result = _run(
        pytester,
        """
@pytest.mark.profile("python", expect=["step p50 < 10s", "steps == 20"])
def test_passes():
    steps()

@pytest.mark.profile("python", expect="step p50 < 1us")
def test_fails():
    steps()

@pytest.mark.profile("python", expect="step p99 < 10s")
def test_not_decided():
    steps(count=3)

@pytest.mark.profile("python", expect="step p50 < 1us")
def test_its_own_failure_comes_first():
    steps(count=8)
    assert False, "my own"

@pytest.mark.profile("python", expect="stepp p50 < 1us")
def test_misspelt():
    pass

def test_the_fixture_records_two_blocks(profile):
    with profile("python", expect="steps == 5") as p:
        steps(count=5)
    assert len(p.steps()) == 5
    with profile("python", memory=False) as q:
        steps(count=7)
    q.expect("steps == 7")

def test_a_block_that_raises(profile):
    with pytest.raises(KeyError):
        with profile("python", expect="steps == 5"):
            raise KeyError("mine")

class TestMarkersAddUp:
    pytestmark = pytest.mark.profile("python", expect="steps == 20", steps="0:9")

    @pytest.mark.profile(expect=["step p50 < 10s", "step p50 < 1us"], steps=None)
    def test_fails_by_its_own(self):
        steps()

    @pytest.mark.profile(expect="step p50 < 10s", steps=None)
    def test_fails_by_the_class(self):
        steps(count=19)
""",
        "--junitxml=junit.xml",
    )
    result.assert_outcomes(passed=3, failed=6)
    said = ["expectations: 1 failed", "FAIL *step p50 < 1us", "INCONCLUSIVE *step p99 < 10s"]
    result.stdout.fnmatch_lines([f"*{line}*" for line in (*said, "AssertionError: my own")])
    assert "stepp" in result.stdout.str()
    cases = {case.get("name"): case for case in ET.parse(pytester.path / "junit.xml").iter("testcase")}
    noted = {one.get("name"): one.get("value") for one in cases["test_passes"].iter("property")}
    assert list(noted) == ["profile: step p50 < 10s", "profile: steps == 20"]
    assert str(noted["profile: steps == 20"]).startswith("PASS")
    (failed,) = cases["test_fails"].iter("property")
    assert str(failed.get("value")).startswith("FAIL")
    assert not list(cases["test_its_own_failure_comes_first"].iter("property"))
    own, theirs = (
        {str(one.get("name"))[9:]: str(one.get("value")).split()[0] for one in cases[name].iter("property")}
        for name in ("test_fails_by_its_own", "test_fails_by_the_class")
    )
    assert own == {"steps == 20": "PASS", "step p50 < 10s": "PASS", "step p50 < 1us": "FAIL"}
    assert theirs == {"steps == 20": "FAIL", "step p50 < 10s": "PASS"}


@pytest.mark.clock("what is not decided on a busy machine fails")
def test_baselines(pytester: pytest.Pytester) -> None:
    source = """
SLOW = {slow}

@pytest.mark.profile("python", baseline="slower < 50%")
@pytest.mark.parametrize("count", [80])
def test_step(count):
    steps(0.03 if SLOW else 0.002, count)
"""
    fast, slow = source.format(slow=False), source.format(slow=True)
    missing = _run(pytester, fast)
    missing.assert_outcomes(failed=1)
    missing.stdout.fnmatch_lines(["*there is no baseline to compare with*--profile-update*"])
    _run(pytester, fast, "--profile-update").assert_outcomes(passed=1)
    (kept,) = (pytester.path / ".profiles").iterdir()
    assert kept.name.startswith("test_it.py_test_step[80]")
    assert kept.name.endswith(".nbprof.zip")
    result = _run(pytester, slow)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*FAIL *slower < 50%*"])
    _run(pytester, slow, "--profile-update", "--profile-baselines=other").assert_outcomes(passed=1)
    assert len([*(pytester.path / "other").iterdir()]) == 1
    faster = _run(pytester, fast, "--profile-baselines=other")  # 15 times as fast
    faster.assert_outcomes(passed=1)


def test_it_can_be_left_out(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_plain():\n    pass\n\ndef test_asks(profile):\n    pass\n")
    pytester.runpytest_subprocess("-p", "no:notebook_prof").assert_outcomes(passed=1, errors=1)


def test_pytest_starts_without_anything_heavy() -> None:
    code = "import notebook_prof.pytest_plugin, sys; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = {*run_python(code).stdout.split()}
    assert not {"numpy", "pandas", "torch", "bokeh", "IPython", "msgspec"} & loaded


def test_a_recording_beyond_its_limits_is_no_baseline(pytester: pytest.Pytester) -> None:
    """A failed run changes neither an existing baseline nor a missing one."""
    source = """
@pytest.mark.profile("python", expect="step p50 < {limit}", baseline="slower < 50%")
def test_{name}():
    steps()
"""
    _run(pytester, source.format(limit="10s", name="step"), "--profile-update").assert_outcomes(passed=1)
    (kept,) = (pytester.path / ".profiles").iterdir()
    before = kept.read_bytes()
    both = source.format(limit="1us", name="step") + source.format(limit="1us", name="new")
    _run(pytester, both, "--profile-update").assert_outcomes(failed=2)
    assert [*(pytester.path / ".profiles").iterdir()] == [kept]
    assert kept.read_bytes() == before


def test_a_test_that_is_run_again_reports_each_try_once(pytester: pytest.Pytester) -> None:
    pytest.importorskip("pytest_rerunfailures")
    result = _run(
        pytester,
        """
TRIES = iter([3, 5])

@pytest.mark.flaky(reruns=1)
@pytest.mark.profile("python", expect="steps == 5")
def test_second_try():
    steps(count=next(TRIES))
""",
        "--junitxml=junit.xml",
    )
    result.assert_outcomes(passed=1)
    rows = [
        str(one.get("value")).split()[0] for one in ET.parse(pytester.path / "junit.xml").iter("property")
    ]
    assert rows == ["FAIL", "PASS"]  # JUnit's file lists the properties of both reports


def test_pytest_in_a_kernel_does_not_warn_that_the_package_was_imported_before(tmp_path: Path) -> None:
    """pytest wants to rewrite the packages of all distributions that have plugins."""
    # from Python 3.15 on only files that exist are listed; last on the path, they hide no modules
    site = tmp_path / "site"
    installed = site / "plugged-1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1\n")
    (installed / "entry_points.txt").write_text("[pytest11]\nplugged = plugged_plugin\n")
    (installed / "RECORD").write_text("notebook_prof/__init__.py,,\nstatistics.py,,\n")
    (site / "notebook_prof").mkdir()
    for name in ("plugged_plugin.py", "statistics.py", "notebook_prof/__init__.py"):
        (site / name).write_text("")
    (tmp_path / "test_one.py").write_text("def test_one(): pass\n")
    code = "import notebook_prof, statistics, pytest; pytest.main(['-q', 'test_one.py'])"
    path = os.pathsep.join([*sys.path, str(site)])
    ran = run_python(code, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, check=False)
    assert "1 passed" in ran.stdout, ran
    assert "cannot be rewritten" in ran.stdout  # of the other module: the warning is there
    # the folder of a clone has the package's name, too
    assert "cannot be rewritten: notebook_prof" not in ran.stdout, ran.stdout
