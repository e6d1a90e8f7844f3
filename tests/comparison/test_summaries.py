"""Totals of a run answer as the run does, as far as they go."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import notebook_prof as nbp
from notebook_prof.comparison.parts import SMALLER
from notebook_prof.comparison.run import MOST_STEPS, Summary, TraceRun, summary_of
from notebook_prof.errors import OptionError
from notebook_prof.trace import Trace

from .test_comparison import check_sentences, means, recorded, training


def summary(trace: Trace, **options: int) -> Summary:
    return summary_of(TraceRun(nbp.Profile(trace)), **options)


@pytest.fixture(scope="module")
def pair() -> tuple[Trace, Trace]:
    return training({}, 1), training({"cell:3  work(x)": 1.5}, 2)


def test_totals_compare_as_their_recordings_do(pair: tuple[Trace, Trace]) -> None:
    whole, kept = nbp.compare(*pair), nbp.compare(*map(summary, pair))
    mixed = nbp.compare(summary(pair[0]), pair[1])
    for c in (kept, mixed):
        assert c.shift == whole.shift
        assert c.verdict == whole.verdict
        assert c.delta_ns == whole.delta_ns
        for name in ("phases", "operators", "lines", "kernels", "memory", "conditions", "source"):
            pd.testing.assert_frame_equal(getattr(c, name), getattr(whole, name))


@pytest.mark.parametrize("most", [2, 5, 40])
def test_sums_hold_where_small_totals_were_not_kept(data: Path, most: int) -> None:
    a, b = (nbp.open_profile(recorded(data, name)).trace for name in ("cnn_sgd", "cnn_adam"))
    c = nbp.compare(summary(a, most_keys=most), summary(b, most_keys=most))
    of_a, of_b = means(c)
    for table in (c.phases, c.operators, c.lines):
        assert table["delta_ns"].sum() == c.delta_ns == pytest.approx(of_b - of_a, abs=1)
    assert SMALLER in set(c.operators["name"])
    assert not c.operators["change"].isin(["new", "gone"]).any(), "too small to be kept is not gone"
    check_sentences(c)


def test_what_was_not_kept_is_refused_in_a_sentence(pair: tuple[Trace, Trace]) -> None:
    c = nbp.compare(*map(summary, pair))
    with pytest.raises(OptionError, match=r"has totals by phase .*; not by module on the host: .*--keep"):
        c.attribution("module")


def test_of_many_steps_some_are_kept_evenly() -> None:
    trace = training({}, 3, steps=3 * MOST_STEPS)
    kept = summary(trace)
    assert len(kept.steps) == MOST_STEPS
    assert kept.steps["step"].iloc[[0, -1]].tolist() == [0, 3 * MOST_STEPS - 1]
    assert kept.phases().steps == 3 * MOST_STEPS - 1, "totals are those of all"


def test_the_noise_between_runs_may_be_given(pair: tuple[Trace, Trace]) -> None:
    narrow, wide = (nbp.compare(*pair, noise=noise) for noise in (1.0, 4.0))
    assert wide.shift.factor == 4
    assert wide.shift.high - wide.shift.value == pytest.approx(4 * (narrow.shift.high - narrow.shift.value))
    assert "(as noise= says)" in wide.verdict
