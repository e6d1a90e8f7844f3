"""A Python without a GIL: everything is imported, lines are sampled, and what cannot be done is said."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from notebook_prof.collectors.machine import has_gil, is_free_threaded
from notebook_prof.collectors.python import PythonCollector, py_spy_attachment
from notebook_prof.collectors.python.engine import Sampler
from notebook_prof.trace import Clock
from notebook_prof.trace.report import ImportReport

from ..new_process import run_python

SENTENCE = "py-spy cannot read a Python without a GIL"
PROFILE = """
import json, sys
sys._is_gil_enabled = lambda: False  # as such a Python says; one that is there says so itself
from IPython.core.interactiveshell import InteractiveShell
import notebook_prof as nbp

for name in nbp.__all__:
    getattr(nbp, name)
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "notebook_prof")
for engine in ("auto", "py-spy"):
    cell = f"%%profile {engine[:2]} --quiet --no-history --engine {engine}\\n"
    cell += "total = 0\\nfor i in range(600_000):\\n    total += i * i\\n"
    shell.run_cell(cell).raise_error()
answers = {}
for engine in ("au", "py"):
    p = shell.user_ns[engine]
    slices = p.trace.slices
    answers[engine] = {
        "gil": p.trace.metadata["machine"]["gil"],
        "engine": p.trace.metadata["python_engine"],
        "lines": sorted(set(p.lines().query("self_ns > 0")["line"].tolist())),
        "reason": p.trace.metadata["python_engine_reason"],
        "report": str(p.trace.report),
    }
print(json.dumps(answers))
shell.run_line_magic("unload_ext", "notebook_prof")
"""


@pytest.fixture
def without_gil(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter that says that it has no GIL."""
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)


@pytest.mark.usefixtures("without_gil")
def test_what_cannot_be_done_is_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(py_spy_attachment, "_refused", "")
    assert not has_gil()
    assert is_free_threaded()
    if sys.platform == "linux" and py_spy_attachment.binary():
        assert py_spy_attachment.refusal() == SENTENCE
        assert SENTENCE in PythonCollector.availability().reason


def test_a_cell_is_recorded_without_a_gil(tmp_path: Path) -> None:
    answers = json.loads(run_python(PROFILE, cwd=tmp_path).stdout.splitlines()[-1])
    for answer in answers.values():
        assert answer["gil"] is False
        assert answer["engine"] == "thread"
        if importlib.util.find_spec("_remote_debugging"):
            assert 4 in answer["lines"], "the body of the loop has most of its time"
        else:
            assert "without a GIL stacks can be read from Python 3.14 on" in answer["report"]
    if sys.platform == "linux" and py_spy_attachment.binary():
        assert answers["au"]["reason"] == answers["py"]["reason"] == SENTENCE
        assert all(f"· sampled-in-process: {SENTENCE}" in answer["report"] for answer in answers.values())


@pytest.mark.usefixtures("without_gil")
def test_without_a_gil_stacks_are_read_from_copies_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames of a thread that runs on would be gone while they are read."""
    me = threading.get_native_id()

    class Reader:
        def __init__(self, pid: int, *, all_threads: bool) -> None:
            assert (pid, all_threads) == (os.getpid(), True)

        def get_stack_trace(self) -> list[Any]:
            frames = [Frame("inner", __file__, 7), Frame("outer", __file__, 3)]
            here = SimpleNamespace(thread_id=me, frame_info=frames)
            return [here, SimpleNamespace(thread_id=-1, frame_info=frames)]

    class Frame(NamedTuple):
        funcname: str
        filename: str
        lineno: int

    monkeypatch.setitem(sys.modules, "_remote_debugging", SimpleNamespace(RemoteUnwinder=Reader))
    sampler = Sampler(ImportReport())
    sampler.start(Clock())
    while not len(sampler.looks.ts):
        time.sleep(0.001)
    sampler.stop()
    recorded = sampler.recorded()
    [thread] = recorded.threads
    stacks = recorded.stacks
    frames = [stacks.distinct[number] for number in stacks.frames]
    assert thread.tid == threading.get_native_id()
    assert [(frame.function, frame.line) for frame in frames] == [("outer", 3), ("inner", 7)]
