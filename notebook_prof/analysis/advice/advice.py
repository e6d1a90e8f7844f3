"""What to try, ranked by the possible gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pandas as pd

from ...trace import Trace
from ...trace.arrays import IntArray
from ...trace.schema import Table
from ...units import format_ns
from ..scope import WindowLike, sharing
from . import arrays, device, host, keeping, loading
from .context import Advice, AdviceContext
from .host import small_operators

RULES = (
    loading.input_bound,
    loading.loader_workers,
    loading.items_one_by_one,
    device.communication_exposed,
    host.recompilations,
    host.uneven_steps,
    host.launch_bound,
    host.unfused_optimizer,
    device.sync_points,
    device.pageable_copies,
    device.copy_bound,
    device.low_occupancy,
    device.tensor_cores_unused,
    *arrays.RULES,
    host.threads_take_turns,
    host.pool_overhead,
    keeping.memory_growth_rule,
    keeping.near_full_memory,
    keeping.fragmented_memory,
    keeping.small_allocations,
)

_COLUMNS: Final = Table.of(
    "advice",
    "rule:str finding:str remedy:str gain_ns:int64 gain_share:float64 gain_bytes:int64 bound:bool place:str "
    "what_if:object count:int64 rows:object select:object claims:object",
)

__all__ = ["RULES", "Advice", "AdviceContext", "small_operators"]


@sharing
def advice(trace: Trace, *, window: WindowLike = None, min_share: float = 0.01) -> pd.DataFrame:
    """List changes that could make the run faster or smaller, with evidence and the size of the gain.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns: judge only this part.
    min_share : float
        Leave out advice on time that would save less than this share of the measured time.

    Returns
    -------
    DataFrame
        By gain, largest first, time before memory; empty if no rule applies.

        - ``rule`` str: about data ``input-bound dataloader-workers items-one-by-one``; about pandas and NumPy
          ``pandas-apply-rows pandas-iterrows pandas-python-function pandas-scalar-access object-column
          growing-array repeated-copies pandas-chained-indexing numpy-vectorize``; of
          threads and processes ``threads-take-turns pool-overhead``; of training ``recompilations
          uneven-steps unfused-optimizer communication-exposed launch-bound sync-points pageable-copies
          copy-bound low-occupancy tensor-cores-unused``; of memory ``memory-growth memory-near-full
          memory-fragmented small-allocations``;
        - ``finding`` str: what was found, with its numbers; ``remedy`` str: what to try;
        - ``gain_ns`` int64: expected saving, without the cost of recording; ``gain_share`` float64: of the
          cell, else of the steps or of all work, without one-time work; ``gain_bytes`` int64: saved memory,
          per step for ``memory-growth``;
        - ``bound`` bool: the gain is an upper bound; otherwise the remedy saved this much on a program of
          ``benchmarks/advice.py``;
        - ``place`` str: the line that the advice is about, like ``cell:7``; for rules on slices, the line
          with most of the evidence's time; empty if there is none;
        - ``what_if`` object: a dict of arguments of `what_if`, whose answer bounds ``gain_ns``, or empty;
        - ``count`` int64: number of slices in the evidence; ``rows`` object: int64 array of row numbers in
          ``trace.slices`` of at most the 1,000 longest;
        - ``select`` object: a dict that selects the evidence: ``p.selection.update(**row.select)``;
        - ``claims`` object: tuple of `Claim`, the numbers of `finding` and the public tables that have them.

        ``attrs["withheld"]`` maps each rule that was left out to the reason: the recording cannot support it,
        or `what_if` finds no shorter steps.

    Notes
    -----
    Gains are not independent: work that is launched faster may then wait for data. One-time work is excluded
    first (see `one_time`). Each rule is a function in `notebook_prof.analysis.advice`.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... steps: [0                               ]
    ... main:  [next/data          ][mm/forward]
    ... ''', unit_ns=1_000_000)
    >>> advice(trace)[["rule", "bound", "select"]].values.tolist()
    [['dataloader-workers', True, {'phase': 'data'}]]
    """
    run = AdviceContext(trace, window)
    findings = [finding for rule in RULES if run.facts.total_ns and (finding := rule(run)) is not None]
    findings = [item for item in findings if item.gain_bytes or item.gain_ns >= min_share * run.total_ns]
    findings = _replayed(run, findings, round(min_share * run.total_ns))
    findings.sort(key=lambda item: (-item.gain_ns, -item.gain_bytes))
    gains = [min(item.gain_ns, run.plain_ns) for item in findings]
    rows = [
        {
            **{name: getattr(item, name) for name in ("gain_bytes", "bound", "count", "rows")},
            "rule": item.code,
            "finding": str(item.text),
            "remedy": item.advice,
            "gain_ns": gain,
            "gain_share": gain / run.plain_ns,
            "place": item.place or line_of(trace, item.rows),
            "what_if": {**item.what_if, **run.replay_arguments} if item.what_if else {},
            "select": dict(item.select),
            "claims": getattr(item.text, "claims", ()),
        }
        for item, gain in zip(findings, gains, strict=True)
    ]
    table = _COLUMNS.of_rows(rows)
    if run.facts.total_ns and (why := small_operators(run)):
        run.withheld["small-operators"] = why
    table.attrs["withheld"] = dict(run.withheld)
    return table


def line_of(trace: Trace, rows: IntArray) -> str:
    """Return the line that takes over half of these slices' time; empty if there is none."""
    evidence = trace.slices.iloc[rows]
    dur = evidence.groupby("line", observed=True)["dur"].sum()
    if 2 * int(dur.max() if len(dur) else 0) <= int(evidence["dur"].sum()):
        return ""
    return str(dur.idxmax())


def _replayed(run: AdviceContext, findings: Sequence[Advice], least_ns: int) -> list[Advice]:
    """Limit gains by the replay; drop findings that would shorten the steps by less than `least_ns`."""
    out = []
    for item in findings:
        most = run.most_gain_ns(item.what_if)
        if most is None:
            out.append(replace(item, what_if={}))
        elif most >= least_ns or item.gain_bytes:
            out.append(replace(item, gain_ns=min(item.gain_ns, most)))
        else:
            said, shorter = str(item.text).removesuffix("."), format_ns(most / run.facts.count)
            run.withheld[item.code] = (
                f"{said}, but steps without that would be shorter by {shorter} at most: something else takes "
                "as long beside it"
            )
    return out
