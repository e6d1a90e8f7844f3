"""Fixtures that several rooms' tests share."""

from __future__ import annotations

import gc
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from notebook_prof import background
from notebook_prof.trace.strings import Interner

from .draws import EXPLORE
from .run_processes import end_marked, mark, start_guard

# threads of OpenMP that spin for a core make torch twice as slow where tests share two; kernels inherit it
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# what tests record is nobody's history; those of the history say where theirs lies
os.environ["NOTEBOOK_PROF_HISTORY"] = "off"
# nbformat's schemas do not need it, and building its grammar takes each worker two seconds
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

RUN_OF = pytest.StashKey[str]()
REPOSITORY = Path(__file__).resolve().parent.parent
LONGEST = (
    *("notebook/", "workloads/", "analysis/test_samples.py", "unit/test_run_command.py"),
    *("unit/test_fused_kernels.py", "codebase/", "ranks/test_page.py"),
)
"""What takes one worker over 15 s, longest first. It starts first, so that no core idles later."""
TOGETHER = ("tests/gpu/", "tests/workloads/", "tests/notebook/", "tests/codebase/")
"""Folders whose files share kernels or what they parsed, so that one worker runs them."""

settings.register_profile(
    "house",
    deadline=None,
    # to explain a failure, hypothesis traces every line: minutes, in which the timeout ends the worker
    phases=[phase for phase in Phase if phase is not Phase.explain],
    # laws are tested, not the speed of a loaded machine; a folder may hold what the example before has left
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    max_examples=100 if EXPLORE else 12,
    derandomize=not EXPLORE,  # the same examples in every run; NBP_EXPLORE=1 draws others
)
settings.load_profile("house")


@pytest.fixture(scope="session", autouse=True)
def _idle_kernel() -> Iterator[None]:
    """Let background work run, although the main thread of a test computes all the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(background, "kernel_is_idle", lambda: True)
        yield


@pytest.fixture(scope="session")
def data() -> Path:
    """The recordings that belong to the repository."""
    return REPOSITORY / "tests" / "data"


@pytest.fixture(scope="session")
def shared_traces() -> Path:
    """Recordings that are too large for the repository; skips where there are none."""
    folder = REPOSITORY.parent / "shared" / "traces"
    if not folder.is_dir():
        pytest.skip(f"the shared recordings are not here ({folder.name}/ beside the repository)")
    return folder


@pytest.fixture
def counted_names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What names a trace is asked to number while a test runs."""
    seen: list[str] = []
    code = Interner.code

    def counted(self: Interner, value: str) -> int:
        seen.append(value)
        return code(self, value)

    monkeypatch.setattr(Interner, "code", counted)
    return seen


def pytest_configure(config: pytest.Config) -> None:
    """Name this run for its processes, which end with it; SIGTERM ends it as Ctrl-C does."""
    # Ctrl-C is taken also where a shell has background jobs ignore it.
    config.stash[RUN_OF] = run = mark()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if run and hasattr(os, "fork"):
        start_guard(run)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the kernels, servers and browsers that are still there when the run is over, also after Ctrl-C."""
    if (run := config.stash[RUN_OF]) and (ended := end_marked(run)):
        print("ended with the tests:", *ended, sep="\n  ", file=sys.stderr)


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what collecting made: 700,000 objects that live to the end."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Repeat a failed test of the clock up to twice; the summary lists it. Other tests have one try."""
    # The longest run first: kernels, whose worker mostly waits while others compute. Browser tests run last:
    # their driver leaves an event loop running in this thread. Without the plugin that repeats tests, nothing
    # is repeated.
    again = config.pluginmanager.hasplugin("rerunfailures")
    for item in items:
        if marked := item.get_closest_marker("clock"):
            assert marked.args, f"{item.nodeid}: clock needs its reason"
            if again:
                item.add_marker(pytest.mark.flaky(reruns=2))
    first = {f"tests/{name}": place for place, name in enumerate(LONGEST)}
    assert all((REPOSITORY / name).exists() for name in first), first

    def order(item: pytest.Item) -> int:
        for name, place in first.items():
            if item.nodeid.startswith(name):
                return place
        return len(first) + item.nodeid.startswith("tests/browser/")

    items.sort(key=order)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each worker a file at a time, or a folder whose files share something."""
    from xdist.scheduler import LoadFileScheduling

    class Together(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return next(filter(nodeid.startswith, TOGETHER), None) or str(super()._split_scope(nodeid))

    return Together(config, log)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how to run each failed test alone."""
    failed = [*terminalreporter.stats.get("failed", []), *terminalreporter.stats.get("error", [])]
    if failed:
        terminalreporter.section("run a failed test alone")
        for nodeid in dict.fromkeys(report.nodeid for report in failed):
            terminalreporter.write_line(f"{sys.executable} -m pytest {shlex.quote(nodeid)}")
