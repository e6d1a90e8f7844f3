"""Figures that other tools give for the same files."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from notebook_prof import Trace, read_trace

HOST = ("operator", "annotation", "python", "module", "collective")


def key_averages(trace: Trace, by: str | list[str] = "name") -> pd.DataFrame:
    """What `key_averages()` would say: count, total and self µs by name, or by name and shapes."""
    # Its rules, from torch/autograd/profiler_util.py (2.13): a row is inside the latest row that contains it
    # whole; an only child of the same name is merged into its parent; step numbers are cut off.
    slices = trace.slices[trace.slices["category"].isin(HOST)]
    parts = [_one_track(track) for _, track in slices.groupby("track", sort=False)]
    rows = pd.concat(parts, ignore_index=True)
    rows["name"] = rows["name"].str.replace(r"ProfilerStep#\d+", "ProfilerStep*", regex=True)
    return rows.groupby(by).agg(count=("total", "size"), total=("total", "sum"), own=("own", "sum"))


def _one_track(slices: pd.DataFrame) -> pd.DataFrame:
    names = slices["name"].astype(str).tolist()
    start, end = slices["ts"].to_numpy(), (slices["ts"] + slices["dur"]).to_numpy()
    children: list[list[int]] = [[] for _ in names]
    parent = np.full(len(names), -1)
    opened: list[int] = []
    for row in range(len(names)):
        while opened and (start[row] >= end[opened[-1]] or end[row] > end[opened[-1]]):
            opened.pop()
        if opened:
            parent[row] = opened[-1]
            children[opened[-1]].append(row)
        opened.append(row)
    merged = [p >= 0 and names[p] == names[row] and len(children[p]) == 1 for row, p in enumerate(parent)]
    for row in np.flatnonzero(merged)[::-1]:
        children[parent[row]] = children[row]
    dur = end - start
    own = [dur[row] - sum(dur[child] for child in children[row]) for row in range(len(names))]
    rows = pd.DataFrame({"name": names, "total": dur / 1e3, "own": np.array(own) / 1e3})
    rows["shapes"] = slices["shapes"].astype(object).where(slices["shapes"].notna(), "").to_numpy()
    return rows[~np.array(merged, bool)]


def compared(trace: Trace, csv: Path, by: str | list[str] = "name") -> pd.DataFrame:
    """Torch's figures beside ours, with which of them agree: counts exactly, times within 1 µs."""
    reported = pd.read_csv(csv)
    reported["shapes"] = reported["input_shapes"].astype(object).where(reported["input_shapes"].notna(), "")
    want = reported.groupby(by).agg(
        count=("count", "sum"), total=("cpu_time_total_us", "sum"), own=("self_cpu_time_total_us", "sum")
    )
    both = want.join(key_averages(trace, by).add_suffix("_ours"))
    return both.assign(
        counted=both["count"] == both["count_ours"],
        timed=(both["total"] - both["total_ours"]).abs().le(1),
        owned=(both["own"] - both["own_ours"]).abs().le(1),
    )


@pytest.mark.parametrize(
    "name",
    ["ddp_2rank/ddp_gloo_rank0", "ddp_2rank/ddp_gloo_rank1", "variants/memory_leak", "variants/threads"],
)
def test_key_averages_of_ranks_and_threads(shared_traces: Path, name: str) -> None:
    folder = shared_traces / "torch213_cpu"
    trace = read_trace(next(folder.glob(f"{name}.pt.trace.json*")))
    both = compared(trace, folder / f"{name}.key_averages.csv")
    assert both[["counted", "timed"]].all(axis=None), both.to_string()
    # torch gives collectives no time of their own: they end after the call that began them returns
    other = set(both.index[~both["owned"]])
    assert other == {name for name in both.index if name.startswith("gloo:")}
    assert (both.loc[sorted(other), "own"] == 0).all()


@pytest.mark.parametrize("name", ["cnn_adam", "cnn_sgd", "lm_adamw"])
def test_key_averages_by_shape(shared_traces: Path, name: str) -> None:
    folder = shared_traces / "torch213_cpu"
    trace = read_trace(next(folder.glob(f"{name}.pt.trace.json*")))
    both = compared(trace, folder / f"{name}.key_averages_by_shape.csv", ["name", "shapes"])
    assert len(both) > 350
    right = both[["counted", "timed", "owned"]].all(axis=1)
    assert right.mean() >= 0.99, both[~right].to_string()


def test_every_event_of_torchs_own_list_is_a_slice(data: Path) -> None:
    trace = read_trace(data / "torch213_cpu" / "cnn_adam.pt.trace.json.gz")
    events = pd.read_csv(data / "torch213_cpu" / "cnn_adam.function_events.csv.gz")
    events = events[events["name"] != "[memory]"]
    slices = trace.slices
    ours = pd.DataFrame({"name": slices["name"].astype(str), "ts": slices["ts"], "dur": slices["dur"]})
    theirs = pd.DataFrame({"name": events["name"].astype(str)})
    theirs["ts"] = (events["start_us"] * 1000).round().astype("int64")
    theirs["dur"] = ((events["end_us"] - events["start_us"]) * 1000).round().astype("int64")
    theirs["ts"] += int(ours["ts"].min() - theirs["ts"].min())
    both = ours.merge(theirs, on=["name", "ts", "dur"])
    # torch drops an only child of the same name (div_ in div_), so it has fewer
    assert len(both) >= 0.99 * len(theirs)


def test_steps_are_those_of_the_file(data: Path) -> None:
    trace = read_trace(data / "torch213_cpu" / "cnn_adam.pt.trace.json.gz")
    assert trace.steps["step"].tolist() == [2, 3, 4, 5, 6]
    assert set(trace.steps["source"]) == {"file"}
    assert trace.metadata["steps_source"] == "file"
    operators = trace.slices[trace.slices["category"] == "operator"]
    assert operators["step"].notna().mean() > 0.99


@pytest.mark.parametrize("rank", [0, 1])
def test_collectives_of_gloo_are_communication(data: Path, rank: int) -> None:
    trace = read_trace(data / "torch213_cpu" / f"ddp_gloo_rank{rank}.pt.trace.json.gz")
    slices = trace.slices
    collectives = slices[slices["category"] == "collective"]
    assert len(collectives) > 0
    assert collectives["name"].astype(str).str.startswith("gloo:").all()
    assert set(collectives["phase"].astype(object)) == {"communication"}
    assert set(trace.tracks["rank"].dropna()) == {rank}
