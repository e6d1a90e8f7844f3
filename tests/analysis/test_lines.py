"""Lines and what they cost elsewhere: conservation laws on drawn traces and on cells that really ran."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

from notebook_prof import Profile, Trace, TraceBuilder, open_profile
from notebook_prof.analysis import flame, lines, operators
from notebook_prof.analysis.source.lines import NOT_IN_LINES
from notebook_prof.errors import OptionError, SelectionError
from notebook_prof.trace import length, union
from tests.recording import add_slices
from tests.strategies import traces

from ..unit.test_source_lines import training

HEAD = """
import sys
import notebook_prof
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "notebook_prof")
shell.run_cell("import torch; from torch import nn; from torch.utils.checkpoint import checkpoint")
for cell, file in zip(sys.argv[1::2], sys.argv[2::2]):
    shell.run_cell(cell)
    notebook_prof.last.save(file)
"""
PLAIN = """%%profile --memory
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(256, 512), nn.Linear(512, 10)
    def forward(self, x):
        h = torch.relu(self.a(x))
        return self.b(h)
net = Net(); opt = torch.optim.SGD(net.parameters(), 1e-3)
x, y = torch.randn(128, 256), torch.randint(0, 10, (128,))
kept = []
for i in range(10):
    out = net(x)
    loss = nn.functional.cross_entropy(out, y)
    kept.append(torch.ones(1 << 16))
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
FORWARD = [7, 8, 13, 14]
"""Lines of `PLAIN` with a backward. A starved sampler attributes some of lines 7 and 8 to line 13."""
TOP_LEVEL = """%%profile
w = torch.randn(256, 256, requires_grad=True)
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        return a * 2
    @staticmethod
    def backward(ctx, g):
        return g * 2
for i in range(8):
    loss = 0
    h = w @ w
    h = Twice.apply(h)
    h = checkpoint(torch.tanh, h, use_reentrant=False)
    loss = h.sum()
    loss.backward()
"""


def record(folder: Path, *cells: str) -> list[Profile]:
    """Run cells in a shell, in a process that imports torch once, and open what it saved."""
    pytest.importorskip("torch")
    files = [folder / f"{number}.nbprof" for number in range(len(cells))]
    pairs = [part for cell, file in zip(cells, files, strict=True) for part in (cell, str(file))]
    subprocess.run([sys.executable, "-c", HEAD, *pairs], check=True, timeout=600, cwd=folder)
    profiles = [open_profile(file) for file in files]
    for profile in profiles:
        assert [issue.example for issue in profile.trace.report if issue.code == "collector-failed"] == []
    return profiles


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[Profile]:
    return record(tmp_path_factory.mktemp("cells"), PLAIN, TOP_LEVEL)


def check_laws(trace: Trace) -> None:
    """Compare the sums over lines and the rest with independent answers."""
    table = lines(trace, remainder=True)
    assert (table["text"] == NOT_IN_LINES).tolist() == [False] * (len(table) - 1) + [True]
    slices = trace.slices
    kind = trace.tracks.set_index("track")["kind"].astype(str).reindex(slices["track"]).to_numpy()
    ts, end = slices["ts"].to_numpy(), (slices["ts"] + slices["dur"]).to_numpy()
    busy = sum(
        length(union(ts[here], end[here]))
        for track in slices["track"].unique()
        if (here := (slices["track"] == track).to_numpy() & (kind == "thread")).any()
    )
    assert table["self_ns"].sum() == busy
    work = (kind == "stream") & slices["category"].isin(
        ["kernel", "memcpy", "memset", "collective"]
    ).to_numpy()
    assert table["device_ns"].sum() == slices["dur"].to_numpy()[work].sum()
    backward = (slices["phase"] == "backward").to_numpy()
    assert table["backward_ns"].sum() == slices["self_ns"].to_numpy()[backward & (kind == "thread")].sum()
    assert table["backward_device_ns"].sum() == slices["dur"].to_numpy()[backward & work].sum()
    sizes = trace.allocations["bytes"].to_numpy()
    assert table["bytes_allocated"].sum() == sizes[sizes > 0].sum()
    assert (table["bytes_kept"] <= table["bytes_allocated"]).all()
    assert (table["peak_bytes"] <= table["bytes_allocated"]).all()


def test_kernels_count_for_the_launching_line_and_backward_for_the_forward_one() -> None:
    trace = training().seal()
    check_laws(trace)
    table = lines(trace).set_index("line")
    assert table["device_ns"].to_dict() == {2: 50, 3: 50, 4: 100}
    assert table["backward_ns"].to_dict() == {2: 50, 3: 50, 4: 0}
    assert table["backward_device_ns"].to_dict() == {2: 50, 3: 50, 4: 0}
    trace = training().seal()
    half = lines(trace, window=(0, 250), remainder=True).set_index("line")
    assert half["backward_ns"].to_dict() == {2: 0, 3: 30, 4: 0, 0: 0}
    assert half["device_ns"].sum() == 0
    assert lines(trace, window=(1000, 1025), remainder=True)["device_ns"].tolist() == [25]


def test_what_a_line_runs_inside_a_backward_node_is_its_own() -> None:
    b = TraceBuilder()
    main = b.track("main", pid=7, tid=7)
    names = ["cell:2  h = f(x)", "cell:4  y.backward()", "cell:9  return g * 2"]
    b.slices(ts=[0, 100, 120], dur=[100, 100, 20], name=names, category="python", track=main)
    forward = b.slices(ts=10, dur=5, name="f", phase="forward", track=main)
    node = b.slices(ts=110, dur=50, name="fBackward", phase="backward", track=main)
    add_slices(b, main, ["mul", "mm", "AccumulateGrad"], [125, 145, 170], [10, 5, 9], phase="backward")
    b.flows("fwdbwd", forward, node)
    trace = b.seal()
    check_laws(trace)
    table = lines(trace, remainder=True).set_index("line")["backward_ns"]
    assert table.to_dict() == {2: 30, 4: 0, 9: 20, 0: 9}


def test_lines_follow_steps_and_phases() -> None:
    """Times of steps are cut at their edges; of phases, by what the line's own thread does."""
    b = TraceBuilder()
    main, other = b.track("main"), b.track("other")
    names = ["cell:2  train()", "train (cell)", "cell:6  a @ b", "cell:7  loss.backward()"]
    b.slices(ts=[0, 0, 10, 60], dur=[200, 200, 50, 140], name=names, category="python", track=main)
    b.slices(ts=[10, 60], dur=[40, 100], name=["mm", "back"], category="operator", track=main,
             phase=["forward", "backward"])  # fmt: skip
    b.slices(ts=0, dur=200, name="elsewhere", category="operator", track=other, phase="backward")
    b.steps(step=[0, 1, 2], ts=[0, 100, 150], dur=[100, 50, 50], source="mark")
    trace = b.seal()

    def total(**chosen: object) -> dict[int, int]:
        table = lines(trace, **chosen)  # type: ignore[arg-type]
        return dict(zip(table["line"], table["total_ns"], strict=True))

    assert total(step=0) == {2: 100, 6: 50, 7: 40}
    assert total(step=[0, 2]) == {2: 150, 6: 50, 7: 90}
    assert lines(trace, step=[0, 2]).set_index("line").loc[2, ["self_ns", "share"]].tolist() == [10, 1.0]
    assert total(phase="forward") == {2: 40, 6: 40}
    assert total(phase="backward", track=main) == {2: 100, 7: 100}
    assert total(phase="backward") == {2: 200, 7: 100}, "the other thread runs it for line 2"
    assert total(phase=["forward", "backward"], step=1, track=main) == {2: 50, 7: 50}
    assert total(window=(30, 120), step=0, phase="backward", track=main) == {2: 40, 7: 40}
    with pytest.raises(SelectionError, match="forward"):
        lines(trace, phase="forwards")
    with pytest.raises(OptionError, match="remainder"):
        lines(trace, step=1, remainder=True)


def test_lines_follow_names_categories_and_tracks() -> None:
    """A line has the time in which what is chosen ran for it; who launched a chosen kernel is listed."""
    trace = training().seal()
    names = trace.slices.groupby("name", observed=True)
    for name, rows in names:
        table = lines(trace, name=name)
        if rows["category"].iloc[0] == "kernel":
            assert table["device_ns"].sum() == rows["dur"].sum()
            assert table["total_ns"].sum() == 0
        for line, here in rows[rows["category"] == "operator"].groupby("line", observed=True):
            number = int(str(line).rpartition(":")[2])
            spent = table.loc[table["line"] == number, "total_ns"].sum()
            assert spent == length(union(here["ts"], here["ts"] + here["dur"])), (name, line)
    assert lines(trace, category="kernel")["device_ns"].sum() == lines(trace)["device_ns"].sum()
    threads = trace.tracks.loc[trace.tracks["kind"] == "thread", "track"].tolist()
    assert lines(trace, track=threads)["total_ns"].tolist() == lines(trace)["total_ns"].tolist()
    with pytest.raises(OptionError, match="no name"):
        lines(trace, name="mm", remainder=True)


def test_bytes_by_line_and_what_is_left_of_them() -> None:
    b = TraceBuilder()
    main = b.track("main")
    b.slices(ts=[0, 50], dur=[50, 50], name=["cell:1  a", "cell:2  b"], category="python", track=main)
    b.allocations(
        ts=[10, 20, 60, 70, 80], addr=[1, 2, 3, 1, 4], bytes=[100, 50, 70, -100, 10], device=-1,
        allocated=[100, 150, 220, 120, 130], reserved=0, track=main,
    )  # fmt: skip
    trace = b.seal()
    check_laws(trace)
    table = lines(trace).set_index("line")[["bytes_allocated", "bytes_kept", "peak_bytes"]]
    assert table.loc[1].tolist() == [150, 50, 150]
    assert table.loc[2].tolist() == [80, 80, 70]


def looks_on_lines(trace: Trace, table: pd.DataFrame) -> list[int]:
    """Count, look by look, those in which a slice of each line was open, and those in which none was."""
    slices, looks = trace.slices, trace.metadata["tables"]["samples"]
    names = (table["file"] + ":" + table["line"].astype(str) + "  " + table["text"]).tolist()
    of_line = slices["name"].astype(str).map({name: row for row, name in enumerate(names)})
    on_line = of_line.notna() & (slices["category"] == "python")
    ts, end, track, line = (
        column.to_numpy(np.int64)
        for column in (
            slices["ts"][on_line], (slices["ts"] + slices["dur"])[on_line], slices["track"][on_line],
            of_line[on_line],
        )
    )  # fmt: skip
    counts = [0] * (len(table) + 1)
    for begin, dur, where, count in looks[["ts", "dur", "track", "count"]].itertuples(index=False):
        for number in range(count):
            at = begin + ((2 * number + 1) * dur) // (2 * count)
            open_lines = set(line[(ts <= at) & (at < end) & (track == where)].tolist())
            for row in open_lines or {len(table)}:
                counts[row] += 1
    return counts


def check_flame_by_line(trace: Trace) -> None:
    """Compare the roots of a flame with the own times and the device work of operators, by their lines."""
    for metric, of_operators in (("self_ns", "self_ns"), ("device_ns", "device_self_ns")):
        for options in ({}, {"fold_libraries": True}, {"order": "time"}):
            table = flame(trace, metric=metric, by_line=True, **options)
            roots = table[table["depth"] == 0].set_index("name")["total"]
            places = roots.index.str.replace(r"  .*", "", regex=True)
            own = operators(trace, by="line").set_index("line")[of_operators]
            own.index = own.index.astype(object).fillna(NOT_IN_LINES)
            assert dict(zip(places, roots, strict=True)) == own.to_dict(), (metric, options)
            assert table["value"].sum() == own.sum()


def test_what_a_line_calls_of_other_lines_hangs_from_those() -> None:
    b = TraceBuilder()
    names = ["cell:9  run()", "run (cell)", "cell:2  mm(x)", "aten::mm", "cell:9  run()", "aten::add"]
    b.slices(
        ts=[0, 10, 20, 30, 60, 70], dur=[100, 80, 60, 20, 20, 5], name=names, track=b.track("main"),
        category=["python", "python", "python", "operator", "python", "operator"],
    )  # fmt: skip
    trace = b.seal()
    check_flame_by_line(trace)
    table = flame(trace, by_line=True)
    assert table[["name", "depth", "value", "total", "count"]].values.tolist() == [
        ["cell:9  run()", 0, 35, 60, 2],
        ["cell:2  mm(x)", 0, 20, 40, 1],
        ["run (cell)", 1, 20, 20, 1],
        ["aten::add", 1, 5, 5, 1],
        ["aten::mm", 1, 20, 20, 1],
    ]


@given(traces(lines=True))
def test_laws_on_any_trace(trace: Trace) -> None:
    check_laws(trace)
    check_flame_by_line(trace)
    table = lines(trace, remainder=True)
    if "samples" in (trace.metadata.get("tables") or {}) and len(trace.metadata["tables"]["samples"]):
        assert table["samples"].tolist() == looks_on_lines(trace, table[:-1])


def test_without_lines_everything_is_in_the_rest() -> None:
    b = TraceBuilder()
    b.slices(ts=0, dur=9, name="mm", track=b.track("main"))
    trace = b.seal()
    assert len(lines(trace)) == 0
    assert lines(trace, remainder=True)[["text", "self_ns"]].values.tolist() == [[NOT_IN_LINES, 9]]


def test_laws_on_a_recorded_cell(recorded: list[Profile]) -> None:
    plain, _ = recorded
    check_laws(plain.trace)
    table = plain.lines(remainder=True)
    by_line = table.groupby("line")[["backward_ns", "bytes_kept", "bytes_allocated"]].sum()
    assert by_line.loc[17, "backward_ns"] == 0, "backward() itself is no forward"
    assert by_line.loc[by_line.index.isin(FORWARD), "backward_ns"].sum() > 0
    assert by_line.loc[15, "bytes_allocated"] == by_line.loc[15, "bytes_kept"] == 10 * 4 * (1 << 16)
    assert table["samples"].tolist() == looks_on_lines(plain.trace, table[:-1])
    assert table["samples"].sum() > 0
    check_flame_by_line(plain.trace)


@pytest.mark.clock("a share of some 5 ms of backward, of which other jobs take their part")
def test_most_of_backward_is_that_of_the_lines_of_forward(tmp_path: Path) -> None:
    (plain,) = record(tmp_path, PLAIN)
    table = plain.lines(remainder=True)
    forward = table.loc[table["line"].isin(FORWARD), "backward_ns"].sum()
    assert forward > 0.7 * table["backward_ns"].sum() > 0


def test_laws_on_a_custom_function_and_a_checkpoint(recorded: list[Profile]) -> None:
    _, top_level = recorded
    check_laws(top_level.trace)
    check_flame_by_line(top_level.trace)
    table = top_level.lines(remainder=True).groupby("line")[["backward_ns", "total_ns"]].sum()
    assert table.loc[12, "backward_ns"] > 0
    assert table.loc[15, "backward_ns"] > 0
    by_line = top_level.operators(by="line").set_index("line")
    assert set(by_line.index[np.asarray(by_line["count"] > 0)]) >= {"cell:12", "cell:13", "cell:16"}
