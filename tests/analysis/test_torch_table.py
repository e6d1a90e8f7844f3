"""p.compat.torch_table() against PyTorch's own table of the same recording."""

import re
from pathlib import Path

import pandas as pd
import pytest

import notebook_prof as nbp
from notebook_prof import TraceBuilder
from notebook_prof.errors import OptionError
from notebook_prof.formats.torch.table import key_averages
from notebook_prof.testing import draw

torch = pytest.importorskip("torch")


def column(table: str, header: str) -> list[str]:
    """Read the cells below a header: names hold spaces, so the line of dashes says where a column lies."""
    lines = table.splitlines()
    spans = [match.span() for match in re.finditer("-+", lines[0])]
    start, end = next((start, end) for start, end in spans if lines[1][start:end].strip() == header)
    return [line[start:end].strip() for line in lines[3:-2]]


def number_of(cell: str) -> tuple[float, str]:
    """Divide a cell into its number and its unit."""
    digits = cell.rstrip("mus%")
    return float(digits), cell.removeprefix(digits)


def check_cells(ours: list[str], expected: list[str], tolerance: float) -> None:
    """Hold cells against PyTorch's, which adds times up as floats, so that a half is rounded either way."""
    numbers, units = zip(*map(number_of, ours), strict=True)
    torch_numbers, torch_units = zip(*map(number_of, expected), strict=True)
    assert units == torch_units
    assert numbers == pytest.approx(torch_numbers, abs=tolerance)


@pytest.mark.parametrize("unit", [None, "ms"])
@pytest.mark.parametrize(
    ("sort_by", "limit"), [("self_cpu_time_total", -1), ("cpu_time_total", 5), ("count", 7), ("cpu_time", 9)]
)
def test_the_same_lines(tmp_path: Path, sort_by: str, limit: int, unit: str | None) -> None:
    from torch.profiler import ProfilerActivity, profile

    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    model(torch.randn(4, 8)).sum().backward()
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        for _ in range(3):
            model(torch.randn(32, 8)).sum().backward()
    prof.export_chrome_trace(str(tmp_path / "run.json"))
    torch_table = prof.key_averages().table(
        sort_by=sort_by, row_limit=limit, **({"time_unit": unit} if unit else {})
    )
    ours = nbp.open_profile(tmp_path / "run.json").compat.torch_table(
        sort_by=sort_by, row_limit=limit, time_unit=unit
    )
    assert ours.splitlines()[:3] == torch_table.splitlines()[:3]
    assert ours.splitlines()[-2:] == torch_table.splitlines()[-2:]
    headers = {
        "self_cpu_time_total": "Self CPU",
        "cpu_time_total": "CPU total",
        "cpu_time": "CPU time avg",
        "count": "# of Calls",
    }
    if limit < 0:
        names = column(torch_table, "Name")
        assert sorted(column(ours, "Name")) == sorted(names)
        order = [column(ours, "Name").index(name) for name in names]  # rows of equal time in any order
        for header in ("Self CPU %", "Self CPU", "CPU total %", "CPU total", "# of Calls"):
            cells = column(ours, header)
            tolerance = 0.011 if "%" in header else 0.0011
            check_cells([cells[i] for i in order], column(torch_table, header), tolerance)
    ranked = [column(text, headers[sort_by]) for text in (ours, torch_table)]
    check_cells(*ranked, 0.0011)


def test_the_csv_of_a_larger_run(data: Path) -> None:
    torch_table = pd.read_csv(data / "torch213_cpu/lm_adamw.key_averages.csv.gz").set_index("name")
    table = key_averages(nbp.read_trace(data / "torch213_cpu/lm_adamw.pt.trace.json.gz")).set_index("name")
    shared = torch_table.index.intersection(table.index)
    assert len(shared) > 80
    torch_table = torch_table[~torch_table.index.duplicated()].loc[shared]
    assert (table.loc[shared, "count"] == torch_table["count"]).all()
    totals = table.loc[shared, "cpu_time_total_ns"] / 1000 - torch_table["cpu_time_total_us"]
    assert totals.abs().max() < 0.01 * len(shared)


def test_device_columns() -> None:
    p = nbp.Profile(
        draw("main: [linear   ]\n main:  [mm ]\n stream 7:     [gemm]", launches=[("mm", "gemm")])
    )
    text = p.compat.torch_table(sort_by="cuda_time_total")
    assert "Self CUDA %" in text.splitlines()[1]
    rows = {line.split()[0]: line.split() for line in text.splitlines()[3:-3]}
    assert rows["gemm"][7] == "100.00%"
    assert rows["linear"][6] == "0.000us"
    assert rows["linear"][8] == rows["gemm"][8] == rows["mm"][6]
    assert text.splitlines()[-1].startswith("Self CUDA time total")


def test_nothing_and_nonsense() -> None:
    p = nbp.Profile(TraceBuilder().seal())
    assert p.compat.torch_table() == ""
    with pytest.raises(OptionError, match="self_cpu_time_total"):
        p.compat.torch_table(sort_by="self_cpu_time_totl")
    with pytest.raises(OptionError, match="time unit"):
        p.compat.torch_table(time_unit="min")
