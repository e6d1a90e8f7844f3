"""A Python without a GIL: everything is imported, lines are sampled, and what cannot be done is said."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from notebook_prof.collectors.machine import has_gil, is_free_threaded
from notebook_prof.collectors.python.alarm import delayed_tick
from notebook_prof.collectors.python.collector import PythonCollector
from notebook_prof.collectors.python.py_spy import attachment

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
    monkeypatch.setattr(attachment, "_refused", "")
    assert not has_gil()
    assert is_free_threaded()
    if sys.platform == "linux" and attachment.binary():
        assert attachment.refusal() == SENTENCE
        assert SENTENCE in PythonCollector.availability().reason
    assert delayed_tick.refusal() == "threads of a Python without a GIL do not wait for one another"


def test_a_gil_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True, raising=False)
    assert has_gil()
    monkeypatch.delattr(sys, "_is_gil_enabled")
    assert has_gil(), "before Python 3.13 there is always one"


def test_a_cell_is_recorded_without_a_gil(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROFILE], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout.splitlines()[-1])
    for answer in answers.values():
        assert answer["gil"] is False
        assert answer["engine"] == "alarm"
        assert 4 in answer["lines"], "the body of the loop has most of its time"
    if sys.platform == "linux" and attachment.binary():
        assert answers["au"]["reason"] == answers["py"]["reason"] == SENTENCE
        assert f"engine-refused: {SENTENCE}" in answers["py"]["report"]
