"""What bounds a DataLoader: torch's schedule as simulated, and real loaders with a planted bound."""

import multiprocessing
import time
from collections.abc import Callable
from typing import Any

import pytest

import notebook_prof as nbp
from notebook_prof.analysis import (
    loader_batches,
    loader_bounds,
    loader_throughput,
    loader_transforms,
    loader_workers,
    verdict,
)
from notebook_prof.analysis.input.loader_bounds import simulate
from notebook_prof.views.tabs.base import Note, Panel, Table
from notebook_prof.views.tabs.input import TAB

forks = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")


@pytest.mark.parametrize("in_order", [True, False])
def test_the_schedule_of_equal_batches(in_order: bool) -> None:
    times = [100.0] * 200
    for workers, batch_ns in ((1, 100), (2, 50), (4, 25), (5, 20), (9, 20)):
        got = simulate(times, 20.0, workers, in_order=in_order)
        assert got == pytest.approx(batch_ns, rel=0.03), workers


def test_a_slow_batch_holds_up_those_behind_it() -> None:
    times = [500.0 if i % 9 == 8 else 50.0 for i in range(400)]
    ordered, free = simulate(times, 10.0, 2), simulate(times, 10.0, 2, in_order=False)
    assert free == pytest.approx(sum(times) / len(times) / 2, rel=0.05)
    assert ordered > 1.15 * free
    assert simulate(times, 10.0, 2, 16) < 1.1 * free


def recorded(make: Callable[[Any], Any], loop_s: float) -> nbp.Profile:
    datasets = pytest.importorskip("tests.loader_datasets")
    loader = make(datasets)
    with nbp.profile("torch") as profile:
        for _ in nbp.steps(loader):
            time.sleep(loop_s)
    return profile


@forks
@pytest.mark.clock("durations of sleeps")
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_storage_is_told_from_transforms(workers: int) -> None:
    from torch.utils.data import DataLoader

    storage = recorded(lambda d: DataLoader(d.Numbers(80, seconds=0.01), 4, num_workers=workers), 0.005)
    row = loader_bounds(storage.trace).iloc[0]
    assert row["bound"] == "storage"
    assert row["workers"] == workers
    assert row["storage_ns"] > 0.8 * row["batch_ns"]
    assert row["best"] > workers
    advised = storage.advice().set_index("rule")["remedy"].filter(["dataloader-workers", "input-bound"])
    assert len(advised) == 1
    assert f"num_workers={row['best']}" in advised.iloc[0], "advice and verdict name one number"
    words = str(verdict(storage.trace))
    assert "bound by storage" in words
    for claim in verdict(storage.trace).claims:
        assert claim.holds(storage.trace), claim
    transforms = recorded(lambda d: DataLoader(d.Transformed(80, 0.003), 4, num_workers=workers), 0.002)
    assert loader_bounds(transforms.trace)["bound"].tolist() == ["transform"]
    table = loader_transforms(transforms.trace)
    names = table.loc[table["part"] == "transform", "name"].tolist()
    assert names == ["double", "Sleep", "double"]
    assert table["share"].sum() == pytest.approx(1)
    assert table["items"].tolist() == [80] * len(table)
    assert table.loc[table["name"] == "Sleep", "mean_ns"].iloc[0] >= 3_000_000


@forks
@pytest.mark.clock("durations of sleeps")
def test_workers_that_suffice_are_not_the_bound() -> None:
    from torch.utils.data import DataLoader

    profile = recorded(lambda d: DataLoader(d.Numbers(80, seconds=0.0005), 4, num_workers=2), 0.03)
    assert loader_bounds(profile.trace)["bound"].tolist() == ["not the loader"]
    assert "bound by" not in str(verdict(profile.trace))


@forks
def test_batches_workers_and_their_sums() -> None:
    from torch.utils.data import DataLoader

    profile = recorded(lambda d: DataLoader(d.Numbers(42, seconds=0.001), 4, num_workers=2), 0.001)
    trace = profile.trace
    batches, workers = loader_batches(trace), loader_workers(trace)
    assert batches["batch"].tolist() == list(range(11))
    assert batches["worker"].tolist() == [0, 1] * 5 + [0]
    assert (batches["ts"] > 0).all()
    assert (
        batches["ts"] + batches["items_ns"] + batches["collate_ns"] <= batches["next_ts"] + batches["wait_ns"]
    ).all()
    assert workers["items"].sum() == 42
    assert workers["batches"].sum() == 11
    assert workers["items_ns"].sum() == batches["items_ns"].sum()
    tracks = trace.tracks.set_index("name")
    for row in workers.to_dict("records"):
        track = tracks.loc[f"loader {row['worker']}"]
        assert track["pid"] == row["pid"]
        own = trace.slices[trace.slices["track"] == track["track"]]
        fetched = own[own["name"] == "DataLoader: fetch"]
        assert fetched["dur"].sum() == row["items_ns"] + row["collate_ns"]
        assert set(own["phase"].astype(str)) == {"data"}
    arrows = trace.flows[trace.flows["kind"] == "link"]
    names = trace.slices["name"].astype(str)
    assert len(arrows)
    assert set(names.iloc[arrows["src"]]) == {"DataLoader: fetch"}
    assert set(names.iloc[arrows["dst"]]) == {"DataLoader: wait"}
    depth = trace.counters[trace.counters["track"] == tracks.loc["DataLoader: ready batches", "track"]]
    assert depth["value"].iloc[-1] == 0
    assert depth["value"].max() <= 4
    rates = loader_throughput(trace)
    assert rates["measured"].notna().sum() == 1
    panel = TAB.build(trace, {})
    assert isinstance(panel, Panel)
    titles = [part.title for part in panel.parts if isinstance(part, Table)]
    assert titles[:3] == ["Making batches", "With another number of workers", "Workers"]
    assert any(isinstance(part, Note) and "Numbers: " in part.text for part in panel.parts)


@forks
def test_several_epochs_and_two_loaders() -> None:
    torch_data = pytest.importorskip("torch.utils.data")
    datasets = pytest.importorskip("tests.loader_datasets")
    loader = torch_data.DataLoader(datasets.Numbers(16), 4, num_workers=1, persistent_workers=True)
    other = torch_data.DataLoader(datasets.Slotted(8), 4)
    with nbp.profile("torch") as profile:
        for _ in range(2):
            list(loader)
            list(other)
    batches = loader_batches(profile.trace)
    assert batches.groupby(["loader", "iterator", "epoch"]).size().tolist() == [4, 4, 2, 2]
    assert loader_workers(profile.trace)["batches"].tolist() == [8, 4]
