"""Kinds of cells and files that were once reported wrongly: what is true of each, and what must be said.

``python -m tests.workloads.kinds FILE`` runs all of them and adds what is said now to a file of results, from
which `tests.workloads.truth` writes its tables.
"""

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from .runner import Notebook

HEADLINE = "str(p.verdict).splitlines()[0]"
LINES = "' '.join(line for line in str(p.verdict).splitlines() if line.startswith({!r}))"
CRUNCH = "def crunch(n=3_000_000):\n    return sum(i * i for i in range(n))\n"


@dataclass(frozen=True)
class Kind:
    """A kind of cell: what is true of an example, an expression that asks, and a pattern of what is said."""

    kind: str
    true: str
    cell: str
    said: str
    setup: str = ""
    options: str = ""
    ask: str = HEADLINE
    needs: str = ""


CELLS = (
    Kind(
        "asyncio: what a task computes, and for which lines an `await` waits",
        "the tasks wait in line 3 and then compute in `crunch`",
        "async def task():\n    await asyncio.sleep(1)\n    crunch(50_000)\n"
        "await asyncio.gather(task(), task())",
        r"`await asyncio\.gather\(task\(\), task\(\)\)`; it waits, with tasks suspended at line 3,",
        f"import asyncio\n{CRUNCH}",
    ),
    Kind(
        "the display of the result is the user's code",
        "`_repr_html_` computes nearly all of the time",
        "Slow()",
        r"^Display of the result takes .*return ",
        f"{CRUNCH}class Slow:\n    def _repr_html_(self):\n        return str(crunch())",
    ),
    Kind(
        "magics stacked",
        "line 3 computes, below `%%time`",
        "%%time\nx = crunch()",
        r"`(x = crunch\(\)|return sum\(i \* i for i in range\(n\)\))`",
        CRUNCH,
    ),
    Kind(
        "decorated definitions",
        "the decorator runs line 6, the body",
        "def at_once(function):\n    return function()\n@at_once\ndef work():\n"
        "    return sum(i * i for i in range(3_000_000))",
        r"`return sum\(i \* i for i in range\(3_000_000\)\)`",
    ),
    Kind(
        "code that was reloaded or moved",
        "line 6 of the file computes; it was line 3 before the reload",
        "edited.work()",
        r"edited\.py:6.* `return sum\(",
        "import importlib, pathlib, sys\nsys.path.insert(0, '')\n"
        "text = 'def work():\\n    return sum(i * i for i in range(3_000_000))\\n'\n"
        "pathlib.Path('edited.py').write_text('import time\\n' + text)\nimport edited\n"
        "pathlib.Path('edited.py').write_text('import time\\n\\n\\n# moved\\n' + text)\n"
        "importlib.reload(edited)",
    ),
    Kind(
        "greenlets",
        "`crunch` computes in a greenlet",
        "greenlet.greenlet(crunch).switch()",
        r"return sum\(i \* i",
        f"import greenlet\n{CRUNCH}",
        needs="greenlet",
    ),
    Kind(
        "activation checkpointing",
        "four sibling blocks of equal work",
        """
        for step in range(6):
            h = torch.randn(512, 256, requires_grad=True)
            for block in blocks:
                h = checkpoint(block, h, use_reentrant=False)
            optimizer.zero_grad(); h.pow(2).mean().backward(); optimizer.step()
        """,
        r"^4 blocks at depth 0$",
        """
        import torch
        from torch.utils.checkpoint import checkpoint
        class Block(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a = torch.nn.Linear(256, 256)
            def forward(self, x):
                return torch.relu(self.a(x))
        blocks = torch.nn.ModuleList([Block() for _ in range(4)])
        optimizer = torch.optim.SGD(blocks.parameters(), 0.01)
        """,
        ask="(lambda t: f\"{(t['class'] == 'Block').sum()} blocks at depth "
        "{', '.join(map(str, sorted(set(t.loc[t['class'] == 'Block', 'depth']))))}\")(p.layers())",
        needs="torch",
    ),
    Kind(
        "workers that live on",
        "three epochs of 64 items",
        "for epoch in range(3):\n    for (x,) in loader:\n        y = x * 2",
        r"^192 items$",
        """
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        data = TensorDataset(torch.arange(64.0).reshape(64, 1))
        loader = DataLoader(data, batch_size=8, num_workers=2, persistent_workers=True)
        """,
        ask="f\"{p.input.workers()['items'].sum()} items\"",
        needs="torch",
    ),
    Kind(
        "garbage collections outside of the cell",
        "own times add up to at most the cell",
        "time.sleep(0.05)\nraise Shown",
        r"^garbage collection: 0 times$",
        """
        import gc, time
        kept = [[] for _ in range(1_000_000)]
        class Shown(Exception):
            def _render_traceback_(self):
                gc.collect()
                return ["Shown"]
        """,
        ask="f\"garbage collection: {(p.operators()['name'] == 'garbage collection').sum()} times\"",
    ),
    Kind(
        "memory of children",
        "a child holds 300 MiB",
        "subprocess.run([sys.executable, '-c', "
        "'import time; x = bytearray(300 << 20); x[::4096] = b\"1\" * len(x[::4096]); time.sleep(4)'])",
        r"child",
        "import subprocess, sys",
        ask=LINES.format("Memory: "),
    ),
    Kind(
        "pools of threads that run children",
        "the line waits, while children compute",
        "with ThreadPoolExecutor(4) as pool:\n"
        "    done = list(pool.map(subprocess.run, [[sys.executable, '-c', 'sum(range(60_000_000))']] * 4))",
        r"it waits, while .*child process",
        "import subprocess, sys\nfrom concurrent.futures import ThreadPoolExecutor",
    ),
    Kind(
        "variables that were made after the recorded window",
        "`after` holds 40 MB",
        "for i in range(6):\n    x = bytearray(4_000_000)\nafter = bytearray(40_000_000)",
        r"^after is listed$",
        options="--steps 0:2",
        ask="'after is ' + ('listed' if (p.memory.names()['name'] == 'after').any() else 'missing')",
    ),
    Kind(
        "`--steps` on `%run job.py`",
        "the loop of the script has steps",
        "%run job.py",
        r"steps",
        "import pathlib\npathlib.Path('job.py').write_text("
        "'for i in range(8):\\n    x = sum(j * j for j in range(100_000))\\n')",
        "--steps 2:5",
        LINES.format("Cell: "),
    ),
    Kind(
        "an empty cell",
        "nothing is to be reported",
        "# nothing yet",
        r"^The cell is empty\.$",
        # a busy machine can take longer than the default limit for this
        "from notebook_prof.analysis.verdict import verdict\n"
        "usual, verdict.TRIFLE_NS = verdict.TRIFLE_NS, 10**10",
        ask=f"({HEADLINE}, setattr(verdict, 'TRIFLE_NS', usual))[0]",
    ),
    Kind(
        "a short training cell",
        "one loop is nearly all of what the user wrote",
        "for x, y in loader:\n    optimizer.zero_grad(); loss(model(x), y).backward(); optimizer.step()",
        r"^(?!Nothing takes most)",
        """
        import torch
        model, loss = torch.nn.Linear(64, 64), torch.nn.functional.mse_loss
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        loader = [(torch.ones(512, 64), torch.zeros(512, 64))] * 20
        """,
        "--steps 3:14",
        needs="torch",
    ),
    Kind(
        "steps that were asked for and did not run",
        "two steps ran",
        "for i in range(2):\n    x = sum(j * j for j in range(100_000))",
        r"2 steps",
        options="--steps 5:8",
        ask="' '.join(str(one.example or one.effect) + '; ' + str(one.advice) for one in p.trace.report)",
    ),
    Kind(
        "code that is compiled in the cell",
        "torch.compile takes most of it",
        "y = torch.compile(lambda x: (x @ x).relu().sum())(torch.ones(8, 8))",
        r"one-time work: torch\.compile took ",
        "import torch",
        needs="torch",
    ),
    Kind(
        "a wrong pattern in `what_if`",
        "no operator has that name; the nearest are listed",
        "x = [sum(j * j for j in range(100_000)) for i in range(20)]",
        r"no slice is called 'aten::conv\*': there are '",
        ask="what_if_error(p)",
        setup="def what_if_error(p):\n    try:\n        return str(p.what_if(scale={'aten::conv*': 0.5}))\n"
        "    except Exception as error:\n        return str(error)",
    ),
    Kind(
        "one name that cannot be read",
        "line 2 takes all of it, in a file whose name has a NUL",
        "odd(2)",
        r"^Line 2 takes (9\d|100)",
        """
        import time
        def spin(seconds):
            begun = time.perf_counter()
            while time.perf_counter() - begun < seconds: pass
        odd = type(spin)(spin.__code__.replace(co_filename="odd\\0name.py"), globals())
        """,
    ),
    Kind(
        "few samples",
        "8 ms of a loop are too short to compare its lines",
        "total = 0\nfor i in range(60_000):\n    total += i\n    total ^= 7",
        r"^(?!.*:\d+ \d+\.\d %)",
    ),
    Kind(
        "a cell right after many short ones",
        "the profiler's threads are distinguished from other programs",
        "x = crunch(6_000_000)",
        r"^(Own work: notebook_prof used .*)?(Cores: .*)?$",
        f"{CRUNCH}for i in range(12):\n"
        "    get_ipython().run_cell_magic('profile', 'q --quiet', 'x = crunch(100_000)')",
        ask=LINES.format(("Own work", "Cores")),
    ),
    Kind(
        "one cell, several lengths",
        "the peak of memory lies within the cell",
        "x = bytearray(100_000_000); y = crunch(); del x; raise ValueError",
        r"^Cell: .*; it ended with ValueError",
        CRUNCH,
        ask="str(p.verdict).splitlines()[1]",
    ),
    Kind(
        "lines whose C code lets go of the interpreter",
        "`np.random.normal` takes most of the loop",
        "for i in range(40):\n    x = np.random.normal(size=300_000)\n    y = x[0] + 1",
        r"x = np\.random\.normal",
        "import numpy as np",
    ),
)


def play(notebook: Notebook, kind: Kind) -> str:
    """Run a kind of cell and return what is said of it."""
    notebook.must(dedent(kind.setup) or "None")
    notebook.execute(f"%%profile p --quiet {kind.options}\n{dedent(kind.cell).strip()}")
    notebook.must("assert all(claim.holds(p.trace) for claim in p.verdict.claims)")
    return notebook.must(f"print({kind.ask})")[0].strip()


def keep(said: dict[str, str], file: Path) -> None:
    """Add what is said of kinds to a file of results."""
    results = json.loads(file.read_text()) if file.exists() else {}
    results.setdefault("kinds", {}).update(said)
    file.write_text(json.dumps(results, indent=1))


def main(file: Path) -> int:
    """Run all kinds and keep what is said."""
    from .kinds_of_files import FILES, opened

    with tempfile.TemporaryDirectory() as folder:
        notebook = Notebook(Path(folder) / "kernel")
        try:
            keep({kind.kind: play(notebook, kind) for kind in CELLS}, file)
        finally:
            notebook.close()
        keep({kind.kind: opened(kind, Path(folder)) for kind in FILES}, file)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
