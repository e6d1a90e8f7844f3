"""``%%profile_ab`` in a real kernel: turns, states, errors, and what stays of them."""

import re
import textwrap

import pytest

from notebook_prof.errors import OptionError
from notebook_prof.jupyter.ab_magic import parse
from tests.notebook.conftest import Kernel

SETUP = """
import random, time, torch
order = []
layer = torch.nn.Linear(8, 8); optimizer = torch.optim.SGD(layer.parameters(), 0.1, momentum=0.9)
"""
STEP = """
for step in range(12):
    loss = layer(torch.rand(4, 8)).square().sum()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    {more}
order.append({name!r}); print({name!r})
loss.item()
"""
A = STEP.format(more="pass", name="a")
B = STEP.format(more="time.sleep(0.02)", name="b")


def test_two_ways_run_in_turns_and_are_compared(torch_kernel: Kernel) -> None:
    torch_kernel.must(SETUP)
    before = torch_kernel.value("float(layer.weight.detach().sum())")
    reply = torch_kernel.must(f"%%profile_ab c --restore layer,optimizer\n{A}\n%% b\n{B}")
    assert torch_kernel.value("order") == list("abbaabba")
    assert reply.stdout.splitlines()[:2] == ["a", "b"], "of later rounds nothing is shown"
    assert "The last values are equal." in reply.stdout, "same state, same random numbers"
    assert "change from run to run" not in reply.stdout
    assert torch_kernel.value("c.runs") == [4, 4]
    html = [shown["text/html"] for shown in reply.displays if "text/html" in shown]
    assert len(html) == 1
    assert "nbp-compare" in html[0]
    assert torch_kernel.value("float(layer.weight.detach().sum())") != before


@pytest.mark.clock("eight runs of 12 short steps: a change of 20 ms has to stand out of what else runs")
def test_a_sleep_in_one_way_is_the_difference(torch_kernel: Kernel) -> None:
    torch_kernel.must(SETUP)
    torch_kernel.must(f"%%profile_ab c --restore layer,optimizer\n{A}\n%% b\n{B}")
    assert torch_kernel.value("bool(c.significant and c.change > 1)")
    assert torch_kernel.value("c.verdict").startswith("b is ")
    sleeps = torch_kernel.value("c.lines.iloc[0][['text', 'change']].tolist()")
    assert sleeps[0] == "time.sleep(0.02)"
    assert torch_kernel.value("float(c.lines['delta_ns'].iloc[0])") == pytest.approx(20e6, rel=0.3)


def test_what_is_not_restored_is_named_and_until_ends_early(torch_kernel: Kernel) -> None:
    torch_kernel.must(SETUP)
    reply = torch_kernel.must(f"%%profile_ab --until 99% --rounds 9\n{A}\n%% b\n{A}")
    assert torch_kernel.value("len(order)") in range(6, 19, 2)
    assert "These change from run to run; --restore layer,optimizer" in reply.stdout
    assert torch_kernel.value("min(_comparison.runs)") >= 3
    assert "last values" in reply.stdout


def test_an_error_is_shown_once_and_what_was_recorded_is_compared(torch_kernel: Kernel) -> None:
    torch_kernel.must(SETUP)
    fails = "if len(order) > 2: raise ValueError('mine')\n"
    reply = torch_kernel.run(f"%%profile_ab c --rounds 5\n{A}\n%% b\n{fails}{B}")
    assert reply.status == "error"
    assert torch_kernel.value("order") == ["a", "b", "b", "a", "a"] or torch_kernel.value("len(order)") >= 3
    assert torch_kernel.value("min(c.runs)") >= 1
    assert reply.order.index("error") < reply.order.index("display_data")
    assert (reply.error, reply.traceback) == ("ValueError", ""), "the cell's own error was shown before"
    assert torch_kernel.must("%%profile p --quiet\nx = 1").status == "ok", "nothing records any more"


@pytest.mark.parametrize("after", [0.5, 1.6])
def test_an_interrupt_keeps_what_was_recorded(torch_kernel: Kernel, after: float) -> None:
    torch_kernel.must(SETUP + "c = None")
    slow = "print('now', flush=True)\nfor step in range(10):\n    time.sleep(0.03)\norder.append(0)\n"
    reply = torch_kernel.run(f"%%profile_ab c --rounds 9\n{slow}\n%% b\n{slow}", interrupt_after=after)
    assert reply.status == "error"
    whole = torch_kernel.value("len(order)")
    assert whole < 18
    kept = torch_kernel.value("0 if c is None else sum(c.runs)")
    assert kept == whole // 2 * 2 or (kept, whole) == (whole // 2 * 2 - 2, whole), "pairs of whole runs"
    assert torch_kernel.must("%%profile p --quiet\nx = 1").status == "ok", "nothing records any more"


@pytest.mark.parametrize("when", ["enter", "exit"])
def test_an_interrupt_between_two_runs_leaves_no_output_captured(torch_kernel: Kernel, when: str) -> None:
    torch_kernel.must(SETUP)
    torch_kernel.must(
        f"""
        import signal
        from notebook_prof.jupyter import ab_magic
        whole = ab_magic.capture_output
        class Interrupted(whole):
            def __{when}__(self, *error):
                if "{when}" == "exit":
                    signal.raise_signal(signal.SIGINT)
                whole.__{when}__(self, *error)
                signal.raise_signal(signal.SIGINT)
        ab_magic.capture_output = Interrupted
        """
    )
    try:
        reply = torch_kernel.run(f"%%profile_ab --rounds 3\n{A}\n%% b\n{B}")
    finally:
        torch_kernel.run("ab_magic.capture_output = whole")
    assert (reply.status, "interrupted" in reply.stderr) == ("error", True)
    seen = torch_kernel.run("print('out')\nimport sys; sys.stderr.write('err')\ndisplay('shown')\n7")
    assert (seen.stdout, seen.stderr, seen.results) == ("out\n", "err", ["7"])
    assert len(seen.displays) == 1


@pytest.mark.parametrize(
    "lost",
    [
        "gone = weakref.ref(kept, lambda _: signal.raise_signal(signal.SIGINT)); del kept",
        "try: signal.raise_signal(signal.SIGINT)\nexcept KeyboardInterrupt: pass",
    ],
    ids=["dropped by Python", "caught by the cell"],
)
def test_an_interrupt_that_did_not_come_out_of_the_run_ends_the_rounds(
    torch_kernel: Kernel, lost: str
) -> None:
    torch_kernel.must(SETUP + "import signal, sys, weakref\nc = None\nsys.unraisablehook = lambda _: None")
    fourth = "kept = {1}\nif len(order) == 3:\n" + textwrap.indent(lost, "    ") + "\n"
    reply = torch_kernel.run(f"%%profile_ab c --rounds 9\n{fourth}{A}\n%% b\n{fourth}{B}")
    torch_kernel.must("sys.unraisablehook = sys.__unraisablehook__")
    assert (reply.status, torch_kernel.value("order")) == ("error", list("abba"))
    assert torch_kernel.value("sum(c.runs)") == 2, "the run that it met is not compared"
    assert "interrupted" in reply.stderr


def test_the_magic_says_what_it_cannot_do(torch_kernel: Kernel) -> None:
    torch_kernel.must(SETUP)
    for line, cell, message in (
        ("", "x = 1", "two bodies are needed, divided by one line '%% b'; there are 0 such lines"),
        ("--rounds 0", "1\n%% b\n2", "--rounds must be at least 1"),
        ("--restore nothing", "1\n%% b\n2", "'nothing' cannot be restored: there is no such variable"),
        ("--restore order", "1\n%% b\n2", "'order' cannot be restored: a list has no state_dict"),
        ("--stepz 3", "1\n%% b\n2", "%%profile_ab: no option --stepz"),
        ("--until 2000%", "1\n%% b\n2", "until"),
    ):
        reply = torch_kernel.run(f"%%profile_ab {line}\n{cell}")
        assert reply.status == "error", line
        assert message in reply.message + reply.stderr, (line, reply.message, reply.stderr)
    assert "--restore model,optimizer" in torch_kernel.must("%%profile_ab --help\n1").stdout
    assert torch_kernel.value("order") == []


def test_the_line_is_divided() -> None:
    turns = parse("c --until 2% --steps 3:9 --with torch", "a = 1\n%% b  \nb = 2\n")
    assert (turns.name, turns.rounds, turns.until) == ("c", 12, 0.02)
    assert turns.line == "--steps 3:9 --with torch --quiet --no-history"
    with pytest.raises(OptionError, match=re.escape("2 such lines")):
        parse("", "1\n%% b\n2\n%% b\n3")
