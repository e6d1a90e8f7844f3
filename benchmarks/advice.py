"""What advice promises and what its remedy saves, for every rule.

Each program is run in a kernel of its own: as it is and with the remedy, in turn, without any recording; then
once as it is under ``%%profile``. Predicted is the gain that `p.advice()` tells from that one recording,
measured what the remedy saved of the median run, with one compute thread. A prediction may be off by a factor
of 1.5. Rules that need a device cannot be checked here: their gain is an upper bound by its arithmetic, and
the advice says so.
"""

from __future__ import annotations

import json
import statistics
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

TITLE = "Advice: predicted and measured gain"
FACTOR: Final = 1.5
ROUNDS: Final = 5

BOUNDS: Final = {
    "communication-exposed": "all communication that nothing hides",
    "pandas-chained-indexing": "the copy of the chosen rows of all columns",
    "recompilations": "what compiling again took",
    "uneven-steps": "what slow steps take above the median step",
    "launch-bound": "all gaps of the device in which the host did not launch",
    "sync-points": "the gaps of the device after waits of the host",
    "copy-bound": "the copies",
    "pageable-copies": "the copies, and the gaps before them",
    "low-occupancy": "the part of the device that the kernels leave empty",
    "tensor-cores-unused": "half of the products: tensor cores take less than half the time",
    "small-allocations": "the calls of the driver",
    "memory-near-full": "bytes: what is reserved above nine tenths of the device",
    "memory-fragmented": "bytes: what is reserved and was not used at the peak",
    "memory-growth": "bytes a step, as the allocator's own events tell them: exact",
}
"""Rules without a time that could be measured here, with what their gain is bounded by."""


@dataclass(frozen=True)
class Program:
    """Code that shows what a rule is about, and the same with the remedy."""

    rule: str
    what: str
    setup: str
    before: str
    after: str


DATA: Final = """
    import time, numpy as np, pandas as pd
    rng = np.random.default_rng(0)
    n = 30_000
    noise = rng.random(1_500_000)
    df = pd.DataFrame({"a": rng.random(n), "b": rng.random(n), "k": rng.integers(0, 50, n)})
"""
TRAINING: Final = """
    import time, torch, torch.nn.functional as F
    from torch import nn
    from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, TensorDataset
    torch.manual_seed(0); torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    def train(loader, times=1):
        for x, y in loader:
            for _ in range(times):
                opt.zero_grad(); F.cross_entropy(model(x), y).backward(); opt.step()
    class Slow(Dataset):
        def __len__(self): return 320
        def __getitem__(self, i):
            time.sleep(0.002)
            return torch.randn(256), i % 10
    class Decoded(Dataset):
        def __len__(self): return 320
        def __getitem__(self, i):
            total = 0.0
            for j in range(20_000): total += j * 0.5
            return torch.full((256,), total), i % 10
    weights = torch.randn(256, 1024)
    items = TensorDataset(torch.randn(20_000, 256), torch.randint(0, 10, (20_000,)))
"""
PARALLEL: Final = """
    import threading, numpy as np
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context
    def crunch(n):
        total = 0
        for i in range(n): total += i * i
        return total
    def largest(array): return float(array.max())
    arrays = [np.random.rand(250_000) for _ in range(200)]
"""
LOOP: Final = """
    for x, y in DataLoader({}):
        opt.zero_grad(); F.cross_entropy(model(x), y).backward(); opt.step()
"""

PROGRAMS: Final = (
    Program(
        "dataloader-workers",
        "items that wait (2 ms each), made by the loop itself",
        TRAINING,
        LOOP.format("Slow(), batch_size=32"),
        LOOP.format("Slow(), batch_size=32, num_workers=2, persistent_workers=True"),
    ),
    Program(
        "dataloader-workers",
        "items that compute, made by the loop itself",
        TRAINING,
        LOOP.format("Decoded(), batch_size=32"),
        LOOP.format("Decoded(), batch_size=32, num_workers=2, persistent_workers=True"),
    ),
    Program(
        "input-bound",
        "items that wait, one worker; remedy: two",
        TRAINING,
        LOOP.format("Slow(), batch_size=32, num_workers=1"),
        LOOP.format("Slow(), batch_size=32, num_workers=2"),
    ),
    Program(
        "items-one-by-one",
        "a TensorDataset with batch_size=128",
        TRAINING,
        """
    for x, y in DataLoader(items, batch_size=128, shuffle=True):
        total = float((x @ weights).square().mean())
    """,
        """
    for x, y in DataLoader(items, batch_size=None, sampler=BatchSampler(RandomSampler(items), 128, False)):
        total = float((x @ weights).square().mean())
    """,
    ),
    Program(
        "unfused-optimizer",
        "Adam on 13 layers of 256; remedy: fused=True",
        TRAINING
        + """
    net = nn.Sequential(*(nn.Linear(256, 256) for _ in range(13)))
    batch = torch.randn(16, 256)
    plain = torch.optim.Adam(net.parameters(), 1e-4)
    fused = torch.optim.Adam(net.parameters(), 1e-4, fused=True)
    """,
        """
    for _ in range(60):
        plain.zero_grad(); net(batch).square().mean().backward(); plain.step()
    """,
        """
    for _ in range(60):
        fused.zero_grad(); net(batch).square().mean().backward(); fused.step()
    """,
    ),
    Program(
        "pandas-apply-rows",
        "df.apply(…, axis=1); remedy: columns",
        DATA,
        'ordered = np.sort(noise)\ngot = df.apply(lambda row: row["a"] * row["b"] + 1, axis=1)',
        'ordered = np.sort(noise)\ngot = df["a"] * df["b"] + 1',
    ),
    Program(
        "pandas-iterrows",
        "a sum over df.iterrows(); remedy: itertuples",
        DATA,
        """
    total = 0.0
    for _, row in df.iterrows():
        total += row["a"] * row["b"]
    """,
        """
    total = 0.0
    for row in df.itertuples():
        total += row.a * row.b
    """,
    ),
    Program(
        "pandas-python-function",
        "Series.map with a function; remedy: the whole column",
        DATA + "\n    big = pd.Series(rng.random(1_000_000))\n",
        "got = big.map(lambda v: v * 2 if v > 0.5 else 0.0)",
        "got = (big * 2).where(big > 0.5, 0.0)",
    ),
    Program(
        "pandas-python-function",
        "groupby(…)[…].apply(lambda); remedy: .mean()",
        DATA + "\n    many = df.assign(k=rng.integers(0, 5_000, n))\n",
        'got = many.groupby("k")["a"].apply(lambda part: part.mean())',
        'got = many.groupby("k")["a"].mean()',
    ),
    Program(
        "pandas-scalar-access",
        'df["a"].iloc[i] in a loop; remedy: to_numpy() before it',
        DATA,
        """
    total = 0.0
    for i in range(len(df)):
        total += df["a"].iloc[i]
    """,
        """
    total, values = 0.0, df["a"].tolist()
    for i in range(len(df)):
        total += values[i]
    """,
    ),
    Program(
        "object-column",
        "comparing a column of objects; remedy: astype('category') once",
        DATA
        + """
    words = np.array(["red", "green", "blue", "white"], dtype=object)[rng.integers(0, 4, 400_000)]
    names = pd.Series(words, dtype=object)
    """,
        """
    got = 0
    for word in ("red", "green", "blue", "white") * 5:
        got += int((names == word).sum())
    """,
        """
    got, typed = 0, names.astype("category")
    for word in ("red", "green", "blue", "white") * 5:
        got += int((typed == word).sum())
    """,
    ),
    Program(
        "growing-array",
        "a = np.append(a, x) in a loop; remedy: a list",
        DATA,
        """
    ordered = np.sort(noise)
    found = np.array([])
    for i in range(40_000):
        found = np.append(found, i * 0.5)
    """,
        """
    ordered = np.sort(noise)
    pieces = []
    for i in range(40_000):
        pieces.append(i * 0.5)
    found = np.array(pieces)
    """,
    ),
    Program(
        "growing-array",
        "table = pd.concat([table, row]) in a loop; remedy: a list",
        DATA,
        """
    table = pd.DataFrame({"a": [0.0], "b": [0.0]})
    for i in range(1_000):
        row = {"a": [i * 0.5], "b": [i * 2.0]}
        table = pd.concat([table, pd.DataFrame(row)])
    """,
        """
    rows = []
    for i in range(1_000):
        rows.append({"a": i * 0.5, "b": i * 2.0})
    table = pd.DataFrame(rows)
    """,
    ),
    Program(
        "growing-array",
        "table.loc[len(table)] = row in a loop; remedy: a list",
        DATA,
        """
    table = pd.DataFrame({"a": [0.0], "b": [0.0]})
    for i in range(1_000):
        table.loc[len(table)] = [i * 0.5, i * 2.0]
    """,
        """
    rows = []
    for i in range(1_000):
        rows.append([i * 0.5, i * 2.0])
    table = pd.DataFrame(rows, columns=["a", "b"])
    """,
    ),
    Program(
        "repeated-copies",
        "df.copy() for each of 60 scenarios; remedy: deep=False",
        DATA + '\n    wide = pd.DataFrame({f"c{i}": rng.random(200_000) for i in range(20)})\n',
        """
    total = 0.0
    for i in range(60):
        part = wide.copy()
        part["c0"] = part["c0"] * i
        total += part["c0"].iloc[0]
    """,
        """
    total = 0.0
    for i in range(60):
        part = wide.copy(deep=False)
        part["c0"] = part["c0"] * i
        total += part["c0"].iloc[0]
    """,
    ),
    Program(
        "numpy-vectorize",
        "np.vectorize of a branch; remedy: np.where",
        DATA + "\n    values = rng.random(600_000)\n",
        "ordered = np.sort(noise)\ngot = np.vectorize(lambda v: v * 2 if v > 0.5 else 0.0)(values)",
        "ordered = np.sort(noise)\ngot = np.where(values > 0.5, values * 2, 0.0)",
    ),
    Program(
        "threads-take-turns",
        "two threads of Python; remedy: two processes",
        PARALLEL,
        """
    threads = [threading.Thread(target=crunch, args=(3_000_000,)) for _ in range(2)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    """,
        """
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        got = list(pool.map(crunch, [3_000_000] * 2))
    """,
    ),
    Program(
        "pool-overhead",
        "a pool that is sent 200 arrays of 2 MB; remedy: no pool",
        PARALLEL,
        """
    with get_context("fork").Pool(2) as pool:
        got = pool.map(largest, arrays)
    """,
        """
    got = [largest(array) for array in arrays]
    """,
    ),
)

_MEASURE: Final = """
import gc, json, time
_codes = [compile({before!r}, "<before>", "exec"), compile({after!r}, "<after>", "exec")]
_times = [[], []]
for _round in range({rounds}):
    for _which, _code in enumerate(_codes):
        gc.collect(); _begun = time.perf_counter(); exec(_code, globals())
        _times[_which].append(time.perf_counter() - _begun)
print(json.dumps(_times))
"""
_SAY: Final = """
_told = p.advice(min_share=0)
print(json.dumps([_told[["rule", "gain_share", "bound", "finding", "remedy"]].to_dict("records"),
                  _told.attrs["withheld"]]))
"""


def run(programs: Sequence[Program] = PROGRAMS) -> list[dict[str, Any]]:
    """Rows: rule, program, predicted and measured share, their ratio; then the rules that need a device."""
    return [_row(program) for program in programs] + [
        {
            "rule (not measured: needs a device, several ranks, or tells bytes)": rule,
            "its gain is at most": words,
        }
        for rule, words in BOUNDS.items()
    ]


def measure(program: Program) -> dict[str, Any]:
    """Times of both forms, and the advice on the first, from a kernel of its own."""
    before, after = textwrap.dedent(program.before).strip(), textwrap.dedent(program.after).strip()
    with _kernel() as execute:
        execute("%load_ext notebook_prof")
        execute(textwrap.dedent(program.setup))
        execute(_MEASURE.format(before=before, after=after, rounds=1))  # caches, and pages that are asked for
        times = json.loads(execute(_MEASURE.format(before=before, after=after, rounds=ROUNDS)))
        execute(f"%%profile p --quiet\n{before}")
        advised, withheld = json.loads(execute(_SAY).strip().splitlines()[-1])
    return {
        "before_s": statistics.median(times[0]),
        "after_s": statistics.median(times[1]),
        "advised": {row["rule"]: row for row in advised},
        "withheld": withheld,
    }


def _row(program: Program) -> dict[str, Any]:
    measured = measure(program)
    saved = 1 - measured["after_s"] / measured["before_s"]
    advised = measured["advised"].get(program.rule)
    predicted = advised["gain_share"] if advised else float("nan")
    ratio = predicted / saved if advised and saved > 0 else float("nan")
    good = advised is not None and not advised["bound"] and 1 / FACTOR <= ratio <= FACTOR
    return {
        "rule": program.rule,
        "program": program.what,
        "predicted": f"{predicted:.1%}",
        "measured": f"{saved:.1%}",
        "predicted ÷ measured": f"{ratio:.2f}",
        "within 1.5": "yes" if good else "**no**",
        "times faster": f"{measured['before_s'] / measured['after_s']:.1f}",
    }


@contextmanager
def _kernel() -> Iterator[Any]:
    """A kernel of this interpreter; what it yields runs a cell and gives what it printed."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3")

    def execute(code: str) -> str:
        msg_id = client.execute(code)
        said: list[str] = []
        while True:
            message = client.get_iopub_msg(timeout=120)
            if message["parent_header"].get("msg_id") != msg_id:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "error":
                raise RuntimeError("\n".join(content["traceback"]))
            if kind == "stream" and content["name"] == "stdout":
                said.append(content["text"])
            if kind == "status" and content["execution_state"] == "idle":
                return "".join(said)

    try:
        yield execute
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
