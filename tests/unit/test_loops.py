"""The rewritten loop does what the written one does, and every iteration ticks."""

from __future__ import annotations

import ast
import asyncio
import builtins
import textwrap
import traceback
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from notebook_prof.jupyter.loops import counts_itself, find_loops, is_loader, loop_lines
from notebook_prof.jupyter.rewriting import rewrite
from notebook_prof.session import current
from notebook_prof.session.ticks import NAME, offer, withdraw

from ..new_process import run_python


class Ticks:
    """Stands for a running session, and for its loop's ticker."""

    title = "a test"

    def __init__(self, leave_after: int = 10**9) -> None:
        self.count = self.failed = 0
        self.leave_after = leave_after

        self.bodies: dict[int, Any] = {}

    def loop(self, token: int, line: int = -1) -> Ticks:
        return self

    fast = left = False
    note = now = staticmethod(lambda *mark: 0)
    items: Any = None

    def __iter__(self) -> Any:
        return self.items

    __aiter__ = __iter__

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, *_: object) -> None:
        self.count += 1
        self.failed += kind is not None

    def leave_loop(self) -> bool:
        return self.count >= self.leave_after


@pytest.fixture
def offered() -> Iterator[None]:
    """What a cell finds whose loops tick."""
    offer()
    yield
    withdraw()
    assert not hasattr(builtins, NAME)


@pytest.fixture
def ticks(offered: None) -> Iterator[Ticks]:
    session = Ticks()
    current.claim(session)
    yield session
    current.release(session)


def rewritten(source: str, *, line: int | None = None, **options: Any) -> ast.Module:
    tree = ast.parse(textwrap.dedent(source))
    loops = find_loops(tree, line, weak=True) or find_loops(tree, loop_lines(tree)[0])
    return rewrite(tree, loops, **options)


def executed(tree: ast.Module, **names: Any) -> dict[str, Any]:
    """The names of a cell after it has run."""
    names["asyncio"] = asyncio
    made = eval(compile(tree, "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    if asyncio.iscoroutine(made):
        asyncio.run(made)
    return names


def run(source: str, **options: Any) -> dict[str, Any]:
    names = executed(rewritten(source, **options))
    assert not [name for name in names if "nbp" in name]
    return names


def lines_of(error: BaseException) -> list[int | None]:
    """Lines of the cell in a traceback."""
    return [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<cell>"]


IDIOMS = {
    "plain": ("out = []\nfor i in range(5):\n    out.append(i)", 5),
    "epochs and batches": (
        "out = 0\nfor epoch in range(2):\n    for batch in range(3):\n        out += 1",
        6,
    ),
    "enumerate": ("out = 0\nfor i, batch in enumerate(iter('abc')):\n    out += i", 3),
    "while": ("out = 0\nwhile out < 4:\n    out += 1", 4),
    "while true": ("out = 0\nwhile True:\n    out += 1\n    if out == 3:\n        break", 3),
    "continue": ("out = []\nfor i in range(5):\n    if i % 2: continue\n    out.append(i)", 5),
    "break and else": ("out = ''\nfor i in range(5):\n    if i == 2: break\nelse:\n    out = 'else'", 3),
    "else": ("out = ''\nfor i in range(2):\n    pass\nelse:\n    out = 'else'", 2),
    "walrus": ("out = []\nit = iter([3, 2, 1, 0])\nwhile (x := next(it)):\n    out.append(x)", 3),
    "return": (
        "def train():\n    for i in loader:\n        if i == 3:\n            return i\n"
        "loader = range(9)\nout = train()",
        4,
    ),
    "generator": (
        "def train():\n    for batch in loader:\n        yield batch * 2\n"
        "loader = range(4)\nout = list(train())",
        4,
    ),
    "generator left early": (
        "def train():\n    for batch in loader:\n        yield batch\nloader = range(9)\n"
        "out = []\nfor x in train():\n    out.append(x)\n    break",
        1,
    ),
    "except and continue": (
        "out = []\nfor i in range(4):\n    try:\n        out.append(1 // (i - 1))\n"
        "    except ZeroDivisionError:\n        continue",
        4,
    ),
    "async for": (
        "async def load():\n    for i in (1, 2, 3):\n        await asyncio.sleep(0)\n        yield i\n"
        "out = 0\nasync for batch in load():\n    out += batch",
        3,
    ),
    "await": ("out = 0\nfor i in range(3):\n    await asyncio.sleep(0)\n    out += i", 3),
    "with": (
        "import contextlib\nout = 0\n"
        "for i in range(3):\n    with contextlib.suppress(KeyError):\n        out += 1",
        3,
    ),
    "class body": (
        "class Model:\n    total = 0\n    for i in range(3):\n        total += i\nout = Model.total",
        3,
    ),
    "iterating names": (
        "out = []\nfor name in sorted(globals()):\n    out.append(name)\nout = 'out' in out",
        None,
    ),
    "try and finally": (
        "out = 0\nfor i in range(2):\n    try:\n        raise KeyError\n    except KeyError:\n"
        "        out += 1\n"
        "    finally:\n        out += 10",
        2,
    ),
}


@pytest.mark.parametrize("idiom", IDIOMS)
def test_same_result_and_one_tick_an_iteration(idiom: str, ticks: Ticks) -> None:
    source, expected = IDIOMS[idiom]
    assert run(source)["out"] == executed(ast.parse(source))["out"]
    if expected is not None:
        assert ticks.count == expected


def test_nothing_happens_where_nothing_records(offered: None) -> None:
    assert run(IDIOMS["plain"][0])["out"] == [0, 1, 2, 3, 4]


def test_an_exception_keeps_its_line_and_ticks(ticks: Ticks) -> None:
    source = "total = 0\nfor i in range(5):\n    total += i\n    1 / (2 - i)\n    total += 1\n"
    with pytest.raises(ZeroDivisionError) as caught:
        run(source)
    frames = [(frame, line) for frame, line in traceback.walk_tb(caught.value.__traceback__)]
    # IPython shows f_lineno of the finished frame in some versions
    assert [(f.f_lineno, line) for f, line in frames if f.f_code.co_filename == "<cell>"] == [(4, 4)]
    assert (ticks.count, ticks.failed) == (3, 1)


def test_an_exception_of_the_iterable_is_not_a_step(ticks: Ticks) -> None:
    source = "def load():\n    yield 1\n    raise LookupError\nfor batch in load():\n    pass\n"
    with pytest.raises(LookupError) as caught:
        run(source, line=4)
    assert (lines_of(caught.value), ticks.count) == ([4, 3], 1)


def test_stop_after_leaves_all_loops_around(ticks: Ticks) -> None:
    ticks.leave_after = 4
    source = """
        epochs = batches = checks = 0
        for epoch in range(100):
            epochs += 1
            for batch in range(3):
                batches += 1
            checks += 1
        after = True
    """
    names = run(source, stop_after=True)
    assert (names["batches"], names["epochs"], names["checks"], names["after"]) == (4, 2, 1, True)


def test_stop_after_leaves_three_loops_and_not_the_callers(ticks: Ticks) -> None:
    ticks.leave_after = 2
    source = """
        calls = 0
        def train():
            for run in range(5):
                for epoch in range(5):
                    for batch in range(5):
                        backward()
                        loss.backward()
            return "done"
        for i in range(3):
            calls += train() == "done"
    """
    tree = ast.parse(textwrap.dedent(source))
    loops = find_loops(tree)
    assert loops
    names: dict[str, Any] = {"backward": int, "loss": SimpleNamespace(backward=int)}
    exec(compile(rewrite(tree, loops, stop_after=True), "<cell>", "exec"), names)
    assert (names["calls"], ticks.count) == (3, 2)


def test_a_rewritten_function_works_in_a_process_without_the_package(tmp_path: Any) -> None:
    source = "def train(n):\n    total = 0\n    for i in range(n):\n        total += i\n    return total\n"
    code = ast.unparse(rewritten(source, line=3, marks=False))
    script = f"{code}\nimport sys\nassert 'notebook_prof' not in sys.modules\nprint(train(5))"
    done = run_python(script, cwd=tmp_path)
    assert (done.stdout.strip(), done.stderr) == ("10", "")


class OneLoop(Ticks):
    """Begins one loop, as a session does while its body runs."""

    begun = 0

    def loop(self, token: int, line: int = -1) -> Ticks | None:  # type: ignore[override]
        self.begun += 1
        return self if self.begun == 1 else None


@pytest.mark.parametrize(
    "source",
    [
        # a function that calls itself: only the outermost loop ticks
        "def f(depth):\n    for batch in range(4):\n        if depth:\n            f(depth - 1)\nf(2)",
        # two generators that take turns
        "def f():\n    for batch in range(4):\n        yield batch\n"
        "a, b = f(), f()\nout = [next(g) for g in (a, b, a, b, b, a, a, b)] + list(a) + list(b)",
        # what leaves a loop before its end, and another function where its frame was
        "def f(n):\n    for batch in range(9):\n        if batch == n:\n            return\n"
        "f(3)\n[f(8) for _ in range(20)]",
    ],
    ids=["recursion", "generators", "frames"],
)
def test_each_frame_has_its_own_ticker(source: str, offered: None) -> None:
    session = OneLoop()
    current.claim(session)
    try:
        run(source)
    finally:
        current.release(session)
    assert session.count == 4


def nested_loops(depth: int) -> str:
    return "".join(" " * i + f"for i{i} in range(1):\n" for i in range(depth)) + " " * depth + "out = 1"


def compiles(source: str) -> bool:
    try:
        compile(source, "<cell>", "exec")
    except SyntaxError:
        return False
    return True


def test_too_deep_a_nesting_is_left_as_it_is() -> None:
    deepest = next(depth for depth in range(1, 200) if not compiles(nested_loops(depth + 1)))
    assert deepest >= 20, "more from Python 3.14 on"
    source = nested_loops(deepest)
    tree = ast.parse(source)
    loops = find_loops(tree, 1)
    assert loops
    compile(tree, "<cell>", "exec")
    deep = rewrite(tree, loops)
    compile(deep, "<cell>", "exec")
    assert deep is tree


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (
            "for i in range(9):\n  print(i)\nfor epoch in range(3):\n  for x, y in train_loader:\n"
            "    loss(x).backward(); optimizer.step()\n  for x, y in val_loader:\n    loss(x)",
            "for x, y in train_loader",
        ),
        (
            "for epoch in range(3):\n  for i in range(9):\n    scheduler.step()\n  opt.step()",
            "for epoch in range(3)",
        ),
        ("while not done:\n  loss.backward()", "while not done"),
        ("async for x in y():\n  await f(x).backward()", "async for x in y()"),
        ("def fit():\n  for b in dl:\n    opt.zero_grad()\nfor i in range(3): fit()", "for b in dl"),
        ("for s in range(5):\n  state, loss = train_step(state)", "for s in range(5)"),
        ("for s in range(5):\n  up, st = optimizer.update(g, st)\n", "for s in range(5)"),
        ("for i, b in enumerate(tqdm(DataLoader(x))):\n  f(b)", "for i, b in enumerate(tqdm(DataLoader(x)))"),
        ("it = DataLoader(x)\nfor b in it: f(b)", "for b in it"),
        ("while True:\n  for m in range(2): f(m).backward()\n  opt.step(); opt.zero_grad()", "while True"),
    ],
)
def test_the_training_loop_is_chosen(source: str, text: str) -> None:
    (loop,) = find_loops(ast.parse(source))
    assert (loop.text, loop.token > 0) == (text, True)


def test_without_a_sign_of_training_only_on_demand_and_weak() -> None:
    tree = ast.parse(
        "def f():\n  for x in y: pass\nfor i in range(3):\n  for j in range(3):\n    seen.update(j)"
    )
    assert find_loops(tree) == []
    (loop,) = find_loops(tree, weak=True)
    assert (loop.line, loop.token < 0) == (3, True)
    (chosen,) = find_loops(tree, 4)
    assert (chosen.text, chosen.token > 0) == ("for j in range(3)", True)
    assert find_loops(tree, 5) == []
    assert loop_lines(tree) == [2, 3, 4]


def test_marks_in_the_source_are_seen() -> None:
    import notebook_prof

    for source in (
        "import notebook_prof as n\nfor x in y: n.step()",
        "from notebook_prof import steps as s\nfor b in s(loader): pass",
        "import notebook_prof\nnotebook_prof.steps(loader)",
    ):
        assert counts_itself(ast.parse(source), {})
    assert counts_itself(ast.parse("nbp.step()"), {"nbp": notebook_prof})
    for source in ("opt.step()", "nbp.profile()", "step()", "nbp.last.steps()"):
        assert not counts_itself(ast.parse(source), {"nbp": notebook_prof, "opt": object(), "step": print})


def test_a_name_alone_is_no_sign_but_a_loader_is() -> None:
    class DataLoader:
        pass

    tree = ast.parse("for row in dataset:\n  total += row")
    assert find_loops(tree, namespace={"dataset": list(range(3))}) == []
    (loop,) = find_loops(tree, namespace={"dataset": DataLoader()})
    assert loop.text == "for row in dataset"
    assert is_loader(DataLoader())
    assert not is_loader(range(3))
    holder = SimpleNamespace(train=DataLoader())
    assert find_loops(ast.parse("for i, b in enumerate(dm.train): f(b)"), namespace={"dm": holder})


def test_a_step_of_something_else_is_no_sign() -> None:
    class Simulator:
        def step(self) -> None: ...

    class AnyOptimizer:
        def step(self) -> None: ...

    tree = ast.parse("for t in range(9):\n  world.step()")
    assert find_loops(tree, namespace={"world": Simulator()}) == []
    assert find_loops(tree, namespace={"world": AnyOptimizer()})
    tree = ast.parse("for x in starts: found.append(optimize.minimize(f, x))")
    assert find_loops(tree, namespace={"optimize": ModuleType("scipy.optimize")}) == []
    assert find_loops(tree, namespace={"optimize": AnyOptimizer()})
    assert find_loops(tree)


def test_all_training_loops_beside_one_another_tick() -> None:
    source = """
        for x in loader:
            loss(x).backward()
        for epoch in range(3):
            for x in loader:
                loss(x).backward(); opt.step()
            for x in loader:
                print(x)
        def fit():
            for x in loader:
                loss(x).backward()
    """
    loops = find_loops(ast.parse(textwrap.dedent(source)))
    assert [one.line for one in loops] == [2, 5, 10]
