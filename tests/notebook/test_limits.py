"""Kernels with little left of what the system lets them take: they answer, and go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.notebook.conftest import Kernel, _kernel

CELL = "%%profile p\nx = sum(range(100_000))\nprint(x)"


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Kernel]:
    for kernel in _kernel(tmp_path):
        kernel.must("import os, resource")
        yield kernel


@pytest.mark.parametrize("spare", [0, 1, 3])
def test_few_descriptors(limited: Kernel, spare: int) -> None:
    """What ZeroMQ cannot send, it loses: a bare kernel that shows a megabyte is then silent for good."""
    limited.must(
        f"taken = max(map(int, os.listdir('/proc/self/fd'))) + 1 + {spare}\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (taken, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))"
    )
    reply = limited.must(CELL)
    assert reply.stdout == "4999950000\n"
    assert "fewer than 8 more files" in str(reply.displays)
    # IPython's history cannot be written any more, which it says in between
    assert limited.must("print(p is _profile)").stdout.startswith("True")


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
