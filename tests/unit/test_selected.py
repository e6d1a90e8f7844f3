"""Where the selected slices lie, as the page is told, against ``p.selected``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from notebook_prof.profiles.profile import Profile
from notebook_prof.ranks.analysis.stacking import stacked
from notebook_prof.readers import read_trace
from notebook_prof.service.answers import selected
from notebook_prof.service.store import ViewStore
from notebook_prof.trace import Trace, TraceBuilder

from ..browser.drawn import drawn_trace
from ..browser.drawn_tracks import many_tracks
from ..many import many_slices
from .test_page_twins import _drawn_trace, _tangled

RECORDINGS = (
    "torch213_cpu/cnn_sgd.pt.trace.json.gz",
    "jax_cpu/vm.trace.json.gz",
    "python_profilers/pyinstrument.json",
)
COLUMNS = ["before", "inside", "after", "end_before", "start_after"]


def _answered(store: ViewStore, state: dict[str, Any], a: float, b: float) -> pd.DataFrame:
    answer = selected(store, state, {"a": a, "b": b})
    table = pd.DataFrame(answer.arrays()).set_index("row")
    assert table[["before", "inside", "after"]].to_numpy().sum() == answer.content["count"]
    return table


def _expected(profile: Profile, store: ViewStore, a: float, b: float) -> pd.DataFrame:
    slices = profile.trace.slices.loc[profile.selected.index]
    end = slices["ts"] + store.columns.drawn_ns[slices.index]
    after = slices["ts"] >= np.ceil(b)
    before = ~after & (end <= np.floor(a)) & ((slices["dur"] > 0) | (slices["ts"] < np.floor(a)))
    table = pd.DataFrame(
        {
            "row": store.columns.row[slices.index],
            "before": before,
            "inside": ~before & ~after,
            "after": after,
            "end_before": end.where(before),
            "start_after": slices["ts"].where(after),
        }
    )
    how = {"before": "sum", "inside": "sum", "after": "sum", "end_before": "max", "start_after": "min"}
    return table.groupby("row").agg(how).fillna(-1)


def _check(trace: Trace, seed: int = 0, limit: int = 4) -> None:
    rng, store, profile = np.random.default_rng(seed), ViewStore(trace), Profile(trace)
    slices, span = trace.slices, trace.span
    few = slices.iloc[rng.integers(0, len(slices), 3)]
    tracks = [int(track) for track in few["track"]]
    window = (span.start + span.dur // 4, span.start + span.dur // 3 + 1)
    states: list[dict[str, Any]] = [
        {},
        {"window": window},
        {"name": [str(few["name"].iloc[0])]},
        {"name": sorted(set(few["name"].astype(str))), "window": window},
        {"track": tracks},
        {"category": [str(few["category"].iloc[0])], "track": tracks[:1]},
        {"step": [0, 2], **({"rank": [2]} if "rank" in slices.columns else {})},
        {"phase": ["forward", "backward"], "window": window},
        {"line": ["cell:7"]},
        {"name": ["nowhere"]},
    ]
    views = rng.uniform(-0.2, 1.2, (limit, 2)) * span.dur + span.start
    views[0], views[1] = (span.start - 1, span.end + 1), (span.end + 1, span.end + 2)
    for state in states:
        profile.selection.clear()
        profile.selection.update(**state)
        for a, b in np.sort(views, axis=1).tolist():
            ours = _answered(store, profile.selection.to_state(), a, b)
            assert int(ours[["before", "inside", "after"]].to_numpy().sum()) == len(profile.selected), state
            by_track = ours[["before", "inside", "after"]].sum(axis=1)
            by_track = by_track.groupby(store.columns.track_of_row[by_track.index]).sum()
            assert by_track.to_dict() == profile.selected["track"].value_counts().to_dict(), state
            theirs = _expected(profile, store, a, b)
            np.testing.assert_array_equal(ours.index, theirs.index)
            np.testing.assert_array_equal(ours[COLUMNS], theirs[COLUMNS].astype(float), err_msg=str(state))


@pytest.mark.parametrize("seed", range(2))
def test_drawn_traces(seed: int) -> None:
    _check(_drawn_trace(seed), seed)


def test_runs_and_tangles() -> None:
    _check(drawn_trace(gpu=True))
    _check(many_tracks().trace)
    _check(_tangled().trace)
    _check(many_slices(), limit=3)


def test_some_of_many_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """If few slices of a long recording are selected, they are found by name."""
    monkeypatch.setattr("notebook_prof.service.selected_rows._FEW", 1)
    _check(drawn_trace(gpu=True), limit=2)


def test_ranks_above_one_another() -> None:
    trace = stacked([(rank, many_tracks(2, 1).trace) for rank in (1, 2)], start_unix_ns=0)
    assert "rank" in trace.slices.columns
    _check(trace)


@pytest.mark.parametrize("name", RECORDINGS)
def test_recordings(data: Path, name: str) -> None:
    _check(read_trace(data / name), limit=3)


def test_an_empty_trace() -> None:
    store = ViewStore(TraceBuilder().seal())
    answer = selected(store, {"name": ["mm"], "window": (0, 5)}, {"a": 0, "b": 9})
    assert answer.content["count"] == 0
    assert not len(answer.arrays()["row"])
