"""A profiled cell is the cell: what it computes, shows, raises, and on which line."""

import re
import time
from typing import Any

import pytest

from tests.notebook.conftest import PATIENCE_S, Kernel
from tests.notebook.test_account import end_unix_ns

FACTS = (
    "{'steps': p.trace.steps['step'].tolist(), **{k: p.trace.metadata[k] for k in "
    "('steps_source', 'steps_seen', 'steps_found', 'steps_requested')}, "
    "'issues': [issue.code for issue in p.trace.report]}"
)


def test_binds_the_profile_and_shows_it_after_the_output(kernel: Kernel) -> None:
    reply = kernel.must("%%profile p\nprint('mine')\n6 * 7")
    assert (reply.stdout, reply.results) == ("mine\n", ["42"])
    assert reply.displays
    assert reply.order == ["stream", "execute_result", *["display_data"] * len(reply.displays)]
    assert kernel.value("[type(p).__name__, p is _profile, p is nbp.last]") == ["Profile", True, True]
    assert kernel.value("p.trace.metadata['cell_source'].splitlines()[0]") == "%%profile p"
    assert "print('mine')" in kernel.value("p.trace.metadata['cell_source']")


def test_what_a_cell_shows_is_shown_and_quiet_shows_nothing_else(kernel: Kernel) -> None:
    kernel.must("%%profile --quiet\n'the value'")
    assert kernel.must("_").results == ["'the value'"]
    reply = kernel.must("%%profile --quiet\nx = 1")
    assert (reply.displays, reply.results, reply.stdout) == ([], [], "")
    assert kernel.value("_profile is nbp.last") is True
    assert kernel.must("%%profile --quiet\n5;").results == []


def test_the_text_of_a_cell_stays_as_it_is(kernel: Kernel) -> None:
    body = 'text = """\n  two spaces\n%%profile q\n\\tend"""\nraw = r"\\d"'
    kernel.run(f"%%profile --quiet\n{body}")
    assert kernel.value("[text, raw]") == ["\n  two spaces\n%%profile q\n\tend", r"\d"]
    source = "from __future__ import annotations\ndef f(x: Unknown): pass\nf.__annotations__['x']"
    assert kernel.must(f"%%profile --quiet\n{source}").results == ["'Unknown'"]
    kernel.must("%%profile --quiet\ndef seen(x):\n    for i in range(x):\n        x += i\n    return x")
    source = kernel.value("__import__('inspect').getsource(seen)")
    assert source == "def seen(x):\n    for i in range(x):\n        x += i\n    return x\n"


def test_top_level_await(kernel: Kernel) -> None:
    reply = kernel.must(
        "%%profile p --quiet\nimport asyncio\nawait asyncio.sleep(0.01)\nasync def f(): return 7\nawait f()"
    )
    assert reply.results == ["7"]
    assert kernel.value("p.trace.metadata['source']") == "recording"


def test_no_names_of_ours_are_left(kernel: Kernel) -> None:
    kernel.must("names_before = set(globals())")
    kernel.must("%%profile --quiet --steps 1:2\nfor new_1 in range(3):\n    new_2 = set(globals())")
    new = kernel.value("sorted(set(globals()) - names_before)")
    assert [name for name in new if not name.startswith("_i")] == ["names_before", "new_1", "new_2"]


def test_an_exception_keeps_its_line_and_the_profile(kernel: Kernel) -> None:
    reply = kernel.run(
        "%%profile p --steps 1:9\ntotal = 0\nfor i in range(5):\n    total += 1 / (3 - i)\n    pass"
    )
    assert (reply.status, reply.error, reply.stderr) == ("error", "ZeroDivisionError", "")
    assert "line 4" in reply.traceback
    assert "----> 4     total += 1 / (3 - i)" in reply.traceback
    assert "1 # %%profile" in reply.traceback
    assert "b'%%profile" not in reply.traceback
    assert "notebook_prof" not in reply.traceback
    facts = kernel.value(FACTS)
    assert facts["steps"] == [1, 2, 3]
    assert "partial-step" in facts["issues"]
    assert kernel.value("p.trace.metadata['partial_steps']") == [3]
    assert reply.displays
    assert kernel.value("'__nbp__' in globals()") is False


def test_a_syntax_error_is_the_cells_own(kernel: Kernel) -> None:
    reply = kernel.run("%%profile p\nx = 1\ny = (")
    assert reply.status == "error"
    assert reply.error in ("SyntaxError", "_IncompleteInputError")  # from Python 3.13 on
    assert kernel.must("%%profile --quiet\n1").results == ["1"]


def test_interrupt_keeps_what_was_recorded(kernel: Kernel) -> None:
    reply = kernel.run(
        """
        %%profile p --steps 2:1000000
        import time
        for i in range(1000000):
            if i == 20: print('go', flush=True)
            time.sleep(0.005)
        """,
        interrupt_after=0.3,
    )
    assert (reply.status, reply.error, reply.stderr) == ("error", "KeyboardInterrupt", "")
    assert len(kernel.value("p.trace.steps['step'].tolist()")) > 9
    assert kernel.must("%%profile --quiet\n1").results == ["1"]


def test_interrupt_of_an_awaiting_cell(kernel: Kernel) -> None:
    # ipykernel cancels the cell when its loop next wakes
    wait = "for number in range(4000): await asyncio.sleep(0.05)"
    source = f"%%profile p --quiet\nimport asyncio\nprint('go', flush=True)\n{wait}"
    reply = kernel.run(source, interrupt_after=0.3)
    assert reply.status == "error"
    assert kernel.must("%%profile --quiet\n1").results == ["1"]


def test_a_second_recording_is_refused_with_a_sentence(kernel: Kernel) -> None:
    kernel.must("first = nbp.profile('python').start()")
    reply = kernel.run("%%profile q\nran = True")
    assert (reply.status, reply.error) == ("error", "UsageError")
    assert "already running in this process" in reply.message
    assert kernel.value("'ran' in globals()") is False
    kernel.must("first.stop()")
    assert kernel.value("first.trace.metadata['source']") == "recording"
    reply = kernel.run("%%profile q --quiet\nwith nbp.profile('python') as inner:\n    pass")
    assert reply.error == "AlreadyRecordingError"
    assert kernel.must("%%profile --quiet\n1").results == ["1"]


def test_wrong_lines_run_nothing(kernel: Kernel) -> None:
    reply = kernel.run("%%profile --stpes 3:14\nran_anyway = True")
    assert (reply.status, reply.error) == ("error", "UsageError")
    assert "did you mean '--steps'" in reply.message
    assert kernel.value("'ran_anyway' in globals()") is False
    for line, words in (
        ("--with pyton", "did you mean 'python'"),
        ("--engine alarm", "use 'thread'"),
        ("--loop 9", "loops start on lines: 2"),
        ("p q", "one NAME"),
    ):
        reply = kernel.run(f"%%profile {line}\nfor i in range(3): ran_anyway = True")
        assert (reply.status, reply.error) == ("error", "UsageError"), line
        assert words in reply.message
    assert kernel.value("'ran_anyway' in globals()") is False
    reply = kernel.run("%%profile a\n%%profile b\nran_twice = True")
    assert reply.status == "error"
    assert kernel.value("'ran_twice' in globals()") is False
    assert kernel.must("%%profile --quiet\n1").results == ["1"]


def test_magics_inside_over_and_under(kernel: Kernel) -> None:
    reply = kernel.must("%%profile p --quiet --steps 1:3\n%%time\nfor i in range(4):\n    pass")
    assert "Wall time" in reply.stdout
    assert kernel.value(FACTS)["steps"] == [1, 2]
    reply = kernel.must("%%time\n%%profile p --quiet --steps 1:3\nfor i in range(4):\n    pass")
    assert "Wall time" in reply.stdout
    assert kernel.value(FACTS)["steps"] == [1, 2]
    kernel.must("%%capture out\n%%profile p --steps 1:3\nfor i in range(4):\n    print(i)")
    assert kernel.value("[out.stdout, len(out.outputs) > 0]") == ["0\n1\n2\n3\n", True]
    reply = kernel.must(
        "%%profile p --quiet\n%timeit -n1 -r1 pass\n!echo shell\nget_ipython().run_cell('1+1');\n8"
    )
    assert "shell" in reply.stdout
    assert reply.results[-1] == "8"
    assert kernel.value("p.trace.metadata['source']") == "recording"


def test_a_nested_cell_does_not_end_the_recording(kernel: Kernel) -> None:
    kernel.must(
        "%%profile p --quiet --step-by mark\nget_ipython().run_cell('x = 1')\n"
        "for i in range(3):\n    nbp.step()"
    )
    assert kernel.value("p.trace.steps['step'].tolist()") == [0, 1, 2]


def test_a_cell_of_a_subshell_neither_ends_it_nor_counts(kernel: Kernel) -> None:
    subshell = kernel.subshell()
    kernel.must("import threading\ngate = threading.Event()\nglobals().pop('i', None);")
    source = "%%profile p --quiet --steps 2:9\nfor i in range(12):\n    if i == 5: gate.wait(200)"
    msg_id = kernel.rerun(source, "one", wait=False)
    aside = (
        "from time import sleep\nwhile 'i' not in globals(): sleep(0.01)\nfor j in range(50):\n    aside = j"
    )
    kernel.rerun(aside, "two", subshell=subshell)
    other = kernel.rerun("%%profile q\nran_aside = True", "three", subshell=subshell, wait=False)
    assert kernel.reply_to(other)["content"]["ename"] == "UsageError"
    kernel.rerun("gate.set()", "four", subshell=subshell)
    assert kernel.reply_to(msg_id)["content"]["status"] == "ok"
    facts = kernel.value(FACTS)
    assert (facts["steps"], facts["steps_seen"]) == ([2, 3, 4, 5, 6, 7, 8], 12)
    assert kernel.value("['ran_aside' in globals(), aside]") == [False, 49]


def test_torch_is_recorded_from_its_import_on(kernel: Kernel) -> None:
    pytest.importorskip("torch")
    kernel.must("import sys\nfinders = list(sys.meta_path)")
    kernel.must(
        "%%profile p --quiet\nimport torch\n"
        "for turn in range(4):\n    torch.ones(3, requires_grad=True).sum().backward()"
    )
    facts = kernel.value(FACTS)
    assert facts["steps"] == [0, 1, 2, 3]
    assert "torch-imported-late" not in facts["issues"]
    assert "torch" in kernel.value("p.trace.metadata['collectors']")
    assert kernel.value("int((p.trace.slices['name'] == 'aten::ones').sum())") == 4
    took = kernel.value(
        "[int(p.lines().query('file == \"cell\" and line == 2').total_ns.sum()),"
        " int(p.account().query('line == 2').dur.sum())]"
    )
    assert took[0] == took[1], "the start of PyTorch's profiler is no time of the line that imports torch"
    loader = "type(torch.__loader__).__name__, torch.__loader__ is torch.__spec__.loader"
    assert kernel.value(f"[finders == sys.meta_path, {loader}]") == [True, "SourceFileLoader", True]


@pytest.mark.parametrize(
    ("before", "line"),
    [
        ("", "ls -d ."),
        ("", "\n\npwd"),
        ("", "cd ."),
        ("", "    6 * 7"),
        ("", "  ls -d ."),
        ("", "alias_magic"),
        ("pwd = 5", "pwd"),
        ("", "pwd\n\n"),
        ("%autocall 1", "len 'abc'"),
        ("%autocall 2", "len 'abc'"),
        ("", ",print a b"),
        ("", "!echo a"),
        ("%automagic 0", "pwd"),
        ("from IPython.core.macro import Macro; twice = Macro('print(2)\\nprint(3)\\n')", "twice"),
    ],
)
def test_a_line_alone_is_the_magic_that_it_is_without(kernel: Kernel, before: str, line: str) -> None:
    after = "%autocall 0\n%automagic 1\nglobals().pop('pwd', None); globals().pop('twice', None);"
    replies = []
    for head in ("", "%%profile --quiet\n"):
        kernel.must(before or "pass")
        replies.append(kernel.run(head + line))
        kernel.must(after)
    bare, profiled = [
        (reply.status, reply.error, reply.message, reply.stdout, reply.results) for reply in replies
    ]
    assert profiled == bare


def test_leading_blank_lines_and_an_empty_cell(kernel: Kernel) -> None:
    kernel.must("%%profile p --quiet\n")
    reply = kernel.run("\n\n%%profile p --quiet\n1/0")
    assert reply.error == "ZeroDivisionError"
    assert kernel.value("p.trace.metadata['source']") == "recording"


def test_a_recording_ends_with_its_cell_and_not_with_the_display_of_its_error(kernel: Kernel) -> None:
    kernel.run("%%profile p --quiet\nx = 1\n1/0")
    cell, span, last = kernel.value(
        "[int(n) for n in (p.account()['dur'].sum(), p.trace.span.dur, p.trace.counters['ts'].max())]"
    )
    assert cell == span
    assert last <= span


def test_line_magic(kernel: Kernel) -> None:
    kernel.must("def work(n):\n    return sum(range(n))")
    reply = kernel.must("%profile --quiet work(100)")
    assert reply.results == ["4950"]
    assert kernel.value("_profile.trace.metadata['cell_source']") == "--quiet work(100)"
    assert kernel.must("y = %profile --quiet work(10)\ny").results == ["45"]
    kernel.must("%profile --quiet z = work(4)")
    assert kernel.value("z") == 6
    reply = kernel.run("%profile --quite work(1)")
    assert "did you mean '--quiet'" in reply.message
    assert kernel.run("%profile --quiet 1/0").error == "ZeroDivisionError"
    assert kernel.must("%profile --quiet 2").results == ["2"]


def test_help_and_completion_start_nothing(kernel: Kernel) -> None:
    assert "--stop-after" in kernel.must("%%profile --help\n").stdout
    answer = kernel.client.inspect("%%profile", 5, reply=True, timeout=PATIENCE_S)
    text = re.sub(r"\x1b\[[0-9;]*m", "", answer["content"]["data"]["text/plain"])
    assert "--steps A:B" in text
    kernel.client.is_complete("%%profile p\nfor i in range(3):")
    assert kernel.client.get_shell_msg(timeout=PATIENCE_S)["content"]["status"] == "incomplete"
    kernel.client.is_complete("%%profile p\nx = 1")
    assert kernel.client.get_shell_msg(timeout=PATIENCE_S)["content"]["status"] == "complete"
    assert kernel.must("%%profile --quiet\n1").results == ["1"]


def test_save(kernel: Kernel, tmp_path: object) -> None:
    kernel.must(f"%%profile p --quiet --save {tmp_path}/run.json\nx = 1")
    assert kernel.value(f"__import__('os').path.getsize('{tmp_path}/run.json')") > 100
    kernel.must(f"%%profile p --quiet --save {tmp_path}/no/such/run.json\nx = 2")
    assert "not-saved" in kernel.value(FACTS)["issues"]


def test_unload_removes_everything_and_load_brings_it_back(kernel: Kernel) -> None:
    kernel.must("%unload_ext notebook_prof")
    assert kernel.run("%%profile\n1").status == "error"
    left = kernel.value(
        "[str(x) for x in [*get_ipython().ast_transformers, *get_ipython().input_transformers_cleanup,"
        " *get_ipython().input_transformers_post,"
        " *get_ipython().events.callbacks['pre_run_cell'], *get_ipython().events.callbacks['post_run_cell']]"
        " if 'notebook_prof' in str(getattr(x, '__module__', x)) + str(x)]"
    )
    assert left == []
    kernel.must("%load_ext notebook_prof\n%load_ext notebook_prof")
    assert kernel.must("%%profile --quiet\n1").results == ["1"]


def test_the_debugger_that_pdb_on_starts_is_not_in_the_profile(kernel: Kernel) -> None:
    """The cell has ended where its traceback began, however long somebody looks around afterwards."""
    client, prompts, asked_ns = kernel.client, [], []

    def answer(message: dict[str, Any]) -> None:
        prompts.append(message["content"]["prompt"])
        asked_ns.append(time.time_ns())
        client.input("q")

    kernel.must("%pdb on")
    asked = {"allow_stdin": True, "stdin_hook": answer, "output_hook": lambda message: None}
    cell = "%%profile p --quiet\ndef f(a):\n    return 1 / a\nf(0)"
    reply = client.execute_interactive(cell, timeout=PATIENCE_S, **asked)
    assert reply["content"]["ename"] == "ZeroDivisionError"
    assert prompts == ["ipdb> "]
    assert end_unix_ns(kernel) <= asked_ns[0]
    kernel.must("%pdb off")
