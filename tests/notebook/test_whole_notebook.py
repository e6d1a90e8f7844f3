"""Cells under ``%profile_notebook`` do what they do without, and nothing of ours is left when it is off."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client import BlockingKernelClient

from tests.notebook.conftest import PATIENCE_S, SETUP, Kernel, new_kernel

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
    ending = reply.traceback.partition("Traceback")[2].replace(" ", "")[-60:]
    return {**vars(reply), "order": order, "traceback": ending}


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
    assert by_id["one"]["wall_ns"] >= 300_000_000, "it waits for all of the sleep"
    assert [row["error"] for row in rows[4:6]] == ["KeyboardInterrupt", ""]
    assert [row["full"] for row in rows[4:6]] == [False, True]
    assert (rows[6]["cell_id"], rows[6]["runs"]) == ("zero", 2)
    found = watched.value("[p.trace.metadata['source'], nbp.notebook().verdict.kind]")
    assert found == ["recording", "notebook"]
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


SUMS = """(lambda nb: [int(nb.account()['dur'].sum()), nb.trace.span.dur,
    int(nb.cells(runs=True)['wall_ns'].sum()),
    int(nb.account().query("kind == 'code'")['dur'].sum())])(nbp.notebook())"""


def test_a_thread_that_goes_on_after_its_cell_and_a_cell_that_awaits(watched: Kernel) -> None:
    watched.must(
        """
        import asyncio, threading
        stop = threading.Event()
        def burn():
            while not stop.is_set():
                sum(range(1000))
        thread = threading.Thread(target=burn, name="burner")
        thread.start()
        """
    )
    watched.must("await asyncio.sleep(1.2)\nasync def two(): return 2\nawait asyncio.gather(two(), two())")
    watched.must("stop.set()\nthread.join()")
    awaited = watched.value(
        "nbp.notebook().cells().iloc[-3][['wall_ns', 'wait_ns', 'cpu_ns']].astype('int64').tolist()"
    )
    assert awaited[0] > 1_200_000_000
    assert awaited[1] > 0.5 * awaited[0], "the main thread slept"
    assert awaited[2] > 0
    assert "burner" in watched.value("nbp.notebook().cpu()['name'].tolist()")
    account, span, cells, code = watched.value(SUMS)
    assert (account, cells) == (span, code), "no two cells at once"


def test_two_front_ends_on_one_kernel(watched: Kernel) -> None:
    client = BlockingKernelClient()  # with an identity of its own
    client.load_connection_info(watched.manager.get_connection_info())
    client.start_channels()
    try:
        client.wait_for_ready(timeout=PATIENCE_S)
        other = Kernel(watched.manager, client)
        watched.rerun("value = 1", "mine")
        other.rerun("value = 2", "theirs")
        watched.rerun("value", "mine-too")
        other.rerun("value = 3", "theirs")
        rows = watched.value("nbp.notebook().cells()[['cell_id', 'runs', 'stale']].values.tolist()")
        assert [row[:2] for row in rows[-4:-1]] == [["mine", 1], ["theirs", 2], ["mine-too", 1]]
        assert rows[-2][2].startswith("value changed in In["), "by the other notebook"
    finally:
        client.stop_channels()


def test_badges_come_and_go_with_the_watch(kernel: Kernel) -> None:
    kernel.must("from ipywidgets.widgets import widget\nbefore = len(widget._instances)")
    kernel.rerun("%profile_notebook", "start")
    kernel.rerun("a = 1", "one")
    assert kernel.value("get_ipython().ast_transformers[-1]._badges._told")["one"]["source"] == "a = 1"
    kernel.must("%profile_notebook off")
    assert kernel.value("len(widget._instances) - before") == 0


def test_a_restart_begins_anew(tmp_path: Path) -> None:
    for kernel in new_kernel(tmp_path):
        kernel.must("%profile_notebook")
        kernel.must("a = 1")
        kernel.manager.restart_kernel(now=True)
        kernel.client.wait_for_ready(timeout=PATIENCE_S)
        kernel.must(SETUP)
        assert kernel.run("nbp.notebook()").error == "NotRecordedError"
        kernel.must("%profile_notebook")
        kernel.must("b = 2")
        assert kernel.value("nbp.notebook().cells()['name'].tolist()[0]").endswith("b = 2")
