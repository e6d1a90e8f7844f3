"""Kernels that several workloads share, as the cells of a notebook do."""

import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from .runner import Notebook, Run, load
from .truth import keep

Play = Callable[..., Run]

COMPARED = {
    *("checkpoint_customfn", "closures", "dataset_loop", "flax", "func_vmap", "hf_generate"),
    *("orders", "rf", "sleep", "torchimp_pandas", "trainer_class"),
}
"""Workloads whose tests compare with runs without the profiler; the others print their truth themselves."""

books = pytest.mark.clock("CPU time by the system's books, which hold what else the kernel did meanwhile")
compared = pytest.mark.clock("shares of the cell, beside those of runs without the profiler")
timed = pytest.mark.clock("times and shares of a cell, of which other jobs take their part")


class Notebooks:
    """Kernels by name, and the last run of each workload."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.open = folder, {}  # type: Path, dict[str, Notebook]
        self.runs: dict[str, Run] = {}
        self.read: set[tuple[str, str]] = set()

    def kernel(self, name: str) -> Notebook:
        """The kernel of this name; a new one where it died."""
        if name in self.open and not self.open[name].alive:
            self.open.pop(name).close()
        if name not in self.open:
            self.open[name] = Notebook(self.folder / f"{name}-{len(self.read)}")
        return self.open[name]

    def close(self) -> None:
        """End all kernels, also where one of them cannot be ended."""
        with ExitStack() as ending:
            for notebook in self.open.values():
                ending.callback(notebook.close)


@pytest.fixture(scope="session")
def notebooks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebooks]:
    """All kernels of this session."""
    made = Notebooks(tmp_path_factory.mktemp("workloads"))
    yield made
    made.close()


@pytest.fixture
def play(notebooks: Notebooks, request: pytest.FixtureRequest) -> Play:
    """Run a workload, or take the run that another test made; a test that runs again gets a new one."""
    # Only tests that compare clocks need the bare runs.
    measures_truth = "NBP_TRUTH" in os.environ  # docs/truth.md has all bare runs
    compares = request.node.get_closest_marker("clock") is not None

    def played(name: str) -> Run:
        key, fresh, fails = (request.node.nodeid, name), name == "rss_peak", name == "raises"
        bare = not fresh and (measures_truth or (compares and name in COMPARED))
        run = notebooks.runs.get(name)
        if run is None or key in notebooks.read or (bare and not run.bare_s > 0):
            kernel = "fresh" if fresh else "shared"  # the peak is that of a process that has had none before
            notebook = notebooks.kernel(kernel)
            try:
                notebooks.runs[name] = notebook.play(load(name), bare=bare, fails=fails)
            except Exception:
                notebooks.open.pop(kernel).close()  # who knows what it still runs
                raise
            if file := os.environ.get("NBP_TRUTH"):
                keep(notebooks.runs[name], Path(file))
        notebooks.read.add(key)
        return notebooks.runs[name]

    return played


def needs(*packages: str) -> pytest.MarkDecorator:
    """Skip where a package is missing; ``make test-workloads`` has them all."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"make test-workloads installs {', '.join(missing)}")
