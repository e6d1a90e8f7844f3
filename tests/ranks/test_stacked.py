"""Several ranks' timelines on one aligned axis, and clocks that drift."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import notebook_prof as nbp
from notebook_prof.errors import FormatError, SelectionError
from notebook_prof.ranks.analysis.clocks import clock_offsets
from notebook_prof.ranks.analysis.stacking import retimed, stacked
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.trace.nesting import nest
from notebook_prof.views.page_queries import PageQueries
from notebook_prof.views.pictures import scene

from ..asking import asked
from .drawn import write_rank


def with_memory(rank: int) -> Trace:
    """One operator that takes memory, on a host thread and a device."""
    b = TraceBuilder()
    host, gpu = b.track("main", pid=9, tid=9), b.track("s7", "stream", device=0, stream=7)
    call, kernel = b.slices(
        ts=[10, 20], dur=[40, 30 + rank], name=["call", f"kernel {rank}"], track=[host, gpu],
        category=["launch", "kernel"], device=[-1, 0], stream=[-1, 7], correlation=5,
    )  # fmt: skip
    b.flows("launch", [call], [kernel])
    size = 100 + rank
    sizes = {"bytes": [size, -size], "allocated": [size, 0], "reserved": 0}
    b.allocations(ts=[12, 30], addr=[64, 64], device=-1, track=host, **sizes)
    return b.seal()


def shifted_run(folder: Path) -> nbp.Trace:
    for rank, shift in {0: 0, 1: 5_000_000, 2: -3_000_000}.items():
        write_rank(folder / f"rank{rank}.json", rank, 3, late_us=20 if rank == 2 else 0, shift_us=shift)
    return folder


def test_collectives_end_together_on_the_stacked_axis(tmp_path: Path):
    ranks = nbp.read_ranks(shifted_run(tmp_path))
    trace = ranks.timeline([1, 2]).trace
    assert trace.metadata["ranks"] == [1, 2]
    nccl = trace.slices[trace.slices["category"] == "collective"]
    ends = (nccl["ts"] + nccl["dur"]).groupby(nccl["step"]).nunique()
    assert ends.tolist() == [1, 1, 1]
    assert sorted(nccl["rank"].unique()) == [1, 2]
    assert trace.tracks["device"].dropna().tolist() == [1, 2]  # one GPU each, numbered by rank
    marey = ranks.steps().query("rank == 2")
    assert marey["start_ns"].tolist() == trace.steps["ts"].tolist()  # one axis with Marey's lines


def test_a_stack_is_a_well_formed_trace():
    trace = stacked([(rank, with_memory(rank)) for rank in (3, 4)], start_unix_ns=0)
    slices = trace.slices
    nested = nest(slices["track"], slices["ts"], slices["dur"])
    assert slices["self_ns"].tolist() == nested.self_ns.tolist()
    assert slices["parent"].fillna(-1).tolist() == nested.parent.tolist()
    flows = trace.flows
    names = slices["name"].astype(str).to_numpy()
    assert sorted(zip(names[flows["src"]], names[flows["dst"]], strict=True)) == [
        ("call", "kernel 3"),
        ("call", "kernel 4"),
    ]
    assert slices["correlation"].nunique() == 2
    assert slices.groupby("device")["name"].first().to_dict() == {3: "kernel 3", 4: "kernel 4"}
    blocks = trace.allocations
    assert blocks["allocated"].tolist() == [103, 207, 104, 0]  # both ranks' host memory together
    home = names[blocks["slice"].to_numpy(np.int64)]
    assert set(home) == {"call"}
    assert trace.slices["rank"].iloc[blocks["slice"].to_numpy(np.int64)].tolist() == [3, 4, 3, 4]


def test_one_selection_for_the_ranks_and_their_timelines(tmp_path: Path):
    ranks = nbp.read_ranks(shifted_run(tmp_path))
    ranks.selection.rank = [0, 2]
    profile = ranks.timeline()
    assert profile.selection is ranks.selection
    assert profile.trace.metadata["ranks"] == [0, 2]
    profile.selection.rank = 2
    assert ranks.selection.rank == (2,)
    assert set(profile.selected["rank"]) == {2}
    view = PageQueries(profile.trace, profile.selection)
    rows = [track["row"] for track in view.answer({"t": "meta"})[0]["tracks"]]
    _, data = asked(view, t="timeline", a=0, b=profile.trace.span.end, rows=rows, px=800)
    shown = data["match"]
    assert np.array_equal(shown == 1, profile.trace.slices["rank"].to_numpy()[data["id"]] == 2)
    assert 0 < shown.sum() < len(shown)


def test_pictures_and_single_views_are_of_the_selected_ranks(tmp_path: Path):
    profile = nbp.read_ranks(shifted_run(tmp_path)).timeline([0, 1, 2])

    def calls() -> int:
        shown = profile.plot.operators().source.data
        return int(shown["count"][shown["name"].tolist().index("cudaLaunchKernel")])

    assert calls() == 18  # two in each of three steps and ranks
    for chosen in ({"rank": 2}, {"track": profile.trace.tracks.query("rank == 2")["track"].tolist()}):
        profile.selection.clear()
        profile.selection.update(**chosen)
        assert calls() == 6
    profile.selection.update(rank=[0, 2], track=None)
    assert calls() == 12
    drawn = scene(profile.trace, profile.selection, "operators").svg()
    assert ">12<" in drawn
    assert ">18<" not in drawn


def test_ranks_that_cannot_be_stacked(tmp_path: Path):
    for rank in range(3):
        operation = "AllGather" if rank == 2 else "AllReduce"
        write_rank(tmp_path / f"rank{rank}.json", rank, 3, operation=operation)
    ranks = nbp.read_ranks(tmp_path)
    many = nbp.read_ranks(dict.fromkeys(range(10), tmp_path / "rank0.json"))
    with pytest.raises(SelectionError, match="10 ranks are too many to stack"):
        many.timeline()
    with pytest.raises(SelectionError, match="no rank 77"):
        ranks.timeline([77])
    with pytest.raises(SelectionError, match="no rank to show"):
        ranks.timeline([])
    alone = ranks.timeline([0, 2]).trace.report
    assert "rank 2 shares no collective" in alone["clock-not-aligned"].example


def drifting(ppm: float, ends: int = 40, noise: float = 2_000.0, ranks: int = 2) -> pd.DataFrame:
    """Collectives a second apart; the last rank's clock runs fast and starts half a second ahead."""
    rng, at = np.random.default_rng(1), 1e9 * np.arange(1, ends + 1)
    parts = []
    for rank in range(ranks):
        fast = rank == ranks - 1
        clock = at * (1 + ppm / 1e6) + 5e8 if fast else at
        end = np.rint(clock + rng.normal(0, noise, ends)).astype(np.int64)
        parts.append(pd.DataFrame({"rank": rank, "match": np.arange(ends), "unix_ns": end - 10, "dur": 10}))
    return pd.concat(parts).assign(operation="all_reduce")


@pytest.mark.parametrize("ranks", [2, 5])
def test_a_drifting_clock_is_set_right(ranks: int):
    clocks = clock_offsets(drifting(30.0, ranks=ranks)).set_index("rank")
    assert clocks["drift_ppm"].iloc[-1] - clocks["drift_ppm"].iloc[0] == pytest.approx(30.0, abs=0.3)
    assert clocks["residual_ns"].max() < 5_000  # the noise; without the drift it would be 300 µs
    steady = clock_offsets(drifting(0.0, ranks=ranks))
    assert (steady["drift_ppm"] == 0).all()


def test_no_drift_from_few_collectives_or_noise():
    assert (clock_offsets(drifting(30.0, ends=8))["drift_ppm"] == 0).all()
    assert (clock_offsets(drifting(0.5, noise=100_000.0))["drift_ppm"] == 0).all()


def test_a_drift_reaches_arrivals_steps_and_stacks(tmp_path: Path):
    ppm, steps = 20_000.0, 60
    for rank in range(2):
        write_rank(tmp_path / f"rank{rank}.json", rank, 2, steps=range(steps), drift_ppm=ppm * rank)
    ranks = nbp.read_ranks(tmp_path)
    apart = ranks.clocks()["drift_ppm"].diff().iloc[-1]
    assert apart == pytest.approx(ppm, rel=0.05)
    start = ranks.steps().pivot(index="step", columns="rank", values="start_ns")
    assert (start[1] - start[0]).abs().max() < 1_000
    nccl = ranks.stacked([0, 1]).slices.query("category == 'collective'")
    ends = (nccl["ts"] + nccl["dur"]).groupby(nccl["step"])
    assert (ends.max() - ends.min()).max() < 1_000
    ranks.to_chrome(tmp_path / "all.json")
    merged = nbp.read_trace(tmp_path / "all.json").slices.query("category == 'collective'")
    written = (merged["ts"] + merged["dur"]).groupby(merged["step"])
    assert len(written) == steps
    assert (written.max() - written.min()).max() < 1_000


def test_retiming_keeps_what_is_inside_inside():
    b = TraceBuilder()
    b.slices(ts=[0, 0, 333_333], dur=[10**9, 333_333, 7], name="a", track=b.track("main"))
    trace = retimed(b.seal(), lambda ts: ts + 5 - np.rint(3e-5 * (ts - 500)).astype(np.int64))
    nested = nest(trace.slices["track"], trace.slices["ts"], trace.slices["dur"])
    assert nested.depth.tolist() == trace.slices["depth"].tolist()


def test_a_rank_that_cannot_be_read_is_left_out_and_told(tmp_path: Path) -> None:
    for rank in range(3):
        write_rank(tmp_path / f"rank{rank}.json", rank, 3)
    (tmp_path / "rank1.json").write_text("{ nothing")
    ranks = nbp.read_ranks(tmp_path)
    trace = ranks.timeline().trace
    assert sorted(trace.slices["rank"].unique()) == [0, 2]
    (issue,) = [issue for issue in trace.report if issue.code == "rank-unreadable"]
    assert (issue.count, "rank 1" in issue.example) == (1, True)
    with pytest.raises(FormatError, match=r"rank1\.json"):
        ranks.timeline([1])
