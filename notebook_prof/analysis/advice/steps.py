"""Rules for slow steps, and for steps in which ``torch.compile`` recompiles."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from ...statistics import compiling
from ...units import format_items
from ..source.compilations import compilations
from ..time.phases import phases
from ..verdict.claims import Sentence, Source, cite, cite_ns, fill, say, short
from .context import Advice, AdviceContext

SLOW: Final = 1.25
"""A slow step takes at least this many times the median."""
WORTH: Final = 0.05
"""Slow steps are reported if their time above the median is at least this share of the measured time."""
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
    middle, high = (Source("steps", "dur", where, run.looking, reduce) for reduce in ("median", "p90"))
    numbers = tuple(sorted(int(number) for number in slow["step"]))
    together = Source("steps", "dur", {**where, "step": numbers}, run.looking)
    named = []
    for number in slow["step"].head(_NAMED).tolist():
        source = Source("steps", "dur", {**where, "step": number}, run.looking)
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
    """Return the phase, in words, that takes most of the slow steps' extra time, if one does."""
    table = phases(run.trace, **run.looking)
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
        source = Source("phases", "host_ns", {"phase": phase, "step": own}, run.looking, "mean")
        claims.append(cite_ns(mean, source))
    return fill(" Most of the difference is in the phase {}: {} against {} a step.", phase, *claims)
