"""Lines and what they cost elsewhere: conservation laws on drawn traces and on cells that really ran."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from notebook_prof import Profile
from notebook_prof.analysis.source.lines import NOT_IN_LINES, lines
from notebook_prof.profiles.files import open_profile
from notebook_prof.trace import Trace, TraceBuilder, length, union

from ..unit.test_source_lines import training

HEAD = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "notebook_prof")
shell.run_cell("import torch; from torch import nn; from torch.utils.checkpoint import checkpoint")
shell.run_cell(sys.argv[1])
import notebook_prof
notebook_prof.last.save(sys.argv[2])
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


def recorded(cell: str, folder: Path) -> Profile:
    """Run a cell in a shell of its own process, and open what it saved."""
    pytest.importorskip("torch")
    file = folder / "cell.nbprof"
    subprocess.run([sys.executable, "-c", HEAD, cell, str(file)], check=True, timeout=300, cwd=folder)
    return open_profile(file)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    return recorded(PLAIN, tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def top_level(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    return recorded(TOP_LEVEL, tmp_path_factory.mktemp("top"))


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


def test_what_a_line_runs_inside_a_backward_node_is_its_own() -> None:
    b = TraceBuilder()
    main = b.track("main", pid=7, tid=7)
    names = ["cell:2  h = f(x)", "cell:4  y.backward()", "cell:9  return g * 2"]
    b.slices(ts=[0, 100, 120], dur=[100, 100, 20], name=names, category="python", track=main)
    forward = b.slices(ts=10, dur=5, name="f", phase="forward", track=main)
    node = b.slices(ts=110, dur=50, name="fBackward", phase="backward", track=main)
    b.slices(
        ts=[125, 145, 170], dur=[10, 5, 9], name=["mul", "mm", "AccumulateGrad"], phase="backward", track=main
    )
    b.flows("fwdbwd", forward, node)
    trace = b.seal()
    check_laws(trace)
    table = lines(trace, remainder=True).set_index("line")["backward_ns"]
    assert table.to_dict() == {2: 30, 4: 0, 9: 20, 0: 9}


def test_a_window_cuts_the_costs() -> None:
    trace = training().seal()
    half = lines(trace, window=(0, 250), remainder=True).set_index("line")
    assert half["backward_ns"].to_dict() == {2: 0, 3: 30, 4: 0, 0: 0}
    assert half["device_ns"].sum() == 0
    assert lines(trace, window=(1000, 1025), remainder=True)["device_ns"].tolist() == [25]


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


def test_without_lines_everything_is_in_the_rest() -> None:
    b = TraceBuilder()
    b.slices(ts=0, dur=9, name="mm", track=b.track("main"))
    trace = b.seal()
    assert len(lines(trace)) == 0
    assert lines(trace, remainder=True)[["text", "self_ns"]].values.tolist() == [[NOT_IN_LINES, 9]]


def test_laws_on_a_recorded_cell(plain: Profile) -> None:
    check_laws(plain.trace)
    table = plain.lines(remainder=True)
    by_line = table.groupby("line")[["backward_ns", "bytes_kept", "bytes_allocated"]].sum()
    assert by_line.loc[17, "backward_ns"] == 0, "backward() itself is no forward"
    # a starved sampler sees less of `forward`: its operators then count for the line that calls it
    forward = by_line.loc[by_line.index.isin([7, 8, 13, 14]), "backward_ns"].sum()
    assert forward > 0.7 * table["backward_ns"].sum() > 0
    assert by_line.loc[15, "bytes_allocated"] == by_line.loc[15, "bytes_kept"] == 10 * 4 * (1 << 16)


def test_laws_on_a_custom_function_and_a_checkpoint(top_level: Profile) -> None:
    check_laws(top_level.trace)
    table = top_level.lines(remainder=True).groupby("line")[["backward_ns", "total_ns"]].sum()
    assert table.loc[12, "backward_ns"] > 0
    assert table.loc[15, "backward_ns"] > 0
    by_line = top_level.operators(by="line").set_index("line")
    assert set(by_line.index[np.asarray(by_line["count"] > 0)]) >= {"cell:12", "cell:13", "cell:16"}
