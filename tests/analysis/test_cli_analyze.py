"""``notebook-prof analyze`` against the outputs of MegEngine's ``profile_analyze``, run on the same file."""

import gzip
import json
import re
import shlex
from pathlib import Path

import pytest

from notebook_prof.cli.main import main

IDENTICAL = (
    *("agg_mean_all", "agg_mean_type", "host", "kern", "maxtime", "only_device"),
    *("only_host", "only_summary", "oprname", "t5", "t5_memory_min1e4_conv", "t5_type_sum", "types2"),
)
CRASHED = (
    *("agg_max_type", "agg_min_type", "copytime", "dtype", "dtype_f", "orderby_computation"),
    "orderby_flops",
)
TIED = {"orderby_bandwidth": 7, "t5_orderby_plus_time": 1}
"""Columns that are equal, where nothing defines the order of operators with equal times."""


MORE = json.loads(
    gzip.decompress((Path(__file__).parents[1] / "data/megengine/analyze_more.json.gz").read_bytes())
)
"""24 more runs of ``profile_analyze`` 1.13 on the same file, by name: ``arguments`` and ``text``."""
MORE_TIED = {"agg_by_type_t0", "agg_type_sum_plus", "kern_host", "only_host_kern"}
MORE_TIED |= {"orderby_memory", "orderby_plus_memory"}


@pytest.fixture
def static(data: Path) -> str:
    return str(data / "megengine/profiling_train.json.gz")


def oracle(shared_traces: Path, name: str) -> tuple[list[str], str]:
    first, *others = (shared_traces / f"megengine/analyze_oracle/train_{name}.txt").read_text().splitlines()
    return shlex.split(first)[5:], "\n".join(others).rsplit("rc=", 1)[0].rstrip()


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["analyze", *arguments]) == 0
    return capsys.readouterr().out.rstrip()


@pytest.mark.parametrize("name", IDENTICAL)
def test_the_same_text(shared_traces: Path, static: str, name: str, capsys) -> None:
    arguments, text = oracle(shared_traces, name)
    assert said(capsys, static, "--format", "grid", *arguments) == text


@pytest.mark.parametrize("name", TIED)
def test_the_same_rows_but_for_ties(shared_traces: Path, static: str, name: str, capsys) -> None:
    arguments, text = oracle(shared_traces, name)
    ours = said(capsys, static, "--format", "grid", *arguments)
    rows = [
        [line.split("│")[TIED[name]].strip() for line in part.splitlines() if line.startswith("│")]
        for part in (ours, text)
    ]
    times = [
        [cell for cell in column_cells if cell and cell[0] in "0123456789i" and "%" not in cell]
        for column_cells in rows
    ]
    assert times[0] == times[1]


def test_all_operators_are_there(data: Path, static: str, capsys) -> None:
    """The same blocks but for their numbers."""

    def lines(text: str) -> list[str]:
        rows = [line.split("│", 3)[3] for line in text.splitlines() if line.startswith("│")]
        return sorted(row.replace("nan", "N/A") for row in rows)  # 0 bytes in no time

    text = gzip.decompress((data / "megengine/analyze_all.txt.gz").read_bytes()).decode()
    assert lines(said(capsys, static, "--format", "grid", "-t", "0")) == lines(text)


@pytest.mark.parametrize("name", MORE)
def test_more_runs_of_the_flags(static: str, name: str, capsys) -> None:
    text = MORE[name]["text"]
    ours = said(capsys, static, "--format", "grid", *MORE[name]["arguments"])
    if name not in MORE_TIED:
        assert ours == text
        return
    # the same times; which of two equals comes first, nothing defines
    assert sorted(own_times(ours)) == sorted(own_times(text))
    assert len(own_times(text)) >= 3


def own_times(text: str) -> list[str]:
    """The time of each row, which stands below its number."""
    rows = re.findall(r"^│ #\d+ .*\n│ (\S+)", text, re.MULTILINE)
    return [row for row in rows if row]


@pytest.mark.parametrize("name", CRASHED)
def test_what_crashes_upstream_works(shared_traces: Path, static: str, name: str, capsys) -> None:
    arguments, text = oracle(shared_traces, name)
    assert text == "" or "total host time" in text
    rows = json.loads(said(capsys, static, *arguments, "--json"))
    assert rows
    if name.startswith("agg"):
        top = {row["type"]: row for row in rows}["ConvolutionBackwardFilter"]
        pick = max if "max" in name else min
        assert top["time_s"] == pytest.approx(pick(0.007806, 0.005542))
        assert top["computation"] == pick(12_460_032, 6_220_800)
    if name.startswith("orderby"):
        assert rows[0]["flops_per_s"] is None


def test_dtype_and_copies(static: str, capsys) -> None:
    rows = json.loads(said(capsys, static, "-t", "0", "--input-dtype", "Int32", "--json"))
    everything = json.loads(said(capsys, static, "-t", "0", "--json"))
    assert 0 < len(rows) < len(everything) == 207
    assert "copy time          0" in said(capsys, static, "--copy-time", "--print-only", "summary")


def test_it_takes_every_format(data: Path, capsys) -> None:
    file = str(data / "torch213_cpu/cnn_adam.pt.trace.json.gz")
    rows = json.loads(said(capsys, file, "-t", "2", "--type", "aten::convolution_backward", "--json"))
    assert [row["computation"] for row in rows] == [301_989_888] * 2
    assert rows[0]["time_s"] >= rows[1]["time_s"]
    rows = json.loads(said(capsys, file, "--where", "conv flops>300M", "-t", "0", "--json"))
    assert len(rows) == 10
    assert said(capsys, file, "--aggregate-by", "type").count("\n") > 5
