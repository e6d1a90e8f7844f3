"""What bounds a run by its verdict, and what its critical path says: the two do not contradict each other."""

import importlib

import pandas as pd
import pytest

from notebook_prof import Trace, read_trace
from notebook_prof.analysis import critical_path_next, verdict, what_if
from notebook_prof.analysis.critical_path.walk import IN_WORDS
from notebook_prof.analysis.verdict.device import HOST
from notebook_prof.analysis.verdict.inputs import VerdictInputs, gather
from notebook_prof.errors import OptionError
from notebook_prof.testing import draw
from tests.programs import Run, program

from .. import samples
from ..draws import draws

BINDS = {
    "launch-bound": HOST,
    "overhead-bound": HOST,
    "python-bound": ("python", "data"),
    "communication-bound": ("communication", "wait-wakeup"),
    "input-bound": ("data", "wait-wakeup"),
    "sync-bound": ("sync", "wait-wakeup"),
}
"""Classes of the path that each kind of verdict stands on."""
NOTICEABLE = 0.25
"""Waiting for data or other ranks is said before what takes more: it is time in which nothing is done."""


def classes_of(facts: VerdictInputs, kind: str) -> tuple[str, ...]:
    if kind == "compute-bound":
        return ("kernel", "copy", "communication") if len(facts.device) else HOST
    return BINDS.get(kind, ())


def check_bound(trace: Trace) -> None:
    """What bounds a run holds most of its path."""
    result, facts = verdict(trace), gather(trace)
    classes = classes_of(facts, result.kind)
    if facts.path is None or not classes:
        return
    share = facts.path.loc[facts.path.index.isin(classes), "share"].sum()
    waits = result.kind in ("communication-bound", "input-bound", "sync-bound")
    assert share >= (NOTICEABLE if waits else 0.5)


def test_what_would_bind_next_is_what_the_replay_says() -> None:
    """The table is `what_if` for the class, and its sums are those of the paths."""
    for seed in range(draws(12)):
        trace = Run(program(seed)).trace()
        table = critical_path_next(trace, count=9)
        assert table["path_ns"].is_monotonic_decreasing
        assert (table["class"] != "idle").all()
        for row in table.to_dict("records"):
            assert row["reason"] == ""
            assert 0 <= row["next_ns"] <= row["left_ns"] <= trace.span.end
            assert row["left_share"] == pytest.approx(row["left_ns"] / trace.span.end)
        kernels = table.set_index("class").loc["kernel"]
        answer = what_if(trace, scale={"category=kernel": 0.0})
        assert kernels["left_ns"] == answer.after
        assert kernels["next"] == answer.classes["class"].iloc[0]


def test_without_what_decides_the_other_does() -> None:
    """A slow host and a slow device, each with the other beside it."""
    trace = draw(
        """
        main:     [aten][mm][add          ][sync                ][end]
        stream 7:          [gemm                          ]
        """,
        launches=[("mm", "gemm")],
        categories={"sync": "sync", "mm": "launch"},
    )
    table = critical_path_next(trace, count=1)
    assert table[["class", "next"]].values.tolist() == [["kernel", "host-operator"]]
    assert table["left_ns"].item() < trace.span.end


def test_the_line_says_what_would_be_left() -> None:
    trace = read_trace(samples.path_of("data/torch213_cpu/cnn_adam.pt.trace.json.gz"))
    result, facts = verdict(trace), gather(trace)
    line = next(line for line in result.lines if line.startswith("Critical path: "))
    row = facts.next_class
    assert row is not None
    assert f"; if {IN_WORDS[row['class']]} took no time, " in line
    assert line.endswith(f" of it {IN_WORDS[row['next']]}")
    claims = [claim for claim in result.claims if claim.table == "critical_path_next"]
    assert len(claims) == 2
    assert all(claim.holds(trace) for claim in claims)


def test_a_class_that_takes_no_time_is_not_said_to_be_next(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = read_trace(samples.path_of("data/torch213_cpu/cnn_adam.pt.trace.json.gz"))

    def own(*arguments: object, **options: object) -> pd.DataFrame:
        table = critical_path_next(*arguments, **options)  # type: ignore[arg-type]
        return table.assign(next=table["class"])

    module = importlib.import_module("notebook_prof.analysis.critical_path.replay.what_if")
    monkeypatch.setattr(module, "critical_path_next", own)
    assert not any("took no time" in line for line in verdict(trace).lines)


def test_communication_is_not_thought_away() -> None:
    """How long it takes without other ranks to wait for, one recording does not tell."""
    trace = read_trace(samples.path_of("data/torch213_cpu/ddp_gloo_rank0.pt.trace.json.gz"))
    line = next(line for line in verdict(trace).lines if line.startswith("Critical path: communication"))
    assert "took no time" not in line


def test_what_cannot_be_asked() -> None:
    for count in (0, -1, True, 1.5):
        with pytest.raises(OptionError, match="not a number of classes"):
            critical_path_next(draw("main: [mm]"), count=count)  # type: ignore[arg-type]
