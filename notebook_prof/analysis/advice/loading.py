"""Rules for steps that wait for data: what makes the batches, and what would speed that up."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import length
from ...units import format_items, format_ns
from ..scope import length_within
from ..source.frames import frames
from ..source.line_calls import module_of
from ..source.lines import LINE, line_slices, line_times
from ..verdict.claims import Sentence, Source, cite, cite_ns, fill, say
from ..verdict.waits import bounding_loader
from .context import WORTH, Advice, AdviceContext, evidence

CHEAP_NS: Final = 20_000
"""Cheaper items are not worth a process: sending one costs as much as making it."""
BATCHED: Final = 0.75
"""Share of the data time saved by indexing a TensorDataset by whole batches; see ``benchmarks/advice.py``."""
START_NS: Final = {"fork": 25_000_000}
"""Time to start and end a pool of workers; each new Python process imports torch first."""
_START_ANEW_NS: Final = 3_000_000_000
_NEARLY_ALL: Final = 0.9
_BETTER: Final = 0.95
"""More workers are recommended only if they take at most this share of the time with fewer."""
_CELL: Final = re.compile(r"[\\/]ipykernel_\d+[\\/]-?\d+\.py$|^<ipython-input-")
_CPU_TRACK: Final = "process CPU"


def input_bound(run: AdviceContext) -> Advice | None:
    """Find steps that wait for batches from workers, or from a source other than PyTorch's loader."""
    spent = _waited_ns(run)
    if spent is None or _in_process(run) or _is_cheap(run, spent):
        return None
    found = _found(run, spent, "waits ", " for its data")
    used = int(run.loader_facts["num_workers"].max()) if len(run.loader_facts) else 0
    if run.cpus and used:
        best, factor = _simulated(run)
        if used >= max(run.cpus, best):
            return None  # more processes than cores help only if items wait
        more, after, before = _with_workers(run, spent, used)
        if best > used:
            more, after = best, int(before * factor)
        elif best:
            return None
        if after >= before:
            return None
        return Advice(
            "input-bound",
            advice=f"Use more processes: num_workers={more} in place of {used}; {_cores(run, more)}. "
            "Keep them with persistent_workers=True.",
            gain_ns=before - after,
            **found,
        )
    return Advice(
        "input-bound",
        advice="Raise num_workers up to the number of cores, make transforms cheaper (or move them to the "
        "device), read from faster storage, and keep workers with persistent_workers=True.",
        gain_ns=spent,
        bound=True,
        **found,
    )


def loader_workers(run: AdviceContext) -> Advice | None:
    """Find a step thread that makes its own batches."""
    spent = _waited_ns(run)
    if spent is None or not _in_process(run) or _is_cheap(run, spent):
        return None
    found = _found(run, spent, "spends ", " getting its data, in its own thread")
    accelerated = bool(run.machine.get("accelerators"))
    pinned = ", pin_memory=True" if accelerated else ""
    if not run.cpus:
        return Advice(
            "dataloader-workers",
            advice="Let other processes make the batches: DataLoader(num_workers=…, "
            f"persistent_workers=True), at most one per core. {_cannot_import(run)}"
            "Or prepare the data once, before training.",
            # at best, other processes hide the shorter of the two (data, rest) behind the longer
            gain_ns=min(spent, max(run.total_ns - spent, 0)) or spent,
            bound=True,
            **found,
        )
    workers, time, before = _with_workers(run, spent, 0, _simulated(run)[0])
    method = str(run.machine.get("start_method", "fork"))
    start_ns = START_NS.get(method, _START_ANEW_NS)
    gain = before - time - start_ns
    if gain <= 0:
        batches = _batches(run)
        if (each := (before - time) // batches) > 0:
            run.withheld["dataloader-workers"] = (
                f"starting workers by {method} takes about {format_ns(start_ns)}, which pays off after "
                f"{-(-start_ns // each):,} batches; the recording has {batches:,}"
            )
        return None
    return Advice(
        "dataloader-workers",
        advice=f"Let {workers} other {'process' if workers == 1 else 'processes'} make the batches: "
        f"DataLoader(num_workers={workers}, persistent_workers=True{pinned}); {_cores(run, workers)}. "
        f"{_cannot_import(run)}Or make the items once, before training.",
        gain_ns=gain,
        **found,
    )


def _simulated(run: AdviceContext) -> tuple[int, float]:
    """Return the workers that the verdict names (0: unknown), and the factor of the time of a batch."""
    row = bounding_loader(run.trace)
    if row is None or pd.isna(row["best"]):
        return 0, 1.0
    return int(row["best"]), float(row["rate"] / row["best_rate"])


def _cores(run: AdviceContext, workers: int) -> str:
    more = (
        ", but items wait part of their time, and a waiting worker needs none" if workers > run.cpus else ""
    )
    return f"this machine has {format_items(run.cpus, 'core')}{more}"


def _cannot_import(run: AdviceContext) -> str:
    """Return what to do if workers start without the notebook's classes, such as the dataset's."""
    method = str(run.machine.get("start_method", "fork"))
    used = run.loader_facts
    here = used.loc[used["file"].astype(str).str.contains(_CELL), "dataset"].tolist()
    if method == "fork" or not here:
        return ""
    forks = ', or pass multiprocessing_context="fork"' if method == "forkserver" else ""
    classes = f"cannot import a notebook's classes: define `{here[0]}` in a module{forks}. "
    return f"Workers start by {method} here and {classes}"


def items_one_by_one(run: AdviceContext) -> Advice | None:
    """Find in-memory data that is fetched item by item."""
    spent = _waited_ns(run)
    if spent is None or not _is_cheap(run, spent) or _in_own_lines(run) > spent // 2:
        return None
    found = _found(run, spent, "spends ", " taking items one by one")
    return Advice(
        "items-one-by-one",
        advice="Take whole batches from the tensors: DataLoader(dataset, batch_size=None, "
        "sampler=BatchSampler(RandomSampler(dataset), batch_size, drop_last=False)), without workers, or "
        "index the tensors with torch.randperm(n).split(batch_size).",
        gain_ns=int((spent - _cost(run)) * BATCHED),
        **found,
    )


def _in_own_lines(run: AdviceContext) -> int:
    """Return the time in the user's own sampler or collate function, if all datasets are in memory."""
    if not run.loader_facts["in_memory"].all():
        return 0
    lines = line_slices(run.trace, run.window)
    data = run.host.open(run.host.among("phase", ("data",)))
    heads = tuple(f"cell:{line}  " for line in run.facts.account["line"].dropna().tolist())
    within = length_within(data, lines.ts, lines.end) >= _NEARLY_ALL * (lines.end - lines.ts)
    return length(lines.open(within & ~lines.named(lambda name: name.startswith(heads))))


def _waited_ns(run: AdviceContext) -> int | None:
    spent = run.facts.phase_ns.get("data", 0)
    return spent if spent >= WORTH * run.total_ns else None


def _in_process(run: AdviceContext) -> bool:
    kinds = set(run.input["loader"])
    return "in-process" in kinds and "workers" not in kinds


def _cost(run: AdviceContext) -> int:
    return min(run.cost_ns(run.host.among("phase", ("data",))), run.facts.phase_ns.get("data", 0) // 2)


def _is_cheap(run: AdviceContext, spent: int) -> bool:
    """Return whether all loaders return items from memory or take negligible time."""
    used = run.loader_facts
    if not len(used) or used["batched"].any():
        return False
    if used["in_memory"].all():
        return True
    items = int(run.input["fetches"].sum() * used["batch_size"].max())
    return not used["num_workers"].any() and items > 0 and (spent - _cost(run)) / items < CHEAP_NS


def _batches(run: AdviceContext) -> int:
    return max(int(run.input["fetches"].sum()), 1)


def _with_workers(run: AdviceContext, spent: int, used: int, best: int = 0) -> tuple[int, int, int]:
    """Return a worthwhile number of workers, and the time of the steps with them and now."""
    # The cost of recording is subtracted from both times. The estimate is the longest of three bounds:
    # 1. workers make all batches in parallel, then the last step runs; 2. the first batch is made, then the
    # steps run one after another; 3. all cores are busy all the time. Workers that already exist are assumed
    # to be busy, so more of them share the same total work.
    cost, data, batches = run.cost_ns(), spent - _cost(run), _batches(run)
    before = max(run.facts.total_ns - cost, data)
    rest, work = before - data, before * used or data
    first, last = (0, 0) if used else (data // batches, rest // batches)
    busy = min(max(_busy(run) - cost, 0), before * run.cpus) + before * used

    def time(workers: int) -> int:
        return max(work // workers + last, first + rest, busy // run.cpus)

    if best:
        return best, time(best), before
    best, after = (used, before) if used else (1, time(1))
    for workers in range(best + 1, run.cpus + 1):
        if time(workers) <= _BETTER * after:
            best, after = workers, time(workers)
    return best, after, before


def _busy(run: AdviceContext) -> int:
    """Return the CPU time of the process during the steps; one full core if not recorded."""
    total = run.facts.total_ns
    tracks = run.trace.tracks
    own = tracks.loc[(tracks["kind"] == "counter") & (tracks["name"] == _CPU_TRACK), "track"]
    read = run.trace.counters[run.trace.counters["track"].isin(own)]
    spans = run.facts.steps
    if not len(read) or not len(spans):
        return total
    begin, end = int(spans["ts"].min()), int((spans["ts"] + spans["dur"]).max())
    ts, value = read["ts"].to_numpy(), read["value"].to_numpy()
    # a reading covers the time since the previous one
    since = np.clip(np.append(begin, ts[:-1]), begin, end)
    part = np.maximum(np.clip(ts, begin, end) - since, 0)
    if not part.sum():
        return total
    return int(np.average(value, weights=part) * run.cpus * total)


def _found(run: AdviceContext, spent: int, before: str, after: str) -> dict[str, Any]:
    """Return the fields of a rule's advice other than code, remedy and gain."""
    took = run.facts.in_phase("data")
    who = "Each step" if len(run.facts.steps) else "The run"
    text = say(f"{who} {before}", run.each(spent, took), after, run.share(spent, took))
    location = ""
    if len(run.loader_facts) == 1:
        row = run.loader_facts.iloc[0]
        if row["file"] and not module_of(str(row["file"])):
            short = "cell" if _CELL.search(str(row["file"])) else PurePath(str(row["file"])).name
            location = f"{short}:{int(row['line'])}"
            of_loader = {name: row[name] for name in ("dataset", "method")}
            where = cite(location, int(row["line"]), Source("loaders", "line", of_loader, reduce="max"))
            text += fill("; items come from `{}.{}` ({})", row["dataset"], row["method"], where)
            text += _hottest(run, str(row["method"]))
    return {
        "text": text + ".",
        "place": location,
        "what_if": {"data": 0},
        "select": {"phase": "data"},
        **evidence(run.host, run.host.among("phase", ("data",))),
    }


def _hottest(run: AdviceContext, method: str) -> Sentence:
    """Describe the line that takes most time in the dataset's method, if lines were recorded."""
    scope = line_slices(run.trace, run.window)
    where = frames(run.trace)
    inside = np.array([str(name).split(".")[-1] == method for name in where.function], dtype=bool)
    in_method = scope.only(inside[where.code[scope.rows]])
    if not len(in_method.rows):
        return say()
    names = in_method.slices["name"].iloc[in_method.rows].astype("str")
    longest = pd.Series(in_method.end - in_method.ts).groupby(names.to_numpy()).sum().idxmax()
    match = LINE.fullmatch(str(longest))
    if match is None:
        return say()
    table = line_times(run.trace, **run.facts.arguments)
    here = table[(table["line"] == int(match["line"])) & (table["text"] == match["text"])]
    if len(here) != 1:
        return say()
    spent = int(here["total_ns"].iloc[0])
    exact = {"file": here["file"].iloc[0], "line": int(match["line"])}
    took = cite_ns(spent, Source("lines", "total_ns", exact, run.facts.arguments))
    return say(", ", took, f" of it in `{match['text']}` ({match['file']}:{match['line']})")
