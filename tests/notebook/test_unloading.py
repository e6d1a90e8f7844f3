"""Unloading in the middle of a profiled cell ends the recording, not the cell; a restart ends both."""

import time
from queue import Empty

import psutil
import pytest

from tests.py_spy_processes import attached_to

from .conftest import PATIENCE_S, Kernel, new_kernel

LOOP = "for i in range(5):\n    x += i\n"


def test_unloading_or_reloading_inside_of_a_profiled_cell(kernel: Kernel) -> None:
    kernel.must(f"%%profile p --quiet\nx = 1\n%unload_ext notebook_prof\n{LOOP}")
    assert kernel.value("x") == 11
    assert kernel.value("p.account()['dur'].sum() > 0")
    assert kernel.value("[name for name in globals() if name.startswith('__nbp')]") == []
    kernel.must("%load_ext notebook_prof")
    kernel.must(f"%%profile q --quiet --steps 1:3\nx = 1\n{LOOP}")
    assert kernel.value("[len(q.steps()), x]") == [2, 11]
    kernel.must("%%profile p --quiet\nx = 1\n%reload_ext notebook_prof\nx += 1")
    assert kernel.value("x") == 2
    kernel.must("%%profile q --quiet\nx += 1")
    assert kernel.value("q.account()['dur'].sum() > 0")


def test_unloading_inside_of_the_loop_that_ticks(kernel: Kernel) -> None:
    kernel.must(
        "%%profile p --quiet\nx = 0\nfor i in range(6):\n    x += i\n    if i == 2:\n"
        "        get_ipython().run_line_magic('unload_ext', 'notebook_prof')\n"
    )
    assert kernel.value("x") == 15
    kernel.must("%load_ext notebook_prof")
    kernel.must("%%profile q --quiet\n1 + 1")
    assert kernel.value("q.account()['dur'].sum() > 0")


def test_many_reloads_leave_one_set_of_magics(kernel: Kernel) -> None:
    """IPython keeps every one that was ever registered."""
    kernel.must("%reload_ext notebook_prof\n%reload_ext notebook_prof\n%reload_ext notebook_prof")
    kept = "[type(one).__name__ for one in get_ipython().configurables]"
    assert kernel.value(f"{kept}.count('ProfileMagics')") == 1


def test_a_kernel_may_be_restarted_in_the_middle_of_a_profiled_cell(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """What looked at the old process ends with it, and the new one records."""
    for made in new_kernel(tmp_path_factory.mktemp("ipython")):
        pid = made.value("__import__('os').getpid()")
        made.client.execute("%%profile p --quiet\nimport time\nprint('in it', flush=True)\ntime.sleep(600)")
        until = time.monotonic() + PATIENCE_S
        while not _heard(made, "in it") and time.monotonic() < until:
            pass
        watching = [*psutil.Process(pid).children(recursive=True), *attached_to(pid)]
        made.manager.restart_kernel(now=True)
        made.client.wait_for_ready(timeout=PATIENCE_S)
        _, alive = psutil.wait_procs(watching, timeout=60)
        assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []
        made.must("%load_ext notebook_prof")
        made.must("%%profile p --quiet\nsum(i * i for i in range(2_000_000))")
        assert made.value("p.account()['dur'].sum() > 0")
        assert made.value("p.verdict.kind") != "nothing-recorded"


def _heard(kernel: Kernel, text: str) -> bool:
    try:
        message = kernel.client.get_iopub_msg(timeout=1)
    except Empty:
        return False
    return text in str(message["content"].get("text", ""))
