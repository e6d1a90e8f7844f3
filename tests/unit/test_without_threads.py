"""Recordings open and are drawn without threads, processes and psutil too, as in a browser's Python."""

from __future__ import annotations

import json
from pathlib import Path

from notebook_prof import open_profile

from ..new_process import run_python

ABSENT = """
import os, subprocess, sys, threading, _thread

class NoPsutil:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "psutil":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

def refuse(*arguments, **options):
    raise RuntimeError("can't start new thread")

sys.meta_path.insert(0, NoPsutil())
threading.Thread.start = _thread.start_new_thread = subprocess.Popen.__init__ = os.fork = refuse
"""

OPEN_AND_DRAW = """
import json
import notebook_prof as nbp
from notebook_prof.jupyter.widget import ProfileWidget

source, report = sys.argv[1:]
p = nbp.open_profile(source)
widget = ProfileWidget(p)
answers = []
widget.send = lambda content, buffers=None: answers.append(content)
for question in ({"t": "table", "by": "name"}, {"t": "phases"}, {"t": "panel", "name": "overview"}):
    widget._receive(widget, {**question, "rid": "1"}, [])
p.export.html(report)
print(json.dumps({
    "verdict": str(p.verdict),
    "operators": int(p.operators()["count"].sum()),
    "answers": [sorted(set(one) & {"failed", "pending"}) for one in answers],
    "threads": threading.active_count(),
    "figure": type(p.plot.timeline()).__name__,
}))
"""


def test_a_recording_opens_and_is_drawn(data: Path, tmp_path: Path) -> None:
    source, report = data / "torch213_cpu" / "mini_noschedule.pt.trace.json.gz", tmp_path / "report.html"
    done = run_python(ABSENT + OPEN_AND_DRAW, source, report)
    without, usual = json.loads(done.stdout), open_profile(source)
    assert report.stat().st_size > 100_000
    assert (without["threads"], without["figure"]) == (1, "figure")
    assert without["answers"] == [[], [], []], "no thread is waited for"
    assert without["verdict"] == str(usual.verdict)
    assert without["operators"] == usual.operators()["count"].sum()
