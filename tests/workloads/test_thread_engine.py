"""The laws where a thread samples, as on macOS, on Windows and in a container that forbids ptrace.

``make test-workloads`` runs this.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from .laws import check_laws
from .runner import Notebook, load
from .test_laws import OWN

FORBID = """
import ctypes, os
from notebook_prof.collectors.python import py_spy_attachment as attachment
PR_SET_DUMPABLE, PR_CAPBSET_DROP, CAP_SYS_PTRACE = 4, 24, 19
libc = ctypes.CDLL(None)
if os.geteuid() == 0:
    assert libc.prctl(PR_CAPBSET_DROP, CAP_SYS_PTRACE, 0, 0, 0) == 0
assert libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0
print(attachment.refusal())
"""
"""Drops CAP_SYS_PTRACE in the kernel, as a container does."""
ENGINE = "print(_profile.trace.metadata['python_engine'])"


@pytest.fixture(scope="module")
def thread_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """A kernel for the workloads that name the engine."""
    made = Notebook(tmp_path_factory.mktemp("thread"))
    yield made
    made.close()


@pytest.mark.parametrize("name", [one for one in OWN if one != "rss_peak"])
def test_laws_where_a_thread_samples(name: str, thread_kernel: Notebook) -> None:
    if name == "rf":
        pytest.importorskip("sklearn")
    workload = load(name)
    named = replace(workload, options=f"{workload.options} --engine thread")
    check_laws(thread_kernel.play(named, bare=False, fails=name == "raises"))


def test_a_container_that_forbids_ptrace_gets_the_thread(tmp_path: Path) -> None:
    kernel = Notebook(tmp_path)
    try:
        said, _ = kernel.must(FORBID)
        assert "no process may attach to this one" in said
        for name in ("epochs", "threads", "sleep"):
            run = kernel.play(load(name), bare=False)
            check_laws(run)
            assert kernel.must(ENGINE)[0].strip() == "thread"
    finally:
        kernel.close()
