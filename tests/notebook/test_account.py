"""The account of a cell in a real kernel: what belongs to which statement, and where the cell ends."""

import itertools
from typing import Any

import pytest

from tests.notebook.conftest import Kernel

FLAG = (
    "__import__('notebook_prof.views.page_queries', fromlist=['*'])"
    ".PageQueries(p.trace, p.selection).answer({'t': 'meta'})[0]['raised']"
)
"""What the page marks with a flag."""
TABLE = "p.trace.metadata['tables']['account'].to_dict('records')"


def account(kernel: Kernel) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = kernel.value(TABLE)
    assert all(a["ts"] + a["dur"] == b["ts"] for a, b in itertools.pairwise(rows))
    return rows


def spent_s(rows: list[dict[str, Any]], kind: str, line: int) -> float:
    return sum(row["dur"] for row in rows if (row["kind"], row["line"]) == (kind, line)) / 1e9


def end_unix_ns(kernel: Kernel) -> int:
    """When the cell ended, by the clock of `time.time_ns`."""
    last = account(kernel)[-1]
    return int(kernel.value("p.trace.metadata['start_unix_ns']")) + last["ts"] + last["dur"]


def test_statements_loops_and_the_display(kernel: Kernel) -> None:
    kernel.must(
        """
        import time
        class Slow:
            def __repr__(self):
                time.sleep(1)
                return 'slow'
        """
    )
    reply = kernel.must(
        "%%profile p --quiet --steps 2:5\ntime.sleep(0.1)\nfor i in range(9):\n    time.sleep(0.02)\nSlow()"
    )
    assert reply.results == ["slow"]
    rows = account(kernel)
    assert spent_s(rows, "code", 2) >= 0.1
    assert spent_s(rows, "steps", 3) >= 0.06
    assert spent_s(rows, "outside-window", 3) >= 0.12
    assert sum(row["steps"] for row in rows) == 9
    assert sum(row["steps"] for row in rows if row["kind"] == "steps") == 3
    shown = [row for row in rows if row["text"] == "display of the result"]
    assert shown[-1]["dur"] >= 1e9, "what it sleeps is in no other row"
    assert shown[-1]["kind"] == "display"
    kernel.must("%%profile p --quiet\nSlow()")
    said = kernel.value("[str(p.verdict), p.lines()['file'].tolist()]")
    assert said[0].startswith("Display of the result takes "), said
    assert any(file.startswith("In[") for file in said[1]), "the line of Slow.__repr__"
    assert {row["text"] for row in rows if row["line"] == 2} == {"time.sleep(0.1)"}


def test_a_cell_that_shows_nothing_names_no_display_of_a_result(kernel: Kernel) -> None:
    kernel.must("ip = get_ipython(); late = lambda: time.sleep(0.2)\nimport time")
    for last, text in (("x = 1", "work after the last line"), ("x", "display of the result")):
        kernel.must("ip.events.register('post_execute', late)")
        kernel.must(f"%%profile p --quiet\nx = 2\n{last}")
        kernel.must("ip.events.unregister('post_execute', late)")
        (shown,) = (row for row in account(kernel) if row["kind"] == "display")
        assert shown["text"] == text
        assert kernel.value("str(p.verdict)").startswith(f"{text.capitalize()} takes ")


def test_magics_may_be_stacked_in_any_order(kernel: Kernel) -> None:
    """Lines have the numbers of the cell and its text, whatever else runs the body."""
    kernel.must("import time")
    body = "for i in range(3):\n    time.sleep(0.3)\ny = [v for v in range(9)]"
    wrong = {}
    for head in (
        "%%profile p --quiet\n%%time",
        "%%time\n%%profile p --quiet",
        "%%profile p --quiet\n%%capture",
        "%%profile p --quiet\n%%timeit -n1 -r1",
        "%%profile p --quiet\n%%time\n%%capture",
    ):
        kernel.must(f"{head}\n{body}")
        seen = kernel.value("p.lines()[['file', 'line', 'text', 'total_ns']].to_dict('records')")
        sleeping = head.count("\n") + 3
        at = [one for one in seen if (one["file"], one["line"]) == ("cell", sleeping)]
        # on a busy machine samples may begin in the second half of 0.9 s
        if [one["text"] for one in at] != ["time.sleep(0.3)"] or at[0]["total_ns"] < 0.05e9:
            wrong[head] = seen
        places = kernel.value("p.trace.slices['line'].cat.categories.tolist()")
        if not all(place.startswith(("cell:", "In[")) for place in places):
            wrong[head] = places
    assert not wrong


def test_code_below_another_magic_has_its_source(kernel: Kernel) -> None:
    """Line numbers are those of the cell, also in tracebacks."""
    kernel.must("%%profile p --quiet\n%%capture\n\ndef halved():\n    return 1 / 0")
    assert kernel.value("__import__('inspect').getsource(halved)") == "def halved():\n    return 1 / 0\n"
    for body in ("import time\n1 / 0\ntime.sleep(1)", "\n\nimport time\n1 / 0\ntime.sleep(1)"):
        reply = kernel.run(f"%%profile p --quiet\n%%capture\n{body}")
        assert f"----> {body.count(chr(10)) + 2} 1 / 0" in reply.traceback
    kernel.must("%%profile p --quiet\n%%time\n\n\nimport time\ntime.sleep(0.5)")
    lines = kernel.value("p.lines()[['line', 'text']].values.tolist()")
    assert [6, "time.sleep(0.5)"] in lines


def test_an_inner_cell_that_fails_gives_the_outer_one_its_error(kernel: Kernel) -> None:
    reply = kernel.run("%%profile p --quiet\n%%profile q --quiet\nx = 1")
    assert (reply.status, reply.error) == ("error", "UsageError")
    assert kernel.value("p.trace.metadata['raised']['error']") == "UsageError"


def test_threads_of_a_cell_begin_in_it(kernel: Kernel) -> None:
    """Times in sentences are therefore measured from the beginning of the cell."""
    kernel.must("import threading, time")
    for _ in range(3):
        kernel.must(
            "%%profile p --quiet\nthreading.Thread(target=lambda: time.sleep(0.1)).start(); b = bytes(9)"
        )
        assert kernel.value("int(p.account()['ts'].min())") == 0


def test_a_failing_cell_ends_at_its_exception(kernel: Kernel) -> None:
    kernel.must(
        """
        import time
        told = []
        class Told(Exception):
            def __str__(self):
                told.append(time.time_ns())
                return 'told'
        """
    )
    reply = kernel.run("%%profile p --quiet\ntime.sleep(0.1)\nraise Told")
    assert (reply.error, reply.stderr) == ("Told", "")
    rows = account(kernel)
    assert [row["line"] for row in rows] == [2, 3]
    said = kernel.value("[str(p.verdict), [claim.holds(p.trace) for claim in p.verdict.claims]]")
    assert "; it ended with Told in line 3" in said[0]
    assert all(said[1])
    assert end_unix_ns(kernel) <= kernel.value("told[0]"), "showing the traceback is not the cell's"


def test_a_flag_names_the_line_that_failed_in_its_statement(kernel: Kernel) -> None:
    body = "table = {'a': 1}\ndef get(key):\n    return table[key]\nfor key in 'ab':\n    get(key)"
    kernel.run(f"%%profile p --quiet\nimport time; time.sleep(0.02)\n{body}")
    flag = kernel.value(FLAG)
    assert (flag["error"], flag["line"], flag["at"]) == ("KeyError", 6, 5)
    assert "; it ended with KeyError in the statement of line 6" in kernel.value("str(p.verdict)")


def test_a_cell_ends_at_an_exception_that_cannot_be_shown(kernel: Kernel) -> None:
    kernel.must(
        """
        class Mute(Exception):
            def __str__(self):
                raise ValueError('no words')
        """
    )
    kernel.run("%%profile p --quiet\nimport time\ntime.sleep(0.1)\nraise Mute")
    assert [row["line"] for row in account(kernel)] == [2, 3, 4]
    assert "; it ended with Mute in line 4" in kernel.value("str(p.verdict)")
    assert "end-not-told" not in kernel.value("[issue.code for issue in p.trace.report]")


def test_statements_within_others_have_their_own_time(kernel: Kernel) -> None:
    kernel.must(
        "%%profile p --quiet\nimport asyncio\ntry:\n    await asyncio.wait_for(asyncio.Event().wait(), 0.2)\n"
        "except asyncio.TimeoutError:\n    pass"
    )
    assert [row["line"] for row in account(kernel) if row["kind"] == "code"] == [2, 3, 4, 6]
    assert kernel.value("str(p.verdict)").startswith("Line 4 takes "), "not the `try` around it"


def test_an_interrupted_cell_ends_there_and_shows_no_frame_of_ours(kernel: Kernel) -> None:
    body = "import time\nprint('go', flush=True)\nwhile True:\n    x = 1\n    y = 2"
    cell = f"%%profile p --quiet --steps 1:\n{body}"
    reply = kernel.run(cell, interrupt_after=0.4)
    assert (reply.error, reply.stderr) == ("KeyboardInterrupt", "")
    assert "notebook_prof" not in reply.traceback
    rows = account(kernel)
    assert rows[-1]["line"] in (4, -1)
    flag = kernel.value(FLAG)
    assert flag["error"] == "KeyboardInterrupt"
    assert flag["line"] in (4, 5, 6)
    assert 0 < flag["ts"] <= rows[-1]["ts"] + rows[-1]["dur"]
    assert "steps-too-short" in kernel.value("[issue.code for issue in p.trace.report]")
    assert kernel.value("[name for name in globals() if name.startswith('__nbp')]") == []


@pytest.mark.parametrize("way", ["all", "last", "last_expr", "none", "last_expr_or_assign"])
def test_every_way_of_showing_results_shows_the_same(way: str, kernel: Kernel) -> None:
    kernel.must(f"get_ipython().ast_node_interactivity = {way!r}")
    try:
        for cell in ("1 + 1\n2 + 2", "x = 5", "for i in range(2):\n    i", "'text';", "x = 1\nx"):
            plain = kernel.must(cell)
            profiled = kernel.must(f"%%profile p --quiet --steps 0:9\n{cell}")
            assert profiled.results == plain.results, (way, cell)
            assert profiled.displays == plain.displays
    finally:
        kernel.must("get_ipython().ast_node_interactivity = 'last_expr'")


def test_many_statements_cost_little_and_underscore_stays(kernel: Kernel) -> None:
    # each longer than a tick of a coarse clock
    cell = "\n".join(f"x{i} = {i} + sum([0] * 999)" for i in range(100)) + "\nx7"
    assert kernel.must(f"%%profile p --quiet\n{cell}").results == ["7"]
    assert kernel.must("_").results == ["7"]
    rows = account(kernel)
    assert [row["line"] for row in rows if row["kind"] == "code"] == list(range(2, 103))
    lines = kernel.value("p.trace.metadata['tables']['statements']['line'].tolist()")
    assert lines == list(range(2, 103))


def test_training_in_another_thread_is_reported(torch_kernel: Kernel) -> None:
    torch_kernel.must(
        """
        import threading
        def train():
            for i in range(6):
                optimizer.zero_grad(); model(torch.ones(4, 8)).sum().backward(); optimizer.step()
        """
    )
    torch_kernel.must("%%profile p --quiet\nt = threading.Thread(target=train)\nt.start()\nt.join()")
    rows = account(torch_kernel)
    assert sum(row["steps"] for row in rows) == 6
    assert {row["line"] for row in rows if row["kind"] == "steps"} <= {3, 4}
    assert "steps-in-another-thread" in torch_kernel.value("[issue.code for issue in p.trace.report]")
