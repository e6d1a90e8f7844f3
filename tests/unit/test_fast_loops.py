"""Loops whose iterations are too short go on as they were written, and marks cost what they may."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from notebook_prof.collectors import statements
from notebook_prof.jupyter.loops import find_loops
from notebook_prof.jupyter.rewriting import rewrite
from notebook_prof.session import current, ticks
from notebook_prof.session.ticks import LoopTicker

from .test_loops import executed, lines_of


class Session:
    """Gives real tickers that count for nobody."""

    title = "a test"

    def __init__(self) -> None:
        self.tickers: list[LoopTicker] = []
        self.bodies: dict[int, LoopTicker] = {}

    def loop(self, token: int, line: int = -1) -> LoopTicker:
        self.tickers.append(LoopTicker(None, None, line=line))
        return self.tickers[-1]

    def leave_loop(self) -> bool:
        return False


@pytest.fixture
def session() -> Iterator[Session]:
    made, marks = Session(), statements.Marks()
    current.claim(made)
    marks.begin()
    ticks.offer()
    yield made
    ticks.withdraw()
    marks.stop()
    current.release(made)


def run(source: str, *, rewritten: bool = True, **more: Any) -> dict[str, Any]:
    tree = ast.parse(textwrap.dedent(source))
    return executed(rewrite(tree, find_loops(tree, weak=True)) if rewritten else tree, **more)


PROGRAMS = {
    "for": "out = []\nfor i in range(2000):\n    out.append(i)",
    "for and else": "out = []\nfor i in range(2000):\n    out.append(i)\nelse:\n    out.append('else')",
    "break late": "out = 0\nfor i in range(999):\n    if i == 900: break\n    out += i\nelse: out = 0",
    "break early": "out = 0\nfor i in range(999):\n    if i == 255: break\n    out += i\nelse: out = 0",
    "break after it": "out = 0\nfor i in range(999):\n    out += i\n    if i == 256: break\nelse: out = 0",
    "continue": "out = 0\nfor i in range(2000):\n    if i % 2: continue\n    out += i",
    "while": "out = 0\nwhile out < 2000:\n    out += 1\nelse:\n    out += 0.5",
    "one iterator": "it = iter(range(2000))\nout = []\nfor i in it:\n    out.append((i, next(it)))",
    "shadowed names": "iter = 3\nout = 0\nfor iter in range(2000):\n    out += iter",
    "tuples": "out = []\nfor i, (a, *b) in enumerate(['abc', 'xy'] * 400):\n    out.append((i, a, b))",
    "nested": (
        "out = []\nfor i in range(3):\n    a = i\n    for batch in range(700):\n        out.append((a, i))\n"
        "    else:\n        out.append('else')\nelse:\n    out.append('end')"
    ),
    "many outer": "out = 0\nfor i in range(900):\n    out += i\n    for batch in ():\n        pass",
    "with, if and try around": (
        "import contextlib\nout = []\nwith contextlib.nullcontext():\n    if True:\n        try:\n"
        "            for i in range(900):\n                out.append(i)\n"
        "                if i == 800: 1 / 0\n"
        "        except ZeroDivisionError:\n            out.append('caught')\n        finally:\n"
        "            out.append('finally')\n    else:\n        pass"
    ),
    "functions in the body": "out = []\nfor i in range(600):\n    f = lambda: i\n    out.append(f())",
    "async for": (
        "async def load():\n    for i in range(900):\n        yield i\n"
        "out = 0\nasync for batch in load():\n    out += batch"
    ),
    "iterator without __iter__": (
        "class Batches:\n    def __init__(self): self.left = iter(range(600))\n"
        "    def __next__(self): return next(self.left)\n"
        "class Loader:\n    def __iter__(self): return Batches()\n"
        "out = 0\nfor i in Loader():\n    out += i"
    ),
    "iterator without __aiter__": (
        "class Batches:\n    def __init__(self): self.left = iter(range(600))\n"
        "    async def __anext__(self):\n        for i in self.left: return i\n"
        "        raise StopAsyncIteration\n"
        "class Loader:\n    def __aiter__(self): return Batches()\n"
        "out = 0\nasync for batch in Loader():\n    out += batch"
    ),
    "await": "out = 0\nfor i in range(600):\n    await asyncio.sleep(0)\n    out += i",
    "match": (
        "out = 0\nmatch 3:\n    case 3:\n        for i in range(600):\n            out += i\n"
        "    case _:\n        out = 1"
    ),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_result_is_that_of_the_written_loop(
    program: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticks, "SHORTEST_NS", 10**9)
    source = PROGRAMS[program]
    names, plain = run(source), run(source, rewritten=False)
    assert names["out"] == plain["out"]
    if "1 / 0" not in source:  # where a loop fails, the end of the cell takes its ticker away
        assert set(names) == set(plain)
    if program not in ("break early", "match", "many outer"):
        assert any(ticker.left for ticker in session.tickers)


def test_what_is_fast_becomes_one_row(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticks, "SHORTEST_NS", 10**9)
    marks = statements.running()
    assert marks is not None
    run("x = 1\nfor i in range(5000):\n    x += i\n    x -= 1\ny = 2")
    marks.stop()
    assert marks.table()[1].tolist() == [1, 2, 5, statements.AFTER]


def test_slow_iterations_are_marked_line_by_line(session: Session) -> None:
    import time

    marks = statements.running()
    assert marks is not None
    source = """
        for i in range(2):
            time.sleep(0.001)
            if i:
                x = i
                with memoryview(b'') as view:
                    pass
        x
    """
    run(source, time=time)
    marks.stop()
    want = [2, 3, 4, 2, 3, 4, 5, 6, 7, 6, 2, 8, statements.SHOWING]
    assert marks.table()[1].tolist() == want


def test_a_loop_that_awaits_is_marked_line_by_line(session: Session) -> None:
    marks = statements.running()
    assert marks is not None
    source = "for i in range(2):\n    await asyncio.sleep(0.001)\n    x = i\nfor i in range(2):\n    x = i"
    executed(rewrite(ast.parse(source), []))
    marks.stop()
    assert marks.table()[1].tolist() == [1, 2, 3, 1, 2, 3, 1, 4, statements.AFTER]
    assert not session.tickers, "it has no steps"


def test_an_iteration_that_skips_is_not_fast_once_it_works(session: Session) -> None:
    import time

    source = "for i in range(603):\n    if i < 600: continue\n    time.sleep(0.001)\n    out = i"
    run(source, time=time)
    assert not any(ticker.left for ticker in session.tickers)


def test_tracebacks_have_the_lines_that_were_written(session: Session) -> None:
    source = """
        total = 0
        for i in range(900):
            total += i
            if i == 700:
                total / (
                    i - 700
                )
    """
    with pytest.raises(ZeroDivisionError) as caught:
        run(source)
    assert lines_of(caught.value) == [6]
    with pytest.raises(TypeError, match="'int' object is not iterable") as failed:
        run("x = 1\nfor i in 5:\n    x = i")
    assert lines_of(failed.value) == [2]
