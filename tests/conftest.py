"""Fixtures that several rooms' tests share."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from .draws import EXPLORE

# threads of OpenMP that spin for a core make torch twice as slow where tests share two; kernels inherit it
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# what tests record is nobody's history; those of the history say where theirs lies
os.environ["NOTEBOOK_PROF_HISTORY"] = "off"

REPOSITORY = Path(__file__).resolve().parent.parent

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


def pytest_configure() -> None:
    """Take Ctrl-C, which some tests send, also where a shell has jobs in the background ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what collecting made: 700,000 objects that live to the end."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give a second try to tests on a real clock alone; the summary lists it.

    Browser tests run last: their driver leaves an event loop running in this thread. Without the plugin that
    gives second tries, as on a bare machine with a card, there are none.
    """
    again = config.pluginmanager.hasplugin("rerunfailures")
    for item in items:
        if marked := item.get_closest_marker("real_clock"):
            assert marked.args, f"{item.nodeid}: real_clock needs its reason"
            if again:
                item.add_marker(pytest.mark.flaky(reruns=1))
    items.sort(key=lambda item: "browser" in item.path.relative_to(REPOSITORY).parts)
