"""Training loops as people write them: which steps are found, by whom, and what is recorded of them."""

import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.notebook.conftest import Kernel, new_kernel
from tests.notebook.test_cells import FACTS

BODY = "optimizer.zero_grad(); model(x).sum().backward(); optimizer.step()"


def steps_of(kernel: Kernel, cell: str, magic: str = "--steps 3:6") -> dict[str, Any]:
    source = textwrap.dedent(cell).replace("BODY", BODY)
    kernel.must(f"%%profile p --quiet {magic}\n{source}")
    facts: dict[str, Any] = kernel.value(FACTS)
    return facts


def test_the_first_training_loop(torch_kernel: Kernel) -> None:
    reply = torch_kernel.must(f"%%profile p --steps 3:6\nfor x in loader:\n    {BODY}\nx.shape")
    assert (reply.stdout, reply.results) == ("", ["torch.Size([4, 8])"])
    assert reply.displays
    facts = torch_kernel.value(FACTS)
    assert facts == facts | {
        "steps": [3, 4, 5],
        "steps_source": "loop",
        "steps_seen": 10,
        "steps_found": "the loop in line 2: for x in loader",
        "steps_requested": "3:6",
    }
    names = torch_kernel.value("sorted(set(p.trace.slices['name'].astype(str)))")
    assert "aten::addmm" in names
    per_step = torch_kernel.value(
        "p.trace.slices[p.trace.slices['name'] == 'aten::addmm'].groupby('step').size().tolist()"
    )
    assert per_step == [2, 2, 2]
    assert {"torch", "system"} <= set(torch_kernel.value("p.trace.metadata['collectors']"))


IDIOMS = {  # the cell, the line of the loop that is found, and how often it runs
    "epochs, batches and validation": (
        "for epoch in range(2):\n  for x in loader:\n    BODY\n  for x in loader:\n    model(x)", 3, 20
    ),
    "enumerate of a progress bar": (
        "def tqdm(it):\n  for one in it:\n    yield one\nfor i, x in enumerate(tqdm(loader)):\n  BODY", 5, 10
    ),
    "while": ("i = 0\nwhile i < 8:\n  x = torch.ones(1, 8); i += 1\n  BODY", 3, 8),
    "continue and break": (
        "for i, x in enumerate(loader):\n  if i == 1: continue\n  if i == 8: break\n  BODY", 2, 9
    ),
    "async for": (
        "async def stream():\n  for x in loader:\n    yield x\nasync for x in stream():\n  BODY", 5, 10
    ),
    "function in the cell": ("def fit():\n  for x in loader:\n    BODY\nfit()", 3, 10),
    "generator function": (
        "def fit():\n  for x in loader:\n    BODY\n    yield 1\nfor one in fit(): pass", 3, 10
    ),
    "two optimizers": (
        "other = torch.optim.Adam(model.parameters())\nfor x in loader:\n  BODY\n  other.step()", 3, 10
    ),
    "marks": ("for x in loader:\n  BODY\n  nbp.step()", None, 10),
    "marked iterable": ("for x in nbp.steps(loader):\n  BODY", None, 10),
}  # fmt: skip


@pytest.mark.parametrize("idiom", IDIOMS)
def test_idioms(idiom: str, torch_kernel: Kernel) -> None:
    cell, line, count = IDIOMS[idiom]
    found = "marked by nbp.step() or nbp.steps(...)"
    if line:
        found = f"the loop in line {line}: {cell.splitlines()[line - 2].strip(' :')}"
    facts = steps_of(torch_kernel, cell)
    assert (facts["steps"], facts["steps_found"], facts["steps_seen"]) == ([3, 4, 5], found, count)


@pytest.fixture(scope="module")
def library(torch_kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Kernel:
    """The kernel, able to import a module that trains by itself."""
    folder = tmp_path_factory.mktemp("library")
    (folder / "mylib.py").write_text(
        textwrap.dedent(
            """
            import torch

            def fit(model, optimizer, n=10, fail_at=None):
                for i in range(n):
                    if i == fail_at:
                        raise RuntimeError("diverged")
                    optimizer.zero_grad()
                    model(torch.ones(4, 8)).sum().backward()
                    optimizer.step()

            def gan(model, n=10):
                first, second = (torch.optim.SGD(model.parameters(), lr=0.01) for _ in range(2))
                for i in range(n):
                    model(torch.ones(4, 8)).sum().backward()
                    first.step()
                    second.step()

            def infer(model, loader):
                for x in loader:
                    model(x)
            """
        )
    )
    torch_kernel.must(f"import sys; sys.path.insert(0, {str(folder)!r}); import mylib")
    return torch_kernel


def test_training_in_a_module_by_the_optimizer(library: Kernel) -> None:
    facts = steps_of(library, "mylib.fit(model, optimizer)")
    assert (facts["steps"], facts["steps_found"], facts["steps_seen"]) == ([3, 4, 5], "optimizer.step()", 10)
    facts = steps_of(library, "mylib.gan(model)")
    assert (facts["steps"], facts["steps_seen"]) == ([3, 4, 5], 10)
    facts = steps_of(library, "for epoch in range(2):\n    mylib.fit(model, optimizer)")
    assert (facts["steps"], facts["steps_found"], facts["steps_seen"]) == ([3, 4, 5], "optimizer.step()", 20)
    cell = "for i, x in enumerate(loader):\n  model(x).sum().backward()\n  if i % 2: optimizer.step()"
    facts = steps_of(library, cell, "--steps 1:3 --step-by optimizer")
    assert (facts["steps"], facts["steps_source"], facts["steps_seen"]) == ([1, 2], "hook", 5)


def test_inference_in_a_module(library: Kernel) -> None:
    facts = steps_of(library, "mylib.infer(model, loader)")
    assert (facts["steps"], facts["steps_source"]) == ([], "none")
    assert "steps-not-reached" in facts["issues"]
    facts = steps_of(library, "mylib.infer(model, loader)", "--steps 3:6 --step-by dataloader")
    assert (facts["steps"], facts["steps_found"]) == ([3, 4, 5], "batches of a DataLoader")
    assert facts["steps_seen"] == 10


def test_a_failing_module_keeps_the_partial_step(library: Kernel) -> None:
    reply = library.run("%%profile p --quiet --steps 1:9\nmylib.fit(model, optimizer, fail_at=4)")
    assert (reply.error, reply.stderr) == ("RuntimeError", "")
    assert library.value("p.trace.steps['step'].tolist()") == [1, 2, 3, 4]
    assert library.value("p.trace.metadata['partial_steps']") == [4]


def test_a_function_of_an_earlier_cell_counts(library: Kernel) -> None:
    library.must(f"%%profile --quiet\ndef earlier():\n    for x in loader:\n        {BODY}")
    facts = steps_of(library, "earlier()")
    assert (facts["steps"], facts["steps_found"]) == ([3, 4, 5], "a loop of an earlier cell")
    library.must("earlier()")


JOB = """\
import sys
said = [__name__, sys.argv[1:], sys._getframe().f_lineno]
def typed(x: int):
    pass
said.append(typed.__annotations__)
for turn in range(3):
    for number in range(4):
        said.append(number)
    said.append(turn is 1)
print(said)
"""
RUNS = ("%run {path} one two", "%run -i {path}", "%%time\n%run {path} one two", "%run -t {path}")


@pytest.mark.parametrize("cell", RUNS)
def test_the_loop_of_a_script(torch_kernel: Kernel, tmp_path: Path, cell: str) -> None:
    path = tmp_path / "nbp_job.py"
    path.write_text(JOB)
    source = cell.format(path=str(path))
    plain, reply = map(torch_kernel.run, (source, f"%%profile p --quiet --steps 1:2\n{source}"))
    assert (reply.stdout.splitlines()[0], reply.results) == (plain.stdout.splitlines()[0], plain.results)
    assert (reply.stderr, reply.error) == (plain.stderr, "")
    assert reply.stderr.count("SyntaxWarning") == 1
    facts = torch_kernel.value(FACTS)
    found = "the loop in line 6 of nbp_job.py: for turn in range(3)"
    assert (facts["steps"], facts["steps_found"], facts["steps_seen"]) == ([1], found, 3)
    left = "get_ipython().magics_manager.registry['ExecutionMagics'].default_runner"
    assert torch_kernel.value(f"[hasattr(__import__('builtins'), '__nbp__'), {left}]") == [False, None]


def test_the_first_script_in_a_kernel(tmp_path: Path) -> None:
    # IPython 9.18 loads the magics that have %run when one of them is first used
    path = tmp_path / "nbp_job.py"
    path.write_text("for turn in range(3):\n    sum(range(1000))\n")
    for kernel in new_kernel(tmp_path / "ipython"):
        facts = steps_of(kernel, f"%run {path}", "--steps 1:2")
        assert (facts["steps"], facts["steps_seen"]) == ([1], 3)


def test_a_script_fails_as_without_a_recording(torch_kernel: Kernel, tmp_path: Path) -> None:
    path, wrong = tmp_path / "nbp_job.py", tmp_path / "nbp_wrong.py"
    path.write_text(JOB.replace("append(number)", "append(number // (2 - turn))"))
    wrong.write_text("for i in range(3):\n    i = = 2\n")
    for cell in (f"%run {wrong}", f"%run {path}"):
        plain = torch_kernel.run(f"pass\n{cell}")
        recorded = torch_kernel.run(f"%%profile p --quiet --steps 1:2\n{cell}")
        assert "Error" in plain.stdout + plain.stderr + plain.error
        assert (recorded.stdout, recorded.stderr, recorded.error) == (plain.stdout, plain.stderr, plain.error)


def test_the_training_loop_of_a_script_counts_before_a_plain_one(
    torch_kernel: Kernel, tmp_path: Path
) -> None:
    path = tmp_path / "nbp_train.py"
    path.write_text(f"for x in loader:\n    {BODY}\n")
    facts = steps_of(torch_kernel, f"%run -i {path}\nfor i in range(4):\n  pass")
    found = "the loop in line 1 of nbp_train.py: for x in loader"
    assert (facts["steps"], facts["steps_found"], facts["steps_seen"]) == ([3, 4, 5], found, 10)


def test_the_steps_that_are_asked_for(library: Kernel) -> None:
    cell = "for epoch in range(4):\n  for x in loader:\n    BODY"
    facts = steps_of(library, cell, "--steps 1:3 --loop 2")
    assert (facts["steps"], facts["steps_seen"]) == ([1, 2], 4)
    facts = steps_of(library, "for x in loader:\n  BODY", "")
    assert (facts["steps"], facts["steps_requested"]) == (list(range(10)), "all")
    facts = steps_of(library, "def unused():\n  for x in loader:\n    BODY\nmylib.fit(model, optimizer)")
    assert (facts["steps"], "loop-never-ran" in facts["issues"]) == ([], True)
    facts = steps_of(library, "for x in loader:\n  BODY", "--steps 3:50")
    assert (facts["steps"], "fewer-steps" in facts["issues"]) == ([3, 4, 5, 6, 7, 8, 9], True)
    assert "steps 3:50 were requested, 10 steps ran" in library.value("p.trace.report['fewer-steps'].example")
    facts = steps_of(library, "for x in loader:\n  BODY", "--steps 30:50")
    assert (facts["steps"], "steps-not-reached" in facts["issues"]) == ([], True)
    assert library.must("p").displays or library.must("p").results


def test_stop_after(library: Kernel) -> None:
    cell = "done = False\nfor epoch in range(50):\n  for x in loader:\n    BODY\ndone = True"
    facts = steps_of(library, cell, "--steps 3:6 --stop-after")
    assert (facts["steps"], facts["steps_seen"], library.value("[done, epoch]")) == ([3, 4, 5], 6, [True, 0])
    facts = steps_of(library, "mylib.fit(model, optimizer, 1000)", "--steps 3:6 --stop-after")
    assert (facts["steps"], facts["steps_seen"]) == ([3, 4, 5], 6)
    reply = library.run("1/0")
    assert "ZeroDivisionError" in reply.traceback


def test_functions_of_the_cell_hold_no_name_of_ours(library: Kernel) -> None:
    """In the loop that ticks, and in a function that is kept after the cell."""
    library.must(
        """
        %%profile p --quiet --steps 1:2
        import pickle
        ours = []
        def train(rows):
            for x in rows:
                BODY
                pickle.dumps([name for name in {**locals(), **globals()} if name.startswith("__nbp")])
                ours.extend(name for name in {**locals(), **globals()} if name.startswith("__nbp"))
        train(loader)
        """.replace("BODY", BODY)
    )
    assert library.value("ours") == []
    assert library.value("len(p.steps())") == 1
    assert "__nbp__" not in library.value("train.__code__.co_names + train.__code__.co_varnames")
    assert library.value("hasattr(__import__('builtins'), '__nbp__')") is False


def test_what_is_left_behind_by_many_profiles(library: Kernel) -> None:
    library.must(
        """
        import gc, psutil, threading, time
        KEPT = ("Trace", "Profile", "Session", "DeferredTrace", "Recording")
        from torch.optim import optimizer as optimizer_module
        def left():
            gc.collect()
            ip = get_ipython()
            return [
                len(optimizer_module._global_optimizer_post_hooks),
                len(optimizer_module._global_optimizer_pre_hooks),
                len(torch.nn.modules.module._global_forward_hooks),
                len(torch.nn.modules.module._global_forward_pre_hooks),
                len(ip.ast_transformers),
                sum(map(len, ip.events.callbacks.values())),
                torch.utils.data.dataloader._BaseDataLoaderIter.__next__.__qualname__,
                *(sum(type(one).__name__ == name for one in gc.get_objects()) for name in KEPT),
            ]
        def threads(before):
            until = time.monotonic() + 100
            while set(threading.enumerate()) - before and time.monotonic() < until:
                time.sleep(0.01)  # others' may end meanwhile, ours must
            return [thread.name for thread in set(threading.enumerate()) - before]
        def rss():
            until = time.monotonic() + 100  # traces are built beside, and hold what was recorded until then
            names = lambda: {thread.name for thread in threading.enumerate()}
            while 'notebook_prof trace' in names() and time.monotonic() < until:
                time.sleep(0.05)
            gc.collect()
            return psutil.Process().memory_info().rss
        """
    )
    cell = f"%%profile p --quiet --steps 3:6\nfor x in loader:\n    {BODY}"

    def runs(count: int) -> None:
        for _ in range(count):
            library.must(cell)
            assert library.value("len(p.steps())") == 3  # it waits for the trace

    runs(1)
    library.value("rss()")
    before = library.value("left()")
    library.must("there = set(threading.enumerate())")
    runs(17)  # each thread that builds one takes an arena of the allocator, up to sixteen
    for _ in range(4):  # a leak grows every time
        start = library.value("rss()")
        runs(8)
        if (grown := library.value("rss()") - start) < 4 * 2**20:
            break
    assert library.value("threads(there)") == []
    assert library.value("left()") == before  # a thread that has not ended keeps what it works on
    assert grown < 4 * 2**20, f"{grown / 2**20:.1f} MiB in 8 profiles"
