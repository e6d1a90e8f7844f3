"""Figures that other tools give for the same files."""

from pathlib import Path

import pandas as pd
import pytest

from notebook_prof.readers import read_trace


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
