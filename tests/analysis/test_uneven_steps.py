"""Advice on steps that take much longer than the others: every number from a public table."""

import numpy as np
import pytest

from notebook_prof import Trace, TraceBuilder
from notebook_prof.analysis import advice, phases, step_breakdown, steps

MS = 10**6


def run_of(durations_ms: list[int], data_ms: list[int]) -> Trace:
    """Steps one after another: waiting for data, then an operator to their end."""
    b = TraceBuilder()
    main = b.track("main", tid=1)
    dur = np.array(durations_ms) * MS
    at = np.append(0, np.cumsum(dur)[:-1])
    data = np.array(data_ms) * MS
    b.steps(np.arange(len(dur)), at, dur, "loop")
    b.slices(ts=at, dur=data, name="next", phase="data", category="io", track=main)
    b.slices(ts=at + data, dur=dur - data, name="aten::mm", phase="forward", track=main)
    return b.seal()


def test_slow_steps_are_named_with_what_they_take_longer() -> None:
    usual, waits = [78, 80, 82, 79, 81, 80, 78, 80, 140, 132], [10] * 8 + [70, 62]
    trace = run_of(usual, waits)
    row = advice(trace).set_index("rule").loc["uneven-steps"]
    dur = steps(trace)["dur"]
    lost = int((dur[dur > 1.25 * dur.median()] - dur.median()).sum())
    assert (row["gain_ns"], row["bound"]) == (lost, True)
    assert row["select"] == {"step": (8, 9)}
    ninth = sorted(dur)[8]
    for piece in (
        f"{dur.median() / MS:.0f} ms at the median",
        f"{ninth / MS:.0f} ms at the 90th percentile",
        "2 of 10 take over 1.25 times the median: step 8 140 ms, step 9 132 ms",
        "together they take 272 ms, 29.9 % of the steps",
        "in the phase data: 66 ms against 10 ms a step",
    ):
        assert piece in row["finding"]
    assert len(row["claims"]) == 8
    assert all(claim.holds(trace) for claim in row["claims"])
    table = phases(trace)
    slow = table[table["step"].isin([8, 9]) & (table["phase"] == "data")]
    assert slow["host_ns"].mean() == 66 * MS
    assert len(step_breakdown(trace, step=8)) == 1


@pytest.mark.parametrize(
    "durations", [[80] * 9 + [82], [78, 140], [100, 110, 95, 105, 120, 90, 100], [80] * 60 + [101]]
)
def test_even_few_or_hardly_slow_steps_are_no_finding(durations: list[int]) -> None:
    assert "uneven-steps" not in set(advice(run_of(durations, [10] * len(durations)))["rule"])


def test_the_phase_that_is_most_of_the_difference_is_named() -> None:
    trace = run_of([80] * 9 + [240], [30] * 9 + [90])
    assert (
        "in the phase forward: 150 ms against 50 ms"
        in advice(trace).set_index("rule").loc["uneven-steps", "finding"]
    )
