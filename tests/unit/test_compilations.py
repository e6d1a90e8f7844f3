"""What torch.compile compiled: TorchDynamo's own record, as tables, in the verdict and after saving."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import notebook_prof as nbp
from notebook_prof.collectors.torch.collector import put_compilations
from notebook_prof.formats.torch.compile_log import compilation_row
from notebook_prof.statistics import counted_steps
from notebook_prof.trace import TraceBuilder
from notebook_prof.trace.report import ImportReport
from notebook_prof.views.tabs.overview import overview

SECOND = 1_000_000_000


def scaled(x, k):  # type: ignore[no-untyped-def]
    y = x.relu() * k
    print("graph break")
    return y.sum()


LINE = scaled.__code__.co_firstlineno


@pytest.fixture(scope="module")
def compiled() -> nbp.Profile:
    torch = pytest.importorskip("torch")
    torch.compiler.reset()
    function = torch.compile(scaled, backend="aot_eager")
    weights = torch.ones(4, 4, requires_grad=True)
    with nbp.profile("torch", memory=False) as p:
        for k in (1, 1, 2):
            function(weights, k).backward()
    return p


def test_each_compilation_is_a_row_with_its_reason(compiled: nbp.Profile) -> None:
    table = compiled.compilations()
    here = str(Path(__file__))
    first, resumed = (table[table["place"] == f"{here}:{line}"] for line in (LINE, LINE + 2))
    assert first["function"].tolist() == ["scaled", "scaled"]
    assert first["guard"].tolist() == ["", "k == 1"]
    assert first["guard_place"].tolist() == ["", f"{here}:{LINE + 1}"]
    assert resumed["resumed"].all()
    assert len(resumed)
    assert (first["operators"] == 2).all()
    assert (first["guards"] > 0).all()
    parts = table[["dynamo_ns", "aot_ns", "inductor_ns", "codegen_ns"]]
    assert (parts >= 0).all(axis=None)
    assert (parts.sum(axis=1) == table["dur"]).all()
    assert (table["ts"].diff().dropna() >= 0).all()
    assert (table["dur"] > 0).all()
    assert table["dur"].sum() < compiled.trace.span.dur
    assert not table["cached"].any()


def test_graph_breaks_have_a_line_and_a_reason(compiled: nbp.Profile) -> None:
    table = compiled.compilations.graph_breaks()
    assert table["place"].tolist() == [f"{Path(__file__)}:{LINE + 2}"]
    assert table["function"].tolist() == ["scaled"]
    assert "print" in table["reason"].iloc[0] or "builtin" in table["reason"].iloc[0]
    rows = compiled.compilations()
    assert table["total_ns"].sum() == rows.loc[rows["resumed"], "dur"].sum()


def test_the_verdict_says_it_and_can_prove_it(compiled: nbp.Profile) -> None:
    verdict = compiled.verdict
    (line,) = [line for line in verdict.lines if line.startswith("torch.compile: ")]
    assert "with 1 recompilation: `k == 1` no longer held" in line
    assert "1 graph break, the first at " in line
    number = next(n for n, text in enumerate(verdict.lines) if text == line)
    claims = [claim for claim in verdict.claims if claim.line == number]
    assert len(claims) >= 6
    assert all(claim.holds(compiled.trace) for claim in claims)


def compiled_row(begin_us: int, took_ms: int, number: int, guard: str = "") -> dict[str, Any]:
    """What TorchDynamo reports about a compilation of the function in line 3 of a file."""
    place = {"co_name": "f", "co_filename": "a.py", "co_firstlineno": 3, "compile_id": f"0/{number}"}
    times = {"start_time_us": begin_us, "duration_us": 1000 * took_ms}
    return compilation_row({**place, **times, "recompile_reason": f"0/0: {guard}" if guard else None}.get)


def test_it_is_in_the_overview_and_survives_saving(compiled: nbp.Profile, tmp_path: Path) -> None:
    panel = overview(compiled.trace, {})
    calls = [getattr(part, "call", "") for part in getattr(panel, "parts", ())]
    assert {"p.compilations()", "p.compilations.graph_breaks()"} <= set(calls)
    compiled.save(tmp_path / "run.nbprof")
    again = nbp.open_profile(tmp_path / "run.nbprof")
    assert again.compilations().equals(compiled.compilations())
    assert again.compilations.graph_breaks().equals(compiled.compilations.graph_breaks())


def _metrics(begin_us: int, **fields: object) -> SimpleNamespace:
    return SimpleNamespace(start_time_us=begin_us, duration_us=100, compile_id="0/0", **fields)


def test_other_versions_of_torch_may_tell_less(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = time.time_ns() // 1000
    reasons = ["0/0: len(x) == 3", "tensor 'x' size mismatch  # y = x  # a.py:5 in f\nmore"]
    rows = [_metrics(begin - 10), *(_metrics(begin + 10, recompile_reason=one) for one in reasons)]
    rows.append(_metrics(begin + 20, fail_reason="Unsupported: a generator\nmore", co_name=None))
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", SimpleNamespace(_compilation_metrics=rows))
    b = TraceBuilder()
    b.slices(ts=[begin * 1000], dur=[SECOND], name=["mm"], track=b.track("main"))
    put_compilations(b, ImportReport(), begin)
    table = nbp.analysis.compilations(b.seal())
    assert table["guard"].tolist() == ["len(x) == 3", "tensor 'x' size mismatch", ""]
    assert table["failure"].tolist() == ["", "", "Unsupported: a generator"]
    assert table["ts"].tolist() == [10_000, 10_000, 20_000], "what came before the cell is not its own"
    assert table["step"].isna().all()


def steps_of(durations: list[int], compiled: dict[int, tuple[str, int]]) -> nbp.Trace:
    """Steps of these ms, in some of which something compiles: its guard and its ms."""
    builder = TraceBuilder()
    main = builder.track("main")
    dur = 1_000_000 * np.array(durations)
    ts = np.cumsum(dur) - dur
    builder.slices(ts=ts, dur=dur, name="work", track=main)
    builder.steps(list(range(len(ts))), ts, dur, "loop")
    if compiled:
        rows = (
            compiled_row(int(ts[at]) // 1000 + 10, took, at, guard) for at, (guard, took) in compiled.items()
        )
        builder.table("compilations", pd.DataFrame(rows))
    return builder.seal()


def test_steps_that_compile_do_not_count() -> None:
    durations = [900, 11, 10, 11, 10, 300, 10, 11, 10, 11]
    trace = steps_of(durations, {0: ("", 890), 5: ("k == 1", 280)})
    assert np.flatnonzero(counted_steps(trace)["used"]).tolist() == [1, 2, 3, 4, 6, 7, 8, 9]
    plain = steps_of(durations, {})
    assert np.flatnonzero(counted_steps(plain)["used"]).tolist() == list(range(1, 10))
    always = steps_of(durations, {i: (f"n == {i}", 5) for i in range(10)})
    assert np.flatnonzero(counted_steps(always)["used"]).tolist() == list(range(1, 10)), "that is how it runs"


def test_advice_names_what_was_compiled_again() -> None:
    trace = steps_of([900, 11, 10, 11, 10, 300, 10, 11, 200, 11], {0: ("", 890), 5: ("k == 1", 280)})
    table = nbp.analysis.advice(trace).set_index("rule")
    row = table.loc["recompilations"]
    said = "torch.compile recompiled 1 time during the steps, in 280 ms, 48.8 % of the steps: "
    assert row["finding"] == said + "`k == 1` no longer held."
    assert row["gain_ns"] == 280_000_000
    assert row["place"] == "a.py:3"
    assert row["bound"]
    assert row["select"] == {"step": (5,)}
    assert all(claim.holds(trace) for claim in row["claims"])
    assert "step 8 200 ms" in table.loc["uneven-steps", "finding"]
    assert "step 5" not in table.loc["uneven-steps", "finding"], "its reason is told"
    assert "recompilations" not in set(nbp.analysis.advice(steps_of([11] * 8, {0: ("", 5)}))["rule"])
