"""trace.save, trace.to_chrome and p.save: which writer writes, and tables for other tools."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from notebook_prof import Profile, Trace, open_profile, read_trace
from notebook_prof.errors import OptionError
from notebook_prof.testing import draw
from notebook_prof.trace import TABLES
from notebook_prof.writers import write_table


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
        match=r"'run.npz'.*\.nbprof, \.nbprof\.zip, \.json, \.json\.gz, \.pftrace, \.pftrace\.gz$",
    ):
        trace.save(tmp_path / "run.npz")
    with pytest.raises(OptionError, match=r"\.html$"):
        Profile(trace).save(tmp_path / "run.npz")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("table", [table.name for table in TABLES])
def test_tables_go_to_csv_and_parquet(trace: Trace, table: str, tmp_path: Path) -> None:
    frame = getattr(trace, table)
    for suffix in (".csv", ".csv.gz", ".parquet"):
        write_table(frame, tmp_path / f"t{suffix}")
    assert list(pd.read_csv(tmp_path / "t.csv").columns) == list(frame.columns)
    assert len(pd.read_csv(tmp_path / "t.csv.gz")) == len(frame)
    again = pd.read_parquet(tmp_path / "t.parquet")
    # Parquet keeps no categorical that has no words at all
    columns = [name for name in frame if frame[name].notna().any() or str(frame[name].dtype) != "category"]
    assert again[columns].dtypes.astype(str).tolist() == frame[columns].dtypes.astype(str).tolist()
    assert len(again) == len(frame)


def test_tables_keep_an_index_that_says_something(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 2]}, index=pd.Index(["x", "y"], name="name"))
    write_table(frame, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == "name,a\nx,1\ny,2\n"
    with pytest.raises(OptionError, match=r"t\.xlsx: .*\.csv"):
        write_table(frame, tmp_path / "t.xlsx")


def test_nested_cells_are_json(tmp_path: Path) -> None:
    value = [{"Add": [1, "x"], "none": {}}, [2.5, None], "text", None]
    frame = pd.DataFrame({"n": [1, 2, 3, 4], "value": pd.Series(value, dtype=object)})
    frame.index = [5, 6, 7, 8]
    write_table(frame, tmp_path / "t.parquet")
    write_table(frame, tmp_path / "t.csv")
    want = ['{"Add": [1, "x"], "none": {}}', "[2.5, null]", "text", None]
    for again in (pd.read_parquet(tmp_path / "t.parquet"), pd.read_csv(tmp_path / "t.csv", index_col=0)):
        assert again.index.tolist() == [5, 6, 7, 8]
        assert again["value"].astype(object).where(again["value"].notna(), None).tolist() == want
        assert again["n"].tolist() == [1, 2, 3, 4]
    assert frame["value"].tolist() == value
