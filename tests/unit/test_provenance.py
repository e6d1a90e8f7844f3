"""The line on top of a report is what the recording says of itself, and nothing else."""

from __future__ import annotations

from pathlib import Path

import notebook_prof as nbp
from notebook_prof import TraceBuilder
from notebook_prof.testing import draw
from notebook_prof.views.report.report import header, provenance


def test_of_a_file(data: Path, tmp_path: Path) -> None:
    profile = nbp.open_profile(data / "torch213_cpu" / "cnn_sgd.pt.trace.json.gz")
    facts = provenance(profile.trace)
    assert facts["file"] == "cnn_sgd.pt.trace.json.gz"
    assert facts["format"] == "kineto"
    assert facts["recorded"].endswith(" UTC")
    assert facts["options"] == "shapes, stacks, memory, modules, FLOPs"
    assert "devices" not in facts, "none is recorded"
    draw("main: [mm]").save(tmp_path / "small.json")
    small = nbp.open_profile(tmp_path / "small.json")
    small.export.html(tmp_path / "report.html")
    assert "small.json" in header(small.trace)
    assert header(small.trace) in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_versions_are_written_as_their_makers_write_them() -> None:
    kineto = {"cuda_runtime_version": 12040, "hip_runtime_version": 70051831}
    assert provenance(TraceBuilder(metadata={"kineto": kineto}).seal())["versions"] == "CUDA 12.4, HIP 7.0"


def test_nothing_is_made_up() -> None:
    assert provenance(draw("main: [mm]")) == {}
    odd = TraceBuilder(metadata={"start_unix_ns": 5, "kineto": "?", "devices": None}).seal()
    assert "recorded" not in provenance(odd)
