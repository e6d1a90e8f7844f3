"""The text of a line is that of the code that ran, whatever happened to its file since."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.notebook.conftest import Kernel

SLEEPS = "import time\n\ndef work():\n    time.sleep(1.0)\n    return 1\n"
EDITED = "(the file was edited after it was imported)"
METHODS = """\
import functools, time
def kept(function):
    @functools.wraps(function)
    def inner(*given): return function(*given)
    return inner
class A:
    size = 1

    @staticmethod
    def rest(): time.sleep(1.0)
class B:
    # a comment that the rewritten text has not
    def rest(self):
        '''Rest.'''

        x = [
            1,
            2,
        ]
        time.sleep(1.0)
        return x
@kept
def last(): time.sleep(1.0)
"""


@pytest.fixture
def module(kernel: Kernel, tmp_path: Path) -> Iterator[Path]:
    """A new module on the kernel's path, by the name of the test's folder."""
    path = tmp_path / f"edited_{time.time_ns()}.py"
    kernel.must(f"import sys, importlib; sys.path.insert(0, {str(tmp_path)!r})")
    yield path
    kernel.must(f"sys.path.remove({str(tmp_path)!r}); sys.modules.pop({path.stem!r}, None)")


def write(path: Path, text: str) -> None:
    """Write a file, with a time of its own even on a coarse clock."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(text, encoding="utf-8")
    after = max(path.stat().st_mtime_ns, before + 2_000_000_000)
    os.utime(path, ns=(after, after))


def recorded(kernel: Kernel, cell: str, path: Path) -> dict[str, Any]:
    """The line of a file with the most time, and what else is said of the file."""
    kernel.must(f"%%profile p --quiet\n{cell}\nafter = 1")
    kernel.must(f"t = p.lines(); t = t[t['file'] == {str(path)!r}].sort_values('self_ns').tail(1)")
    facts: dict[str, Any] = kernel.value(
        "{'line': t[['line', 'text']].values.tolist()[0], 'codes': [i.code for i in p.trace.report], "
        f"'text': p.trace.metadata['source_files'].get({str(path)!r}), 'verdict': str(p.verdict), "
        f"'source': p.lines.source({str(path)!r}).set_index('line')['text'].astype(str).to_dict()}}"
    )
    return facts


def has(facts: dict[str, Any], path: Path, text: str) -> bool:
    """Whether the longest line has this text, in the verdict and in the file as it is kept."""
    line = facts["line"][0]
    kept = facts["source"][str(line)].strip() == text and facts["text"] == path.read_text(encoding="utf-8")
    return facts["line"][1] == text and f"`{text}`" in facts["verdict"] and kept


def test_a_reloaded_module_has_its_lines_of_now(kernel: Kernel, module: Path) -> None:
    write(module, SLEEPS)
    kernel.must(f"import {module.stem} as m")
    assert has(recorded(kernel, "m.work()", module), module, "time.sleep(1.0)")
    write(module, f"# one\n# two\nX = 3\n{SLEEPS}")
    kernel.must("importlib.reload(m)")
    facts = recorded(kernel, "m.work()", module)
    assert has(facts, module, "time.sleep(1.0)")
    assert (facts["line"][0], "source-edited" in facts["codes"]) == (7, False)


def test_autoreload_has_the_lines_of_now(kernel: Kernel, module: Path) -> None:
    kernel.must("%load_ext autoreload\n%autoreload 2")
    try:
        write(module, METHODS)
        kernel.must(f"import {module.stem} as m")
        assert recorded(kernel, "m.B().rest()", module)["line"] == [20, "time.sleep(1.0)"]
        edited = METHODS.replace("'''Rest.'''", "'''Rest.'''\n\n        y = 1")
        write(module, edited)
        facts = recorded(kernel, "m.B().rest()", module)
        assert has(facts, module, "time.sleep(1.0)")
        assert (facts["line"][0], "source-edited" in facts["codes"]) == (22, False)
        # a function further down is as it was, but at other lines
        facts = recorded(kernel, "m.last()", module)
        assert (facts["line"][0], "source-edited" in facts["codes"]) == (25, False)
        assert "time.sleep(1.0)" in facts["line"][1]
    finally:
        kernel.must("%autoreload 0")


def test_an_edit_that_was_not_loaded_takes_the_text_away(kernel: Kernel, module: Path) -> None:
    write(module, SLEEPS)
    kernel.must(f"import {module.stem} as m")
    write(module, "import time\n\ndef work():\n    x = sum(range(9))\n    time.sleep(1.0)\n    return x\n")
    facts = recorded(kernel, "m.work()", module)
    assert facts["line"] == [4, EDITED]
    assert facts["codes"].count("source-edited") == 1
    assert (facts["text"], "sum(range" in str(facts)) == (None, False)
    kernel.must("importlib.reload(m)")
    assert has(recorded(kernel, "m.work()", module), module, "time.sleep(1.0)")


def test_an_edit_elsewhere_in_the_file_moves_the_lines(kernel: Kernel, module: Path) -> None:
    write(module, SLEEPS)
    kernel.must(f"import {module.stem} as m")
    write(module, f"def new():\n    return 3\n\n{SLEEPS}")
    facts = recorded(kernel, "m.work()", module)
    assert has(facts, module, "time.sleep(1.0)")
    assert (facts["line"][0], "source-edited" in facts["codes"]) == (7, False)


def test_an_edit_while_the_cell_runs(kernel: Kernel, module: Path) -> None:
    write(module, SLEEPS)
    kernel.must(f"import {module.stem} as m, pathlib")
    new = SLEEPS.replace("    time", "    x = 1\n    time")
    facts = recorded(kernel, f"m.work()\n_ = pathlib.Path(m.__file__).write_text({new!r})", module)
    # where the interpreter tells of lines, the text of the beginning is known
    assert facts["line"] in ([4, EDITED], [4, "time.sleep(1.0)"])
    assert "source-edited" in facts["codes"]
    assert "x = 1" not in str(facts["source"])


def test_a_module_that_is_reloaded_in_the_cell(kernel: Kernel, module: Path) -> None:
    write(module, SLEEPS)
    kernel.must(f"import {module.stem} as m, importlib, time")
    write(module, SLEEPS.replace("    time", "    x = 1\n    time"))
    # without a look in between, a line may have begun before the reload
    facts = recorded(kernel, "importlib.reload(m)\ntime.sleep(0.3)\nm.work()", module)
    assert has(facts, module, "time.sleep(1.0)")
    assert (facts["line"][0], facts["codes"].count("source-edited")) == (5, 0), "only the new code ran"
    # the old code's line 5 is another line of the new text
    write(module, SLEEPS.replace("    time.sleep(1.0)", "    x = 1\n    y = 2\n    time.sleep(0.02)"))
    facts = recorded(kernel, "m.work()\nimportlib.reload(m)\nm.work()", module)
    assert facts["line"] == [5, EDITED]
    assert facts["codes"].count("source-edited") == 1
    assert "`y = 2`" not in facts["verdict"]


SEPARATORS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"


def test_only_ends_of_lines_end_lines(kernel: Kernel, module: Path) -> None:
    write(module, f"A = '''{SEPARATORS}'''  # {SEPARATORS}\n\x0c\n{SLEEPS}")
    kernel.must(f"import {module.stem} as m")
    facts = recorded(kernel, "m.work()", module)
    assert facts["line"] == [6, "time.sleep(1.0)"]
    assert facts["source"]["6"].strip() == "time.sleep(1.0)"
    kernel.must(f"import time\nodd = '{SEPARATORS}'\ndef pause():\n    odd = 1\n    time.sleep(1.0)")
    kernel.must(f"%%profile p --quiet\nodd = '{SEPARATORS}'\npause()\nodd = 2")
    lines = kernel.value("p.lines()[['file', 'line', 'text']].values.tolist()")
    assert ["cell", 3, "pause()"] in lines
    assert [text for file, line, text in lines if file.startswith("In[") and line == 5] == ["time.sleep(1.0)"]
    assert kernel.value("p.lines.source()['text'].tolist()")[2:] == ["pause()", "odd = 2"]
    assert "pause()" in kernel.value("p.account()['text'].tolist()")
