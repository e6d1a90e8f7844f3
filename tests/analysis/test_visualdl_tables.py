"""VisualDL's tables of event types, inner events, memory and devices, for every run that it answered."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from notebook_prof.trace.intervals import length

from .paddle_tables import busy, close, distribution, outermost, typed
from .test_visualdl_answers import GPU, RUNS, Answers, answers, near

__all__ = ["answers"]

PHASES = ("Dataloader", "Forward", "Backward", "Optimization")


def phase_of(table: pd.DataFrame) -> np.ndarray[tuple[int], np.dtype[Any]]:
    """The outermost phase around each event, by launches too; "Other" inside a step, "" outside."""
    up = np.append(table["up"].to_numpy(), -1)
    kind = np.append(table["type"].to_numpy(), "")
    own = np.isin(np.arange(len(kind)), outermost(table, PHASES).index)
    phase = np.full(len(table), "", dtype=object)
    at = np.arange(len(table))
    while (at >= 0).any():
        phase = np.where(own[at], kind[at], phase)
        phase = np.where((kind[at] == "ProfileStep") & (phase == ""), "Other", phase)
        at = up[at]
    return phase


@pytest.mark.parametrize("run", RUNS)
def test_event_types_by_phase(answers: Answers) -> None:
    table = typed(answers.trace)
    table["phase"] = phase_of(table)
    # "UserDefined" means PythonUserDefined with VisualDL
    for side in ("CPU", "GPU"):
        reported = answers.read(f"overview_event_type_perspective_{side}")
        for kind in reported["order"]:
            if kind in ("UserDefined", "PythonUserDefined"):
                continue
            events_of = table[(table["type"] == kind) & (table["phase"] != "")].groupby("phase")
            counts = dict(zip(*reported[kind]["calling_times"].values(), strict=True))
            assert events_of.size().to_dict() == counts, kind
            times = dict(zip(*reported[kind]["durations"].values(), strict=True))
            for phase, events in events_of:
                near(length(busy(events)) / 1e6, times[str(phase)])


@pytest.mark.parametrize("run", GPU)
def test_the_device_and_all_workers(answers: Answers, run: str) -> None:
    rank = int(run[-len("0_span0")])
    table, steps = typed(answers.trace), int(answers.trace.steps["dur"].sum())
    reported = answers.read("overview_environment")
    metadata = answers.trace.metadata
    shares = [100 * metadata[f"{kind}_cpu_utilization"] for kind in ("process", "system")]
    assert shares == pytest.approx([reported["CPU"][f"{kind}_utilization"] for kind in ("process", "system")])
    use = 100 * length(busy(table[table["type"] == "Kernel"])) / steps
    assert close([use], [reported["GPU"]["utilization"]])
    assert reported["GPU"]["name"] == metadata["devices"][rank]
    workers = {row["worker_name"]: row for row in answers.read("distributed_info")}
    assert (
        float(workers[f"synthetic_rank{rank}"]["utilization"].rstrip("%")) == reported["GPU"]["utilization"]
    )
    histogram = answers.read("distributed_histogram")
    at = histogram["worker_name"].index(f"synthetic_rank{rank}")
    rows = dict(zip(histogram["order"], (row[at] for row in histogram["data"]), strict=True))
    parts = {name: ns / 1e6 for name, ns in (distribution(table) | {"ProfileStep": steps}).items()}
    parts["Others"] = parts["ProfileStep"] - parts["Communication"] - parts["Computation"] + parts["Overlap"]
    assert set(rows) == set(parts)
    for name, value in rows.items():
        assert parts[name] == pytest.approx(value, abs=0.0101), name


@pytest.mark.parametrize("run", GPU)
def test_blocks_of_memory(answers: Answers, run: str) -> None:
    device = int(run[-len("0_span0")])
    reported = pd.DataFrame(answers.read(f"memory_events_Place_gpu{device}")["data"])
    reported = reported[reported["MemoryType"] == "Allocated"]
    events = answers.trace.allocations.query("device == @device")
    table = typed(answers.trace)
    home = events["slice"].to_numpy(np.int64, na_value=-1)
    # what happens in an inner event is its operator's
    inner = np.append((table["type"] == "OperatorInner").to_numpy(), False)[home]
    names = np.append(table["name"].to_numpy(), "")
    events = events.assign(event=names[np.where(inner, table["up"].to_numpy()[home], home)])
    made, freed = events[events["bytes"] > 0], events[events["bytes"] < 0]
    assert len(reported) == max(len(made), len(freed))
    assert (reported["Size"] * 1024).sum() == made["bytes"].sum() == -freed["bytes"].sum()
    for addr, blocks in reported.groupby("MemoryAddr"):
        blocks_made = made[made["addr"] == int(str(addr), 16)]
        gone = freed[freed["addr"] == int(str(addr), 16)]
        near(blocks_made["ts"] / 1e6, blocks["AllocatedTimestamp"])
        near(gone["ts"] / 1e6, blocks["FreeTimestamp"])
        assert (blocks_made["bytes"] / 1024).tolist() == blocks["Size"].tolist()
        assert gone["event"].tolist() == blocks["FreeEvent"].tolist()
    counted = answers.read("memory_devices")[0]
    assert counted["max_size"] == reported["Size"].max()
