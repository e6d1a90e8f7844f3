"""Collections of Python's garbage: noted when they come, whoever asks for them, and by code in C alone."""

from __future__ import annotations

import gc
import signal
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

import notebook_prof as nbp
from notebook_prof.collectors.python.garbage_collections import GARBAGE, GarbageCollections
from notebook_prof.trace.report import ImportReport


class Reference:
    """What a plain function that ``gc`` calls sees."""

    def __init__(self) -> None:
        self.spans: list[tuple[int, int]] = []
        self._begin_ns = 0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._begin_ns = time.time_ns()
        else:
            self.spans.append((self._begin_ns, time.time_ns()))


@pytest.fixture
def reference() -> Iterator[Reference]:
    made = Reference()
    gc.callbacks.append(made)
    yield made
    gc.callbacks.remove(made)


def begun() -> GarbageCollections:
    noted = GarbageCollections(ImportReport())
    noted.start(time.time_ns)
    return noted


def test_each_collection_is_noted_with_its_thread(reference: Reference) -> None:
    gc.disable()  # a thread left by another test may trigger a collection
    reference.spans.clear()
    try:
        noted = begun()
        gc.collect(0)
        worker = threading.Thread(target=gc.collect)
        worker.start()
        tid = worker.native_id
        worker.join()
        gc.collect()
        noted.stop()
    finally:
        gc.enable()
    count = len(noted.begin_ns)
    assert count == 3
    theirs = np.array(reference.spans[:count])
    # in the order in which `gc` calls: that function first, at the begin and at the end
    order = np.column_stack([theirs[:, 0], noted.begin_ns, theirs[:, 1], noted.end_ns]).ravel()
    assert (np.diff(order) >= 0).all()
    assert (noted.end_ns > noted.begin_ns).all()
    assert noted.tid[0] == threading.get_native_id()
    assert tid not in (None, threading.get_native_id())
    assert set(noted.tid.tolist()) <= {threading.get_native_id(), 0}, "a thread that has ended is not known"


def test_it_says_so_where_the_callback_was_taken_away() -> None:
    before = list(gc.callbacks)
    report = ImportReport()
    noted = GarbageCollections(report)
    noted.start(time.time_ns)
    gc.collect()
    gc.callbacks[:] = before
    noted.stop()
    assert len(noted.begin_ns) == 0
    assert [issue.code for issue in report] == ["garbage-collections-unclear"]


class Came(Exception):
    pass


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no interval timers")
def test_an_interrupt_within_a_collection_is_raised_behind_it() -> None:
    """A function in Python that ``gc`` calls would get it, and what that raises is printed and dropped."""

    def handler(number: int, frame: object) -> None:
        raise Came

    def collect() -> None:
        signal.setitimer(signal.ITIMER_REAL, whole_s / 3)
        gc.collect()
        time.sleep(10)

    alive = [[i] for i in range(400_000)]
    others, gc.callbacks[:] = list(gc.callbacks), []  # Hypothesis leaves such a function
    before = signal.signal(signal.SIGALRM, handler)
    noted = GarbageCollections(ImportReport())
    begin = time.perf_counter()
    try:
        gc.collect()
        whole_s = time.perf_counter() - begin
        for _ in range(20):
            noted.start(time.time_ns)
            with pytest.raises(Came):
                collect()
            noted.stop()
            if len(noted.begin_ns):  # otherwise it came before the collection, as on a busy machine
                break
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        noted.stop()
        gc.callbacks[:] = others
        signal.signal(signal.SIGALRM, before)
    assert len(noted.begin_ns)
    del alive


def test_a_profile_has_them_below_the_line_that_asked() -> None:
    alive = [[i] for i in range(400_000)]
    with nbp.profile("python") as p:
        for _ in range(3):
            gc.collect()
    del alive
    slices = p.trace.slices
    rows = slices[slices["name"] == GARBAGE]
    assert len(rows) >= 3
    assert (rows["category"] == "python").all()
    assert (rows["self_ns"] == rows["dur"]).all(), "no line begins or ends within one"
    (row,) = p.hotspots().query("name == @GARBAGE").to_dict("records")
    assert row["self_ns"] == rows["dur"].sum()
