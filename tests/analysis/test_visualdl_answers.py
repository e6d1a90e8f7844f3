"""VisualDL's answers that are right, for every run that it answered; its errors are in test_paddle_reader."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from notebook_prof import Trace, read_trace
from notebook_prof.analysis import memory, operators, phases

from .paddle_tables import typed

RUNS = {
    "synthetic_gpu2/synthetic_rank0_span0": "synthetic_gpu2/synthetic_rank0*.json",
    "synthetic_gpu2/synthetic_rank1_span0": "synthetic_gpu2/synthetic_rank1*.json",
    "v262_full/worker_f_span0": "v262_full/worker_f*.json",
    "v262_sched/worker_s_span0": "v262_sched/worker_s*_12_854829*.json",
    "v262_sched/worker_s_span1": "v262_sched/worker_s*_13_132135*.json",
}
PHASES = {"Dataloader": "data", "Forward": "forward", "Backward": "backward", "Optimization": "optimizer"}
GPU = [run for run in RUNS if run.startswith("synthetic")]
ROUNDED = 0.0051
"""Of two decimals; VisualDL takes its times from float32."""


@cache
def opened(path: Path) -> Trace:
    return read_trace(path)


class Answers:
    """What VisualDL says of one run, and the run."""

    def __init__(self, folder: Path, run: str) -> None:
        self.folder = folder / "visualdl_oracle" / run
        self.trace = opened(next(folder.glob(RUNS[run])))

    def read(self, name: str) -> Any:
        return json.loads((self.folder / f"{name}.json").read_text())


@pytest.fixture
def answers(shared_traces: Path, run: str) -> Answers:
    return Answers(shared_traces / "paddle", run)


def near(values: Any, want: Any, loose: float = 0.0) -> None:
    assert np.allclose(np.asarray(values, float), np.asarray(want, float), rtol=2e-5, atol=ROUNDED + loose)


@pytest.mark.parametrize("run", RUNS)
def test_operators(answers: Answers) -> None:
    table = typed(answers.trace)
    table = table[table["type"] == "Operator"]
    reported = answers.read("operator_pie_all")
    for side, column in (("cpu", "dur"), ("gpu", "gpu_ns")):
        time = table[column] / 1e6
        figures = time.groupby(table["name"]).agg(["size", "sum", "mean", "max", "min"])
        assert len(reported.get(side, ())) in (0, len(figures))
        for row in reported.get(side, ()):
            own = figures.loc[row["name"]]
            assert own["size"] == row["calls"]
            near(own[1:], [row[f"{key}_time"] for key in ("total", "avg", "max", "min")])
            near(100 * own["sum"] / time.sum(), row["ratio"], 0.01)
    own = operators(answers.trace, category="operator").set_index("name")
    for row in reported["cpu"]:
        assert own.loc[row["name"], "count"] == row["calls"]
        near(own.loc[row["name"], "total_ns"] / 1e6, row["total_time"])


@pytest.mark.parametrize("run", RUNS)
def test_phases_of_every_step(answers: Answers) -> None:
    table = phases(answers.trace)
    table["phase"] = table["phase"].astype(str)
    for side, column in (("CPU", "host_ns"), ("GPU", "device_ns")):
        reported = answers.read(f"overview_model_perspective_perstep_{side}")
        if not reported or not table[column].any():
            continue
        rows = table
        if side == "CPU":  # VisualDL's backward holds the calls that exchange gradients
            rows = table.replace({"phase": {"communication": "backward"}})
        sums = rows.groupby(["phase", "step"])[column].sum() / 1e6
        for name, values in zip(reported["order"], reported["data"], strict=True):
            if name in PHASES:
                near([sums.get((PHASES[name], step), 0) for step in reported["steps"]], values)


@pytest.mark.parametrize("run", GPU)
def test_the_memory_curve(answers: Answers, run: str) -> None:
    device = int(run[-len("0_span0")])
    reported = answers.read(f"memory_curve_Place_gpu{device}")
    curve = memory(answers.trace)
    curve = curve[curve["device"] == device]
    for name, column in (("Allocated", "allocated_bytes"), ("Reserved", "reserved_bytes")):
        points = pd.DataFrame(reported[name], columns=["ms", "kib", "event"])
        assert len(points) == len(curve) > 20
        near(curve["ts"] / 1e6, points["ms"])
        near(curve[column] / 1024, points["kib"])


@pytest.mark.parametrize("run", RUNS)
def test_user_defined_ranges(answers: Answers) -> None:
    table = typed(answers.trace)
    table = table[table["type"] == "PythonUserDefined"]
    figures = table.groupby("name")["dur"].agg(["size", "sum", "max", "min"])
    reported = answers.read("overview_userdefined_perspective")
    rows = (reported or {}).get("events", [])
    assert {row["name"] for row in rows} == set(figures.index)
    for row in rows:
        own = figures.loc[row["name"]]
        assert own["size"] == row["calls"]
        near(own[1:] / 1e6, [row[f"cpu_{key}_time"] for key in ("total", "max", "min")])
