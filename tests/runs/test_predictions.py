"""p.predictions(): what was asked for by name, and what a later run, %%profile_ab or nbp.compare measured."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import notebook_prof as nbp
from notebook_prof.profiles import predictions as module
from notebook_prof.profiles.predictions import PREDICTIONS, Gain, Ledger, Prediction
from notebook_prof.runs import ledger
from notebook_prof.runs.ledger import BY_TURNS, measured_by_turns
from notebook_prof.runs.store import Store

from .test_before import SOURCE, keep, recorded, steps

FASTER = SOURCE.replace("work(x)", "work(x, fast=True)")


def asked(p: nbp.Profile, factor: float = 0.7) -> float:
    answer = p.what_if(line={3: factor})
    assert answer.gain is not None
    return float(answer.gain)


def test_a_later_run_of_the_cell_measures_what_was_predicted(history: Path) -> None:
    p = keep(recorded(steps(1)))
    gain = asked(p)
    table = p.predictions()
    PREDICTIONS.validate(table)
    assert table[["kind", "question", "gain_ns", "by"]].values.tolist() == [
        ["what_if", "line 3 × 0.7", gain, ""]
    ]
    assert table["run"].tolist() == [1]
    assert table[["measured_ns", "ratio"]].isna().all(axis=None)
    keep(recorded(1.1 * steps(2)))  # the same program: nothing was followed
    assert p.predictions()["by"].tolist() == [""]
    keep(recorded(steps(3)), FASTER, failed=True)
    assert p.predictions()["by"].tolist() == [""]
    q = keep(recorded(0.8 * steps(3)), FASTER)
    row = q.predictions().iloc[0]
    assert (row["by"], row["run"]) == ("run 4", 1)
    c = nbp.compare(nbp.load(1), nbp.load(4))  # steps of two runs, whose noise is assumed here as there
    before = c.steps.loc[(c.steps["side"] == "a") & c.steps["used"], "dur_ns"].mean()
    assert row["measured_ns"] == pytest.approx(-c.change * before)
    assert [row["high_ns"], row["low_ns"]] == pytest.approx([-end * before for end in c.interval], rel=1e-6)
    assert row["ratio"] == gain / row["measured_ns"]
    assert 0.8 < row["ratio"] < 1.25
    pd.testing.assert_frame_equal(p.predictions(), q.predictions())
    keep(recorded(0.5 * steps(5)), FASTER.replace("step()", "pass"))
    assert p.predictions()["by"].tolist() == ["run 4"], "the first run of another program"


def test_several_predictions_are_held_against_one_run(history: Path) -> None:
    p = keep(recorded(steps(1)))
    for factor in (0.9, 0.7, 0.9):
        asked(p, factor)
    assert p.predictions()["question"].tolist() == ["line 3 × 0.7", "line 3 × 0.9"], (
        "the newest of a question"
    )
    assert p.predictions()["alternatives"].tolist() == [0, 0]
    keep(recorded(0.8 * steps(3)), FASTER)
    table = p.predictions()
    assert table["alternatives"].tolist() == [1, 1]
    assert table["measured_ns"].nunique() == 1
    assert table["ratio"].iloc[0] == pytest.approx(3 * table["ratio"].iloc[1], rel=0.01)


def test_a_change_within_noise_has_no_ratio(history: Path) -> None:
    p = keep(recorded(steps(1)))
    asked(p)
    keep(recorded(steps(2)), FASTER)
    row = p.predictions().iloc[0]
    assert row["low_ns"] < 0 < row["high_ns"]
    assert np.isnan(row["ratio"])
    assert row["by"] == "run 2"


def test_a_comparison_and_turns_go_before_a_later_run(history: Path) -> None:
    p = keep(recorded(steps(1)))
    asked(p)
    keep(recorded(0.8 * steps(3)), FASTER)
    assert p.predictions()["by"].tolist() == ["run 2"]
    compared = nbp.compare(p, recorded(0.6 * steps(4)))
    row = p.predictions().iloc[0]
    assert row["by"] == "nbp.compare"
    assert row["measured_ns"] == pytest.approx(-compared.change * p.steps()["dur"].iloc[1:].mean())
    runs = [[recorded(scale * steps(seed)) for seed in range(4)] for scale in (1.0, 0.75)]
    turns = nbp.compare(*runs, paired=True)
    measured_by_turns("other(program)", turns)
    assert p.predictions()["by"].tolist() == ["nbp.compare"]
    measured_by_turns(SOURCE.partition("\n")[2], turns)
    row = keep(recorded(steps(6))).predictions().iloc[0]
    assert row["by"] == BY_TURNS
    assert row["ratio"] == row["gain_ns"] / row["measured_ns"]
    assert row["measured_ns"] == pytest.approx(0.25 * 5e6, rel=0.05)


def test_without_a_history_the_profile_keeps_its_own() -> None:
    p = recorded(steps(1))
    gain = asked(p)
    table = p.predictions()
    assert table["run"].isna().all()
    assert table["gain_ns"].tolist() == [gain]
    nbp.compare(p, recorded(0.7 * steps(2)))
    assert p.predictions()["by"].tolist() == ["nbp.compare"]
    nbp.compare([p, p], recorded(0.9 * steps(2)))
    assert p.predictions()["ratio"].item() == pytest.approx(gain / (0.3 * 5e6), rel=0.1)


def test_what_is_no_prediction_of_a_step_is_not_kept(data: Path) -> None:
    p = recorded(steps(1))
    p.what_if(line={3: 0.5}, window=(0, 5_000_000))
    nbp.analysis.what_if(p.trace, line={3: 0.5})  # as a slider does
    assert p.predictions().empty
    PREDICTIONS.validate(p.predictions())
    jax = nbp.open_profile(data / "jax_cpu/vm.trace.json.gz")
    assert jax.what_if(scale={"*": 0.5}).refused
    assert jax.predictions().empty


def test_pieces_of_advice_are_predictions(data: Path) -> None:
    p = nbp.open_profile(data / "torch213_cpu/cnn_adam.pt.trace.json.gz")
    advice = p.advice()
    table = p.predictions()
    assert table["kind"].unique().tolist() == ["advice"]
    assert table["question"].tolist() == (advice["rule"] + " " + advice["place"]).str.strip().tolist()
    assert table["gain_ns"].tolist() == pytest.approx((advice["gain_ns"] / len(p.trace.steps)).tolist())
    assert (table["lower_ns"] <= table["gain_ns"]).all()


def test_both_keep_a_bounded_number(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 3)
    monkeypatch.setattr(ledger, "MOST", 4)
    p = keep(recorded(steps(1)))
    for i in range(1, 7):
        asked(p, i / 10)
    with sqlite3.connect(history / "history.sqlite") as connection:
        kept = connection.execute("SELECT question FROM predictions ORDER BY at_ns").fetchall()
    assert [text for (text,) in kept] == [f"line 3 × 0.{i}" for i in range(3, 7)]
    q = recorded(steps(1))
    for i in range(1, 7):
        asked(q, i / 10)
    assert q.predictions()["question"].tolist() == [f"line 3 × 0.{i}" for i in range(4, 7)]


def test_a_history_from_before_has_none_and_nothing_breaks(
    history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = keep(recorded(steps(1)))
    assert Store(history).select("id") == [(1,)]
    assert p.predictions().empty
    monkeypatch.setattr(Store, "writing", lambda self: 1 / 0)
    gain = asked(p)
    assert p.predictions()["gain_ns"].tolist() == [gain]


def test_a_ledger_never_raises() -> None:
    own = Ledger()
    own.measure(lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    own.add(Prediction(1, "what_if", "x", 10.0, 5.0, 4.0, 6.0))
    own.measure(lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    own.measure(Gain)
    assert [one.gain.by for one in own.predictions()] == [""]
