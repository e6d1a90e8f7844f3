"""trace.save, trace.to_chrome and p.save: which writer writes."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from notebook_prof import Profile, Trace, open_profile, read_trace
from notebook_prof.errors import OptionError
from notebook_prof.testing import draw


@pytest.fixture
def trace() -> Trace:
    return draw("steps: [0       ]\nmain:  [net/forward]\nmain:   [mm][add]")


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("run.nbprof", "folder"),
        ("run", "folder"),
        ("run.nbprof.zip", "zip"),
        ("run.zip", "zip"),
        ("run.json", "kineto"),
        ("run.pt.trace.json.gz", "kineto"),
    ],
)
def test_the_suffix_says_the_format(trace: Trace, name: str, source: str, tmp_path: Path) -> None:
    for save in (trace.save, Profile(trace).save):
        save(tmp_path / name)
        again = open_profile(tmp_path / name).trace
        assert (tmp_path / name).is_dir() == (source == "folder")
        assert again.metadata.get("source") == ("kineto" if source == "kineto" else None)
        columns = ["name", "ts", "dur", "depth", "self_ns"]
        same = again.slices[again.slices["name"].isin(["net", "mm", "add"])][columns].astype(object)
        pd.testing.assert_frame_equal(same.reset_index(drop=True), trace.slices[columns].astype(object))


def test_format_beats_the_suffix(trace: Trace, tmp_path: Path) -> None:
    trace.save(tmp_path / "run.dat", format="chrome")
    assert read_trace(tmp_path / "run.dat").metadata["source"] == "kineto"
    Profile(trace).save(tmp_path / "run.data", format="native")
    assert (tmp_path / "run.data").is_dir()
    with pytest.raises(OptionError, match="no writer 'cromhe': did you mean 'chrome'"):
        trace.save(tmp_path / "run.json", format="cromhe")


def test_an_unknown_suffix_writes_nothing(trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(
        OptionError,
        match=r"'run.npz'.*\.nbprof, \.nbprof\.zip, \.json, \.json\.gz \(for Perfetto, too\)$",
    ):
        trace.save(tmp_path / "run.npz")
    with pytest.raises(OptionError, match=r"\.html$"):
        Profile(trace).save(tmp_path / "run.npz")
    assert not list(tmp_path.iterdir())
