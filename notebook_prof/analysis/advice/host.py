"""Rules for the host: launches, small operators, optimizers, threads, pools, slow steps, compiling."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from ...statistics import compiling
from ...trace import DEVICE_CATEGORIES, length
from ...units import format_count, format_items
from ..source.compilations import compilations
from ..source.lines import line_slices, line_times
from ..time.cpu import cpu_clocks
from ..time.phases import phases
from ..verdict.claims import Claim, Sentence, Source, cite, cite_ns, cite_share, fill, say, short
from ..work.arguments import OPTIMIZER_STEP
from .arrays import line_evidence
from .context import WORTH, Advice, AdviceContext, evidence, named

_IDLE: Final = 0.1
_COSTLY: Final = 1.2
"""Slowdown by recording (recorded over plain time) above which small operators cannot be judged."""
_MANY: Final = 50
_UNFUSED: Final = 0.05
_MOMENTS: Final = frozenset({"aten::lerp_", "aten::addcdiv_", "aten::addcmul_"})
"""Operators that distinguish Adam from plain SGD, which gains nothing from fusion."""
FUSED: Final = 0.7
"""Share of Adam's step time that fused=True saves on a CPU; see ``benchmarks/advice.py``."""


def launch_bound(run: AdviceContext) -> Advice | None:
    """Find devices that wait for the host to launch work."""
    idle = run.idle
    if not len(idle):
        return None
    devices = max(idle["device"].nunique(), 1)
    spent = int((idle["host_ns"] + idle["launch_ns"]).sum()) // devices
    if spent < _IDLE * run.total_ns:
        return None
    causes = ("host-bound", "launch-latency")
    waited, window = (
        Source("idle_causes", column, {"cause": cause}, {"window": run.idle_window})
        for column, cause in (("idle_ns", causes), ("window_ns", causes[0]))
    )
    share = cite_share(waited.evaluate(run.trace) / window.evaluate(run.trace), waited, window)
    # filters of `what_if` that match all device work
    work = [f"category={name}" for name in DEVICE_CATEGORIES if run.device.among("category", (name,)).any()]
    busy = run.device.open(np.ones(len(run.device.rows), bool))  # steps take at least this long
    return Advice(
        "launch-bound",
        fill("The device waits for the host {} of its time.", share),
        "Give it more work at once: a larger batch, torch.compile (mode='reduce-overhead' uses CUDA graphs), "
        "fused or foreach optimizers, and less Python between operators.",
        gain_ns=min(spent, max(run.total_ns - length(busy), 0)),
        bound=True,
        what_if={"scale": {"*": 0, **dict.fromkeys(work, 1)}, "launch": 0},
        select={"category": "launch"},
        **evidence(run.host, run.host.among("category", ("launch",))),
    )


def small_operators(run: AdviceContext) -> str:
    """Explain why small operators are not judged; empty if there are few, or recording hardly slowed them."""
    # There is no rule for small operators: where they bound the steps, recording costs as much time as they
    # do, so a saving cannot be predicted. For a loop over the rows of a tensor, the predicted saving was half
    # of the actual one.
    if len(run.device.rows) or run.facts.calls < _MANY * run.facts.count:
        return ""
    total = max(run.facts.total_ns, 1)
    slowdown = total / max(total - run.cost_ns(), total / 10)  # estimated from the number of slices
    if slowdown <= _COSTLY:
        return ""
    return (
        f"recording made the code take about {slowdown:.1f} times as long, mostly in small operators: "
        "they cannot be judged from this recording"
    )


def unfused_optimizer(run: AdviceContext) -> Advice | None:
    """Find an optimizer that steps parameter by parameter."""
    spent = run.facts.phase_ns.get("optimizer", 0)
    if spent / run.total_ns < _UNFUSED:
        return None
    host = run.host
    of_optimizer = host.among("phase", ("optimizer",)) & host.among("category", ("operator",))
    calls = int(of_optimizer.sum())
    joined = of_optimizer & named(host, ("_foreach_", "_fused_", "fused_adam", "multi_tensor"))
    if calls < _MANY * run.facts.count or joined.any():
        return None
    found = evidence(host, of_optimizer)
    took = Source("phases", "host_ns", {"phase": "optimizer"}, run.facts.arguments)
    finding = fill(
        "The optimizer takes {}{}{}, in {} operators{}.",
        *(run.each(spent, took), run.a_step, run.share(spent, took)),
        *(format_count(calls // run.facts.count), run.a_step),
    )
    if len(run.device.rows):
        idle = run.idle[(run.idle["phase"] == "optimizer").to_numpy()] if len(run.idle) else run.idle
        gain = int((idle["host_ns"] + idle["launch_ns"]).sum()) // max(run.idle["device"].nunique(), 1)
        return Advice(
            "unfused-optimizer",
            finding,
            "Step all parameters at once: fused=True in torch.optim's Adam, AdamW and SGD. Without "
            f"foreach=False the default does so too.{_trial(run)}",
            gain_ns=min(gain, spent),
            bound=True,
            what_if={"phase": {"optimizer": 0}},
            select={"phase": "optimizer"},
            **found,
        )
    names = {str(word) for word in host.slices["name"].iloc[found["rows"]].astype("str").unique()}
    if not names & _MOMENTS:
        return None
    if why := small_operators(run):
        run.withheld["unfused-optimizer"] = why
        return None
    return Advice(
        "unfused-optimizer",
        finding,
        "Step all parameters at once: fused=True in torch.optim's Adam and AdamW; without an accelerator it "
        f"is not the default.{_trial(run)}",
        gain_ns=int((spent - run.cost_ns(host.among("phase", ("optimizer",)))) * FUSED),
        select={"phase": "optimizer"},
        **found,
    )


def _trial(run: AdviceContext) -> str:
    """Return the call that tries a fused step, if PyTorch's range around the step was recorded."""
    names = [str(name) for name in run.trace.slices["name"].cat.categories]
    steps = [name for name in names if OPTIMIZER_STEP.fullmatch(name)]
    return f" p.replay({steps[0]!r}, 'fused') tries it." if len(steps) == 1 else ""


PROCESS_NS: Final = 40_000_000
"""Time to fork a Python process, give it work and end it; see ``benchmarks/advice.py``."""
_ALONE: Final = 1.25
"""Threads that together use fewer cores than this take turns."""
_BUSY: Final = 0.15
"""A thread counts if it has at least this share of the CPU time of all threads."""
_WASTE: Final = 1.5
"""A pool that takes this many times the CPU time of its processes costs more than it saves."""
_RECORDERS: Final = ("py-spy", "sh -c read go", "notebook_prof")
"""Prefixes of the commands of recorders' processes, which are not the user's children."""
_POOLS: Final = ("multiprocessing.pool", "concurrent.futures.process", "joblib.parallel")
_LEAST_WORK_NS: Final = 1_000_000
"""Minimum CPU time of a pool's processes. Below it, joblib used threads or ran everything in the caller."""


def threads_take_turns(run: AdviceContext) -> Advice | None:
    """Find threads that compute in Python one at a time, because of the interpreter lock."""
    own = run.trace.metadata.get("cpu", {})
    clocks = {clock.tid: clock for clock in cpu_clocks(run.trace) if clock.pid == own.get("pid")}
    if not clocks or run.cpus < 2 or not run.machine.get("gil", True):
        return None
    scope = line_slices(run.trace, run.whole_window)
    if not len(scope.rows):
        return None
    track = scope.ints("track")
    spans = pd.DataFrame({"track": track, "ts": scope.ts, "end": scope.end}).groupby("track")
    spans = spans.agg(ts=("ts", "min"), end=("end", "max"))
    tracks = run.trace.tracks.set_index("track").reindex(spans.index)
    spans["tid"], spans["pid"] = tracks["tid"], tracks["pid"]
    spans = spans[spans["tid"].notna() & (spans["pid"] == own.get("pid")) & (spans["tid"] != own.get("tid"))]
    if len(spans) < 2:
        return None
    begin, end = int(spans["ts"].max()), int(spans["end"].min())
    together = end - begin
    if together < WORTH * run.total_ns:
        return None
    each = {int(tid): clocks[tid].between(begin, end) for tid in spans["tid"] if tid in clocks}
    whole = sum(spent for spent, _ in each.values())
    computing = [tid for tid, (spent, _) in each.items() if spent >= _BUSY * whole]
    # a thread that waits for a core has work, too: another program may hold the core
    work, ready = (sum(each[tid][i] for tid in computing) for i in (0, 1))
    if len(computing) < 2 or work + ready < 0.5 * together or work > _ALONE * together:
        return None
    side_by_side = min(len(computing), run.cpus)
    computes = np.isin(track, spans.index[spans["tid"].isin(computing)])
    found = evidence(scope, computes)
    line = line_times(run.trace, **run.asking)
    names = scope.slices["name"].iloc[found["rows"]].astype("str")
    endings = ":" + line["line"].astype(str) + "  " + line["text"]
    hottest = line[[any(name.endswith(ending) for name in names[:1]) for ending in endings]]
    if not len(hottest):
        return None
    first = hottest.iloc[0]
    location = f"{first['file']}:{int(first['line'])}"
    return Advice(
        "threads-take-turns",
        fill(
            "{} compute in Python at the same time and get at most about one core between them: they take "
            "turns, in `{}` ({}), which takes {} on all threads together.",
            *(format_items(len(computing), "thread"), first["text"], location, _line_claim(run, first)),
        ),
        "Use processes: concurrent.futures.ProcessPoolExecutor in place of ThreadPoolExecutor, or functions "
        "that release the GIL while they compute, as NumPy's do on large arrays.",
        gain_ns=max(work - work // side_by_side - PROCESS_NS * side_by_side, 0),
        place=location,
        select={"name": sorted(set(names))},
        **found,
    )


def pool_overhead(run: AdviceContext) -> Advice | None:
    """Find a process pool that takes longer than its work would take in this process."""
    clocks, calls = cpu_clocks(run.trace), run.line_calls
    if not clocks or not len(calls):
        return None
    pools = calls[calls["module"].str.startswith(_POOLS)]
    keys = ["file", "line"]
    table = line_times(run.trace, **run.asking).merge(pools[keys].drop_duplicates(), on=keys)
    if not len(table):
        return None
    table = table[table["file"] == table["file"].iloc[0]]
    # the time with any of these lines open, on the thread where they took most
    scope = line_slices(run.trace, run.whole_window)
    endings = tuple(":" + table["line"].astype(str) + "  " + table["text"])
    of_lines, track = scope.named(lambda name: name.endswith(endings)), scope.ints("track")
    spent = min(max(length(scope.open(of_lines & (track == one))) for one in np.unique(track)), run.total_ns)
    own = run.trace.metadata.get("cpu", {}).get("pid")
    children = [one for one in clocks if one.pid != own and one.tid == -1]
    used = [one.between(*one.ts[[0, -1]]) for one in children if not one.name.startswith(_RECORDERS)]
    work = sum(spent for spent, _ in used)
    ready = work + sum(waited for _, waited in used)  # other programs may hold the cores
    if work < _LEAST_WORK_NS or spent < WORTH * run.total_ns or spent < _WASTE * ready:
        return None
    first = table.iloc[0]
    computed = Source("cpu_use", "children_ns", arguments=run.asking)
    location = f"{first['file']}:{int(first['line'])}"
    return Advice(
        "pool-overhead",
        fill(
            "The process pool in `{}` ({}) takes {}, and its processes compute for {} in all: the rest is "
            "spent on starting them and on sending values back and forth.",
            *(first["text"], location, _line_claim(run, first)),
            cite_ns(int(computed.evaluate(run.trace)), computed),
        ),
        "Do this work in the cell itself; or send less: larger pieces (chunksize=…), a file name or a range "
        "instead of the data; and reuse the pool for several calls.",
        gain_ns=spent - ready,
        place=location,
        **line_evidence(run, first),
    )


def _line_claim(run: AdviceContext, row: pd.Series[Any]) -> Claim:
    where = {"file": row["file"], "line": int(row["line"])}
    return cite_ns(int(row["total_ns"]), Source("lines", "total_ns", where, run.asking))


SLOW: Final = 1.25
"""A step is slow if it takes at least this many times the median."""
_FEWEST: Final = 5
_NAMED: Final = 5
_MOSTLY: Final = 0.5
_LONGEST_GUARD: Final = 60


def recompilations(run: AdviceContext) -> Advice | None:
    """Find steps that recompiled a function because a guard failed."""
    # The gain is the time of recompiling, forward and backward. It is a bound, since code for changing shapes
    # may be slower.
    table = compilations(run.trace)
    again = table.loc[table["guard"] != "", "id"]
    steps = [int(number) for number in run.facts.steps["step"]] if len(run.facts.steps) else []
    table = table[table["id"].isin(list(again)) & table["step"].isin(steps)]
    guarded = table[table["guard"] != ""]
    if not len(guarded):
        return None
    where: dict[str, Any] = {
        "id": tuple(sorted(set(table["id"]))),
        "step": tuple(sorted({int(number) for number in table["step"]})),
    }
    total = Source("compilations", "dur", where)
    longest = guarded.loc[guarded["dur"].idxmax()]
    one = {"ts": int(longest["ts"]), "id": str(longest["id"])}
    guard, line = str(longest["guard"]), str(longest["guard_place"])
    lost = int(table["dur"].sum())
    number = format_items(len(guarded), "time")
    at = say(" (", cite(line, line, Source("compilations", "guard_place", one)), ")") if line else say()
    why = cite(short(guard, _LONGEST_GUARD), guard, Source("compilations", "guard", one))
    sentence = fill(
        "torch.compile recompiled {} during the steps, in {}{}: `{}` no longer held{}.",
        *(number, cite_ns(lost, total), run.share(lost, total), why, at),
    )
    return Advice(
        "recompilations",
        sentence,
        "Make this condition hold: pad batches to few shapes, drop the last one, pass changing numbers as "
        "tensors; or declare what changes: torch.compile(dynamic=True), "
        "torch._dynamo.mark_dynamic(x, 0). p.compilations() lists every reason.",
        gain_ns=lost,
        bound=True,
        place=line or str(longest["place"]),
        select={"step": where["step"]},
    )


def uneven_steps(run: AdviceContext) -> Advice | None:
    """Find steps over 1.25 times the median in the loop that takes most time."""
    # The gain is the time above the median. It is a bound, since some of that work may be needed.
    steps = run.facts.steps
    where: dict[str, Any] = {}
    if "loop" in steps and len(steps):
        loop = steps.groupby("loop")["dur"].sum().idxmax()
        where, steps = {"loop": loop}, steps[steps["loop"] == loop]
    if len(steps) < _FEWEST:
        return None
    spans = steps["ts"].to_numpy(np.int64), steps["dur"].to_numpy(np.int64)
    compiled = compiling(run.trace, *spans)  # `recompilations` reports these
    median = float(steps["dur"].median())
    slow = steps[(steps["dur"] > SLOW * median) & ~compiled]
    slow = slow.sort_values("dur", ascending=False, kind="stable")
    lost = int((slow["dur"] - median).sum())
    if lost < WORTH * run.total_ns:
        return None
    middle, high = (
        Source("steps", "dur", where, run.facts.arguments, reduce) for reduce in ("median", "p90")
    )
    numbers = tuple(sorted(int(number) for number in slow["step"]))
    together = Source("steps", "dur", {**where, "step": numbers}, run.facts.arguments)
    named = []
    for number in slow["step"].head(_NAMED).tolist():
        source = Source("steps", "dur", {**where, "step": number}, run.facts.arguments)
        took = cite_ns(int(source.evaluate(run.trace)), source, {"step": number})
        named.append(say(f"step {number} ", took))
    more = f" and {format_items(len(slow) - _NAMED, 'more step')}" if len(slow) > _NAMED else ""
    whole = int(slow["dur"].sum())
    sentence = fill(
        "Steps take {} at the median and {} at the 90th percentile. {} of {} take over {} times the median: "
        "{}{}; together they take {}{}.{}",
        *(cite_ns(median, middle), cite_ns(high.evaluate(run.trace), high), len(slow), len(steps)),
        *(f"{SLOW:g}", say(*named, between=", "), more, cite_ns(whole, together)),
        *(run.share(whole, together), _phase(run, slow, steps)),
    )
    first = int(slow["step"].iloc[0])
    return Advice(
        "uneven-steps",
        sentence,
        f"Compare a slow step with a usual one: select step {first} and see what takes longer, or call "
        f"p.steps.breakdown(step={first}). Usual causes: late data, batches of other shapes, evaluation or "
        "checkpoints inside the loop, garbage collection, another process.",
        gain_ns=lost,
        bound=True,
        select={"step": numbers},
    )


def _phase(run: AdviceContext, slow: pd.DataFrame, steps: pd.DataFrame) -> Sentence:
    """Return, in words, the phase with most of the slow steps' extra time; empty if there is none."""
    table = phases(run.trace, **run.facts.arguments)
    numbers = tuple(int(number) for number in slow["step"])
    others = tuple(int(number) for number in steps["step"] if int(number) not in set(numbers))
    of_slow, of_others = (
        table[table["step"].isin(list(own))].groupby("phase", observed=True)["host_ns"].mean()
        for own in (numbers, others)
    )
    longer = (of_slow - of_others).drop("other", errors="ignore")
    whole = float(slow["dur"].mean() - steps.loc[~steps["step"].isin(list(numbers)), "dur"].mean())
    if not len(longer) or not others or longer.max() < _MOSTLY * whole:
        return say()
    phase = str(longer.idxmax())
    claims = []
    for mean, own in ((float(of_slow[phase]), numbers), (float(of_others[phase]), others)):
        source = Source("phases", "host_ns", {"phase": phase, "step": own}, run.facts.arguments, "mean")
        claims.append(cite_ns(mean, source))
    return fill(" Most of the difference is in the phase {}: {} against {} a step.", phase, *claims)
