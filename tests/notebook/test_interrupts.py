"""Forty interrupts at random moments, with everything attached, leave nothing of the profiler behind."""

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ..draws import draws
from ..py_spy_processes import attached_to
from ..workloads.runner import Notebook

pytest.importorskip("torch")

SETUP = """
import torch, time
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
opt = torch.optim.Adam(net.parameters())
loader = torch.utils.data.DataLoader(torch.ones(320, 64), batch_size=16)
"""

CELL = """
def prepare(x):
    return sum(float(v) for v in x[0])
for x in loader:
    prepare(x)
    opt.zero_grad()
    net(x).sum().backward()
    opt.step()
    time.sleep(0.002)
"""

INSIDE = Path(__file__).parents[1] / "soak" / "inside.py"
STATE = f"""
exec(open({str(INSIDE)!r}).read(), _space := {{"__name__": "inside"}})
import json, threading
print(json.dumps({{
    **_space["state"](get_ipython()),
    "threads": sorted(t.name for t in threading.enumerate() if t.name != "MainThread"),
    "own hooks": [type(opt).step.__qualname__, len(opt._optimizer_step_pre_hooks),
                  len(opt._optimizer_step_post_hooks),
                  *(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in net.modules())],
}})); del _space
"""


INTERRUPTER = """
import _thread
def _interrupt(after_s):
    import os, signal, sys, threading, time
    import notebook_prof
    package = os.path.join(os.path.dirname(notebook_prof.__file__), "")
    main = threading.main_thread().ident
    def inside():
        frame, names = sys._current_frames()[main], set()
        while frame is not None:
            names.add(frame.f_code.co_name if "interactiveshell" in frame.f_code.co_filename else "")
            names.add("ours" if frame.f_code.co_filename.startswith(package) else "")
            frame = frame.f_back
        return names & {"run_ast_nodes", "ours"}
    for wanted in (False, True):
        while bool(inside()) is not wanted:
            time.sleep(0.0005)
    time.sleep(after_s)
    if inside():
        os.kill(os.getpid(), signal.SIGINT)
"""
"""A thread in the kernel that interrupts the next cell, in its statements or in the profiler's own code.

It looks first: an interrupt that meets IPython or the kernel while they are about to run a cell, or about to
answer, loses the answer also without any profiler. Between its look and its signal the cell may still end.
"""


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    """A kernel whose temporary files go to a folder of its own."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    made = Notebook(tmp_path / "notebook")
    try:
        yield made
    finally:
        made.close()


def state(notebook: Notebook) -> dict[str, Any]:
    """What a profiler might leave in the process: threads, timers, handlers, hooks, names."""
    printed, _ = notebook.must(STATE)
    state_of: dict[str, Any] = json.loads(printed)
    return state_of


def outside(notebook: Notebook) -> dict[str, list[str]]:
    """What it might leave beside it: processes and temporary files."""
    children = psutil.Process(notebook.pid).children(recursive=True) + attached_to(notebook.pid)
    temporary = notebook.folder.parent / "temporary"
    return {
        "processes": sorted(child.name() for child in children if child.status() != psutil.STATUS_ZOMBIE),
        "zombies": sorted(child.name() for child in children if child.status() == psutil.STATUS_ZOMBIE),
        "files": sorted(path.name for path in temporary.rglob("*") if path.is_file()),
    }


def settled(notebook: Notebook, patience_s: float = 240) -> dict[str, Any]:
    """The state once no thread of ours is left: traces are built beside the prompt, py-spy waits."""
    end = time.monotonic() + patience_s
    while ours(now := state(notebook)) and time.monotonic() < end:
        time.sleep(0.5)
    return now


def ours(state_of: dict[str, Any]) -> list[str]:
    return [name for name in state_of["threads"] if name.startswith("notebook_prof")]


def interrupted(notebook: Notebook, options: str, after_s: float) -> str:
    """Run the cell and interrupt it so long after it began; gives its error, or that its answer was lost."""
    notebook.must(
        f"{INTERRUPTER}\n_thread.start_new_thread(_interrupt, ({after_s},)); del _interrupt, _thread"
    )
    try:
        _, error, _ = notebook.execute(f"%%profile p --quiet {options}\n{CELL}", patience_s=120)
    except TimeoutError:
        return "lost"
    return error


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_interrupts_leave_nothing_behind(notebook: Notebook) -> None:
    notebook.must(SETUP)
    notebook.must(CELL)
    bare = settled(notebook)
    assert not ours(bare)
    for _ in range(3):
        notebook.must(f"%%profile p --quiet\n{CELL}")
    cell_s = float(notebook.must("print(p.account()['dur'].sum() / 1e9)")[0])
    assert settled(notebook) == bare, "before any interrupt"
    beside = outside(notebook)
    moments = random.Random(11)
    errors = []
    for number in range(draws(40)):
        options = ("", "--steps 2:8")[number % 2]
        errors.append(interrupted(notebook, options, moments.uniform(0, cell_s)))
    assert errors.count("lost") <= 2, "the kernel's own, see INTERRUPTER"
    assert {error.splitlines()[0] for error in errors if error} <= {"KeyboardInterrupt", "lost"}, set(errors)
    assert sum(bool(error) for error in errors) >= 0.1 * len(errors), "moments lie within the cell"
    assert settled(notebook) == bare
    left = outside(notebook)
    assert len(left["processes"]) <= max(len(beside["processes"]), 1), (left, "at most what waits for a cell")
    assert left["zombies"] == []
    assert len(left["files"]) <= max(len(beside["files"]), 4), left
    run = notebook.must(f"%%profile p --quiet\n{CELL}\nprint(len(loader))")
    assert run[0].strip() == "20"
    printed, _ = notebook.must("print(len(p.steps()), p.account()['dur'].sum() > 0)")
    assert printed.strip() == "20 True"
    notebook.must("%unload_ext notebook_prof")
    assert eventually_nothing(notebook) == {"processes": [], "zombies": [], "files": []}


def eventually_nothing(notebook: Notebook, patience_s: float = 120) -> dict[str, list[str]]:
    """What is left outside after the extension was unloaded."""
    end = time.monotonic() + patience_s
    while any((left := outside(notebook)).values()) and time.monotonic() < end:
        time.sleep(0.2)
    return left
