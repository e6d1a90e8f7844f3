"""Kernels with little left of what the system lets them take: they answer, and go on."""

from collections.abc import Iterator

import pytest

from tests.notebook.conftest import Kernel, new_kernel

CELL = "%%profile p\nx = sum(range(100_000))\nprint(x)"


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel of its own: what has met a limit may have lost something for good."""
    for kernel in new_kernel(tmp_path_factory.mktemp("ipython")):
        # IPython says in between that it cannot write its history any more
        kernel.must("import os, resource; get_ipython().history_manager.enabled = False")
        kernel.must("print('the threads of ipykernel open their pipes when they first send')")
        yield kernel


@pytest.mark.parametrize("spare", [3, 1, 0])
def test_few_descriptors(limited: Kernel, spare: int) -> None:
    """What ZeroMQ cannot send, it loses: a bare kernel that shows a megabyte is then silent for good."""
    limited.must("before = resource.getrlimit(resource.RLIMIT_NOFILE)")
    limited.must(  # the limit is a highest number, so that those below it are spare too
        "highest, kept = max(map(int, os.listdir('/proc/self/fd'))), []\n"
        "while not kept or kept[-1] < highest: kept.append(os.open(os.devnull, os.O_RDONLY))\n"
        f"taken = kept[-1] + 1 + {spare}\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (taken, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))"
    )
    try:
        reply = limited.must(CELL)
    finally:
        limited.must("resource.setrlimit(resource.RLIMIT_NOFILE, before)")
        limited.must("for number in kept: os.close(number)")
    assert reply.stdout == "4999950000\n"
    assert "fewer than 8 more files" in str(reply.displays)
    assert limited.must("print(p is _profile)").stdout == "True\n"
    assert "fewer than" not in str(limited.must(CELL).displays)


@pytest.mark.parametrize("spare_mib", [2, 20, 100])
def test_little_address_space(limited: Kernel, spare_mib: int) -> None:
    """Compiled code that gets no memory may end the process, which loses all of the user's variables."""
    limited.must(
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        f"resource.setrlimit(resource.RLIMIT_AS, (used + {spare_mib} * 2**20, -1))"
    )
    reply = limited.run(CELL)
    assert reply.error == "UsageError"
    assert "MiB of address space are left" in reply.stderr + reply.message
    limited.must("resource.setrlimit(resource.RLIMIT_AS, (-1, -1))")
    assert limited.must(CELL).stdout == "4999950000\n"
