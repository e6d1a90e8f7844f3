"""Freed memory in processes that give it back at once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import pytest

from notebook_prof.ranks.reading import cluster

CODE = """
import resource
import numpy as np
from notebook_prof.ranks.reading.cluster import raised_heap_limits
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(200):
        np.ones(125_000).sum()  # 1 MB: too small for a huge page
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
first = faults()
with raised_heap_limits():
    inside = faults()
print(first, inside, faults())
"""


class Library:
    """Remembers what glibc would have been told."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, ...]] = []

    def mallopt(self, *of: int) -> None:
        self.calls.append(of)

    def malloc_trim(self, *of: int) -> None:
        self.calls.append(of)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    library = Library()
    monkeypatch.setattr(cluster, "_glibc", lambda: library)
    return library


@pytest.mark.skipif(cluster._glibc() is None, reason="this C library is not glibc")
def test_arrays_are_not_given_back_inside_and_are_again_after() -> None:
    environment: dict[str, Any] = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    before, inside, after = map(int, done.stdout.split())
    assert inside < min(before, after) / 4, done.stdout


def test_nothing_is_set_where_nobody_asked(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    for threshold in (None, "", "-1", "many"):
        monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
        if threshold is not None:
            monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", threshold)
        with cluster.raised_heap_limits():
            assert library.calls == []
    assert library.calls == []


def test_the_last_thread_sets_what_was_asked_for(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "65536")
    inside, end = threading.Event(), threading.Event()

    def other() -> None:
        with cluster.raised_heap_limits():
            inside.set()
            assert end.wait(60)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(60)
    with pytest.raises(ValueError, match="ours"), cluster.raised_heap_limits():
        raise ValueError("ours")
    assert len(library.calls) == 2  # the other one still works
    end.set()
    thread.join(60)
    assert library.calls[2:] == [(-1, 65536), (-3, 128 << 10), (0,)]
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "4096")
    with cluster.raised_heap_limits():
        pass
    assert (-3, 4096) in library.calls
