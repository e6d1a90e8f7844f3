"""Cells under ``%profile_notebook`` do what they do without, and nothing of ours is left when it is off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.notebook.conftest import Kernel

CELLS = [
    "import asyncio, sys\nawait asyncio.sleep(0.001)\nasync def seven(): return 7\nawait seven()",
    "_",
    "x = 5;\nx;",
    "for i in range(3): print(i)\nelse: print('end', file=sys.stderr)\ni",
    "def f():\n    return 1 / 0\n\nf()",
    "x = = 1",
    "%%time -n 1\n1",
    "%%capture out\nprint('caught')\n2",
    "out.stdout",
    "text = '''\n  two\n'''\ntext",
    "from __future__ import annotations\ndef g(a: Unknown): pass\ng.__annotations__",
    "import inspect\nprint(inspect.getsource(f))",
    "get_ipython().run_cell('inner = 3\\ninner')\ninner",
    "@staticmethod\ndef h(): pass\nraise ValueError('no')",
    "globals().get('__builtins__') is not None",
]
STATE = """
def _files():
    import os
    def target(number):
        try: return os.readlink(f"/proc/self/fd/{number}")
        except OSError: return ""
    return sorted(filter(lambda path: path.startswith("/proc/"), map(target, os.listdir("/proc/self/fd"))))
def _state():
    import json, signal, threading
    shell = get_ipython()
    return json.dumps({
        "threads": sorted(t.name for t in threading.enumerate() if t.name.startswith("notebook_prof watch")),
        "events": {name: [str(call).split(" at ")[0] for call in calls]
                   for name, calls in shell.events.callbacks.items()},
        "transformers": [type(one).__name__ for one in shell.ast_transformers],
        "handler": str(signal.getsignal(signal.SIGINT)),
        "files": _files(),
    })
"""


@pytest.fixture
def watched(kernel: Kernel) -> Iterator[Kernel]:
    kernel.must(STATE)
    before = kernel.must("print(_state())").stdout
    kernel.must("%profile_notebook")
    yield kernel
    kernel.must("%profile_notebook off")
    assert kernel.must("print(_state())").stdout == before


def outcome(kernel: Kernel, source: str) -> dict[str, Any]:
    reply = kernel.run(source)
    order = [one for one in reply.order if one != "stream"]  # texts come in any number of pieces
    return {
        **vars(reply),
        "order": order,
        "traceback": reply.traceback.partition("Traceback")[2].replace(" ", "")[-60:],
    }


def test_cells_do_what_they_do_without(kernel: Kernel) -> None:
    without = [outcome(kernel, source) for source in CELLS]
    kernel.must("%profile_notebook")
    within = [outcome(kernel, source) for source in CELLS]
    assert kernel.value("[str(one) for one in nbp.notebook().trace.report]") == []
    kernel.must("%profile_notebook off")
    for source, before, after in zip(CELLS, without, within, strict=True):
        assert after == before, source
    table = kernel.value("nbp.notebook().cells()[['error', 'runs']].to_dict('records')")
    assert [row["error"] for row in table[: len(CELLS)]] == [one["error"] for one in without]


def test_an_interrupt_a_subshell_and_a_cell_in_full(watched: Kernel) -> None:
    subshell = watched.subshell()
    watched.rerun("import threading, time\ngate, began = threading.Event(), threading.Event()", "zero")
    waits = watched.rerun("began.set()\ngate.wait(200)", "one", wait=False)
    watched.rerun("began.wait(200)\ntime.sleep(0.3)", "two", subshell=subshell)
    watched.rerun("gate.set()", "three", subshell=subshell, wait=False)
    assert watched.reply_to(waits)["content"]["status"] == "ok"
    reply = watched.run("print('go', flush=True)\nwhile True: time.sleep(0.01)", interrupt_after=0.3)
    assert reply.error == "KeyboardInterrupt"
    watched.must("%%profile p --quiet\nsquare = [i * i for i in range(1000)]\nlen(square)")
    watched.rerun("gate = None", "zero")
    rows = watched.value(
        "nbp.notebook().cells(runs=True)[['cell_id', 'error', 'full', 'hottest', 'runs', 'wall_ns']]"
        ".to_dict('records')"
    )
    assert sorted(row["cell_id"] for row in rows[1:4]) == ["one", "three", "two"]  # two threads
    by_id = {row["cell_id"]: row for row in rows}
    assert by_id["one"]["hottest"].endswith(":2")
    assert by_id["one"]["wall_ns"] > by_id["two"]["wall_ns"]
    assert [row["error"] for row in rows[4:6]] == ["KeyboardInterrupt", ""]
    assert [row["full"] for row in rows[4:6]] == [False, True]
    assert (rows[6]["cell_id"], rows[6]["runs"]) == ("zero", 2)
    assert watched.value("[p.trace.metadata['source'], nbp.notebook().verdict.kind]") == [
        "recording",
        "notebook",
    ]
    account = watched.value(
        "(lambda nb: [int(nb.account()['dur'].sum()), nb.trace.span.dur, "
        "[one.holds(nb.trace) for one in nb.verdict.claims]])(nbp.notebook())"
    )
    assert account[0] == account[1]
    assert all(account[2])


def test_lines_of_a_long_cell_and_what_holds_memory(watched: Kernel) -> None:
    watched.must(
        "import numpy as np, time\ndef wait(until):\n    while time.time() < until:\n        sum(range(99))"
    )
    watched.must("big = np.ones((48, 1024, 1024))\nwait(time.time() + 2.5)")
    lines = watched.value("nbp.notebook().lines()['text'].tolist()[:3]")
    assert "sum(range(99))" in lines
    held = watched.value("nbp.notebook().memory.names().iloc[0][['name', 'made_in', 'bytes']].tolist()")
    assert (held[0], int(held[2])) == ("big", 48 << 23)
    runs = "nbp.notebook().trace.metadata['tables']['cell_runs'].set_index('number')['source']"
    made = watched.value(f"{runs}[lambda texts: texts.str.startswith('big =')].index.tolist()")
    assert watched.value(f"In[{made[0]}]").startswith("big =")
    assert [held[1]] == [f"In[{number}]" for number in made]
