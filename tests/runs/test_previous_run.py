"""The second line of the verdict: how often it is wrong, and that public tables hold it."""

from __future__ import annotations

import itertools
import math
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import notebook_prof as nbp
from notebook_prof.comparison.verdict import signed_ns, signed_percent
from notebook_prof.jupyter.widget import run_before
from notebook_prof.profiles.profile import Profile
from notebook_prof.runs import writing
from notebook_prof.runs.change_sentence import OTHER_KERNEL
from notebook_prof.runs.folder import NAME
from notebook_prof.runs.identity import Identity, kernel_id
from notebook_prof.runs.previous_run import PreviousRun
from notebook_prof.runs.store import Store
from notebook_prof.statistics import factor_of_runs, learned_factor, ratio_of_halves, shift_of_steps, widened
from notebook_prof.trace import TraceBuilder

Times = np.ndarray[tuple[int], np.dtype[np.float64]]
SOURCE = "%%profile\nfor x in loader:\n    work(x)\n    step()\n"


def drifting(rng: np.random.Generator, runs: int, steps: int, drift: float) -> list[Times]:
    """Runs of one kernel whose speed moves between them and, half as much, within; steps have heavy tails."""
    speed, made = 0.0, []
    for _ in range(runs):
        speed += drift * rng.standard_normal()
        inside = 0.5 * drift * np.cumsum(rng.standard_normal(steps)) / math.sqrt(steps)
        made.append(np.asarray(5e6 * np.exp(speed + inside + 0.02 * rng.standard_t(3, steps)), np.float64))
    return made


@pytest.mark.parametrize("steps", [12, 24, 48])
@pytest.mark.parametrize("drift", [0.0, 0.01, 0.02])
def test_unchanged_neighbours_are_seldom_called_different(steps: int, drift: float) -> None:
    """200 runs of one kernel: the assumed factor, and the learned one of the runs before; 6 % at most."""
    rng = np.random.default_rng(int(1000 * drift) + steps)
    runs = drifting(rng, 200, steps, drift)
    ratios: list[float] = []
    wrong: dict[str, list[bool]] = {"steps alone": [], "assumed": [], "learned": []}
    for a, b in itertools.pairwise(runs):
        shift = shift_of_steps(a, b)
        wrong["steps alone"].append(shift.significant)
        wrong["assumed"].append(widened(shift, factor_of_runs(steps)).significant)
        factor = learned_factor(ratios)
        if factor is not None:
            wrong["learned"].append(widened(shift, factor).significant)
        ratios.append(ratio_of_halves(shift))
    share = {name: float(np.mean(each)) for name, each in wrong.items()}
    if drift:
        assert share["steps alone"] > 0.08, "the drift is one that steps do not show"
    assert share["assumed"] <= 0.06, share
    assert share["learned"] <= 0.10, share  # 5 % ± 1.6 of 180, by itself correlated


def recorded(times: Any, source: str = SOURCE, work: float = 1.0, **metadata: Any) -> Profile:
    """Steps of these times: two thirds are line 3, of which `work` times as much runs, the rest line 4."""
    builder = TraceBuilder(metadata={"cell_source": source, **metadata})
    main, now = builder.track("main", tid=1), 1_000
    ts, dur = [], []
    for took in np.asarray(times, np.int64).tolist():
        begin = now
        for line, name, part in ((3, "work(x)", int(took * work * 2 / 3)), (4, "step()", took // 3)):
            builder.slices(ts=now, dur=part, name=f"cell:{line}  {name}", category="python", track=main)
            now += part
        ts.append(begin)
        dur.append(now - begin)
    builder.steps(list(range(len(ts))), ts, dur, "loop")
    return Profile(builder.seal())


def steps(seed: int, count: int = 40) -> Times:
    return np.asarray(5e6 * np.exp(0.01 * np.random.default_rng(seed).standard_normal(count)))


def keep(profile: Profile, source: str = SOURCE, **options: Any) -> Profile:
    """Leave a row, as the magic does."""
    writing.remember(profile, source=source, cell="c1", **options)()
    assert writing.wait(60)
    assert writing.losses() == {"lost": 0, "reason": ""}
    return profile


def derived(row: pd.Series, before: pd.Series, table: pd.DataFrame) -> str:
    """The second line, from `nbp.history` and `nbp.compare` alone."""
    same = ["cell_hash", "options", "environment", "kernel"]
    assert row["earlier"] == before["run"]
    past = table[table["noise"].notna() & (table["environment"] == row["environment"])]
    ratios = past.loc[past["run"] < row["run"], "noise"].tolist()[-60:]
    count = int(min(row["steps"], before["steps"]))
    if before["kernel"] != row["kernel"]:
        noise, rests = 20 * max(1.0, math.sqrt(count / 12)), "assumed"
    elif len(ratios) >= 19:
        noise, rests = (
            max(1.0, sorted(ratios)[math.ceil(0.95 * (len(ratios) + 1)) - 1]),
            f"learned from {len(ratios)} pairs",
        )
    else:
        noise, rests = 3 * max(1.0, math.sqrt(count / 12)), "assumed"
    c = nbp.compare(nbp.load(int(before["run"])), nbp.load(int(row["run"])), noise=noise)
    low, high = map(signed_percent, c.interval)
    basis = f"({low} … {high}, two runs × {noise:.3g}, {rests})"
    new = c.source.loc[c.source["change"].isin(["changed", "new"]), "b_line"].tolist()
    changed = f"you changed line {new[0]}" if new else "the cell is the same"
    other = "" if before["kernel"] == row["kernel"] else " in another kernel"
    assert (row[same[0]] == before[same[0]]) == (not new)
    if not c.significant:
        return (
            f"≈ No change against the run before{other} is shown {basis}; {changed}; %%profile_ab tells more."
        )
    word = "faster" if c.change < 0 else "slower"
    lines = c.lines[c.lines["significant"] & (c.lines["file"] != "") & (c.lines["delta_ns"] * c.delta_ns > 0)]
    where = ", ".join(
        f"line {line} `{text}` {signed_ns(delta)}"
        for line, text, delta in lines[["b_line", "text", "delta_ns"]].head(2).itertuples(index=False)
    )
    amount = signed_percent(c.change)[1:]
    return f"{amount} {word} than the run before{other} {basis}: {where} a step; {changed}."


def check_derived(profile: Profile) -> None:
    table = nbp.history()
    row = table.iloc[-1]
    before = table.set_index("run", drop=False).loc[int(row["earlier"])]
    assert profile.verdict.lines[1] == derived(row, before, table)


def test_the_second_line_is_derived_from_tables(history: Path) -> None:
    first = keep(recorded(steps(1)))
    assert first.previous is None
    assert not any("run before" in line for line in first.verdict.lines)
    again = keep(recorded(steps(2)))
    assert "≈ No change against the run before" in again.verdict.lines[1]
    assert again.verdict.lines[1].endswith("the cell is the same; %%profile_ab tells more.")
    check_derived(again)
    faster = SOURCE.replace("work(x)", "work(x, fast=True)")
    changed = keep(recorded(0.5 * steps(3), faster, work=0.5), faster)
    check_derived(changed)
    assert re.match(
        r"6[67]\.\d % faster than the run before \(−.* … −.* %, two runs × ", changed.verdict.lines[1]
    )
    assert "line 3 `work(x, fast=True)` −" in changed.verdict.lines[1]
    assert changed.verdict.lines[1].endswith("; you changed line 3.")
    assert changed.previous is not None
    assert run_before(first) == {}
    drawn = run_before(changed)["steps"]
    assert drawn == again.trace.steps["dur"].tolist(), "the page draws them behind its bars"
    assert changed.previous.delta_ns == pytest.approx(-3.3e6, rel=0.03)
    assert changed.verdict.lines[1] in changed.headline
    assert changed.verdict.lines[1] in repr(changed)
    fresh = Profile(changed.trace).verdict
    assert fresh.lines == (changed.verdict.lines[0], *changed.verdict.lines[2:])
    for ours, plain in zip(changed.verdict.claims, fresh.claims, strict=True):
        assert changed.verdict.lines[ours.line] == fresh.lines[plain.line]


def test_the_noise_of_the_machine_is_learned_from_unchanged_runs(history: Path) -> None:
    for seed in range(22):
        last = keep(recorded(steps(seed)))
    table = nbp.history()
    assert table["noise"].isna().tolist() == [True] + 21 * [False]
    assert "learned from 20 pairs" in last.verdict.lines[1]
    check_derived(last)


def test_another_kernel_shows_large_changes_alone(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(recorded(steps(1)))
    monkeypatch.setattr("notebook_prof.runs.identity._kernel", "another")
    slower = keep(recorded(1.1 * steps(2)))
    assert slower.previous is not None
    assert slower.previous.noise == OTHER_KERNEL * math.sqrt(39 / 12)
    check_derived(slower)
    assert slower.verdict.lines[1].startswith("≈ No change against the run before in another kernel")
    monkeypatch.setattr("notebook_prof.runs.identity._kernel", "a third")
    far = keep(recorded(30 * steps(3)))
    check_derived(far)
    assert "slower than the run before in another kernel" in far.verdict.lines[1]
    assert nbp.history()["noise"].isna().all()


def cpu(profile: Profile, share: float) -> Profile:
    """The same recording on a machine that gave its thread a core for this share of the time."""
    trace = profile.trace
    builder = TraceBuilder(metadata={**trace.metadata, "cpu": {"tid": 1}})
    main, span = builder.track("main", tid=1), trace.span.dur
    ts, dur = (trace.slices[column].to_numpy() for column in ("ts", "dur"))
    names = trace.slices["name"].astype("str").tolist()
    builder.slices(ts=ts, dur=dur, name=names, category="python", track=main)
    builder.steps(*(trace.steps[name].tolist() for name in ("step", "ts", "dur")), "loop")
    ran, waited = int(share * span), int((1 - share) * span)
    rows = [
        (1, tid, name, kind, ts, ran * bool(ts), waited * bool(ts))
        for tid, name, kind in ((-1, "process", "process"), (1, "main", "python"))
        for ts in (0, span)
    ]
    columns = ["pid", "tid", "name", "kind", "ts", "cpu_ns", "wait_ns"]
    builder.table("cpu", pd.DataFrame(rows, columns=columns))
    return Profile(builder.seal(window=(0, span)))


def test_a_machine_that_was_too_busy_says_nothing_of_the_code(history: Path) -> None:
    keep(cpu(recorded(steps(1)), 0.9))
    busy = keep(cpu(recorded(3 * steps(2)), 0.25))
    table = nbp.history()
    assert table["core_share"].round(2).tolist() == [0.9, 0.25]
    line = busy.verdict.lines[1]
    assert "the machine was too busy: a thread that could run had a core for 25 % of the time (+" in line
    assert line.startswith("≈")
    assert line.endswith("%%profile_ab tells more.")
    first, second = nbp.load(1), nbp.load(2)
    for c in (nbp.compare(first, second), nbp.compare(cpu(recorded(steps(1)), 0.9), busy)):
        assert (c.core_share, c.starved, c.significant) == (pytest.approx(0.25, abs=0.01), True, False)
        assert c.interval[0] > 0
        assert "the machine was too busy: a thread that could run had a core for 25 % of the time. It" in str(
            c.verdict
        )
        assert "line 3" not in str(c.verdict)
        slower = c.expect("slower < 3%", "faster < 3%", check=False).table
        assert slower["outcome"].tolist() == ["inconclusive"] * 2
        assert slower["reason"].str.startswith("the machine was too busy: a thread that").all()
    awake = nbp.compare(cpu(recorded(steps(1)), 0.9), cpu(recorded(3 * steps(2)), 0.9))
    assert (awake.starved, awake.significant) == (False, True)
    assert awake.expect("slower < 3%", check=False).outcome == "fail"
    runs = [[cpu(recorded(scale * steps(seed)), 0.25) for seed in (1, 2, 3)] for scale in (1, 3)]
    assert nbp.compare(*runs).significant, "runs show by themselves how much they differ"


def test_failed_runs_are_kept_and_not_compared(history: Path) -> None:
    keep(recorded(steps(1)))
    failed = keep(recorded(9 * steps(2)), failed=True)
    assert failed.previous is None
    after = keep(recorded(steps(3)))
    table = nbp.history()
    assert table["failed"].tolist() == [False, True, False]
    assert after.previous is not None
    assert table["earlier"].iloc[2] == table["run"].iloc[0]


CELLS = {
    "same cell": ("x = load()\nfit(x, 3)\n", "c1", "cell"),
    "same program": ("for x in loader:  # again\n    work(x)\n    step()\n", "c2", "source"),
    "another program": ("print(plot(y, kind='bar'), title, axes)\n", "c1", None),
}


@pytest.mark.parametrize("what", CELLS)
def test_which_run_was_the_one_before(history: Path, what: str) -> None:
    source, cell, link = CELLS[what]
    old = "x = load()\nfit(x, 2)\n" if what == "same cell" else SOURCE
    store = Store(history)
    writing.remember(recorded(steps(1)), source=old, cell="c1")()
    assert writing.wait(60)
    me = Identity(time.time_ns(), kernel_id(), nbp.history()["notebook"].iloc[0], cell, "", source)
    pair = PreviousRun(store, me).earlier()
    assert (None if pair is None else pair[0].why) == link


def test_an_edited_cell_is_known_by_how_much_is_alike(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writing.remember(recorded(steps(1)), source=SOURCE)()
    assert writing.wait(60)
    edited = SOURCE.replace("work(x)", "work(x, batch=32)")
    notebook = nbp.history()["notebook"].iloc[0]
    me = Identity(time.time_ns(), "another", notebook, "", "", edited)
    pair = PreviousRun(Store(history), me).earlier()
    assert pair is not None
    assert re.fullmatch(r"\d\d % alike", pair[0].why)
    profile = recorded(steps(2), edited)
    monkeypatch.setattr("notebook_prof.runs.identity._kernel", "another")
    writing.remember(profile, source=edited)()
    assert f"the run before ({pair[0].why}) in another kernel" in profile.verdict.lines[1]


def test_runs_that_follow_at_once_know_one_another(history: Path) -> None:
    profiles = [recorded(steps(seed)) for seed in (1, 2, 3)]
    writes = [writing.remember(profile, source=SOURCE) for profile in profiles]
    writes[0]()
    assert writing.wait(60)
    # shown before the rows of the runs before are there: nothing is known of them, or of an older one only
    assert [profile.previous is None for profile in profiles] == [True, False, False]
    for write in writes[1:]:
        write()
    assert writing.wait(60)
    table = nbp.history()
    assert table["earlier"].tolist() == [pd.NA, 1, 2]
    assert table["link"].tolist() == ["", "source", "source"]
    assert (
        profiles[2].previous.change
        == nbp.compare(nbp.load(2), nbp.load(3), noise=3 * math.sqrt(39 / 12)).change
    )


def test_nothing_of_it_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NOTEBOOK_PROF_HISTORY", str(tmp_path / "file" / NAME))
    monkeypatch.setattr(writing, "_writer", writing._Writer())
    profile = recorded(steps(1))
    writing.remember(profile, source=SOURCE)()
    assert writing.wait(60)
    assert profile.previous is None
    assert profile.verdict.lines == Profile(profile.trace).verdict.lines
    assert writing.losses()["lost"] == 1
    assert "cannot be written: Not a directory" in writing.losses()["reason"]


def test_off_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOTEBOOK_PROF_HISTORY", "off")
    writing.remember(recorded(steps(1)), source=SOURCE)()
    assert writing.wait(60)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError, match="switched off by NOTEBOOK_PROF_HISTORY"):
        nbp.history()
