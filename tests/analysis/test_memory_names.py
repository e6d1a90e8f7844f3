"""Names of memory: joined with the recorded blocks, they sum to what is used."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import notebook_prof as nbp
from notebook_prof import Trace, TraceBuilder, analysis
from notebook_prof.collectors.system.names.buffers import BufferLog
from notebook_prof.collectors.system.names.watch import NameWatch, Roots, Walked, put_names
from notebook_prof.session.findings import out_of_memory
from notebook_prof.views.tabs import TABS, Panel, Table

STEPS = 6
COLUMNS = ("address", "bytes", "device", "name", "kind", "type", "kept_by", "earlier")


def walked(rows: list[tuple[Any, ...]], levels: list[dict[str, int]]) -> Walked:
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    table["first_step_bytes"] = table["name"].map({"rows[]": 200}).fillna(-1).astype("int64")
    facts = dict.fromkeys(("walk_ns", "objects", "left", "frames_left", "saved_left"), 0)
    made = Walked(BufferLog(), levels, {"ts": 1000, "left_names": "", **facts})
    made.buffers = table
    return made


def sample(*, used: int = 10_000, at_end: Walked | None = None, error: BaseException | None = None) -> Trace:
    """Six steps of 100 ns; each keeps one block of 64 bytes, the last one saves 200 for backward."""
    b, n = TraceBuilder(), np.arange(STEPS)
    if error is not None:
        b.metadata["out_of_memory"] = out_of_memory(error)
    main = b.track("main")
    b.slices(ts=n * 100 + 10, dur=np.full(STEPS, 50), name="aten::mm", track=main)
    b.steps(step=n, ts=n * 100, dur=np.full(STEPS, 100), source="loop")
    times = np.concatenate([n * 100 + 20, [530, 540, 550]])
    addresses = np.concatenate([n + 1, [101, 102, 103]])
    sizes = np.concatenate([np.full(STEPS, 64), [200, 300, 40]])
    b.allocations(
        ts=times, addr=addresses, bytes=sizes, device=0, track=main, allocated=np.cumsum(sizes), reserved=2048
    )
    rows: list[tuple[Any, ...]] = [
        (i + 1, 60, 0, "acts[]", "tensor", "float32[15]", "", 0) for i in range(STEPS)
    ]
    rows += [
        (101, 200, 0, "loss › MmBackward0", "saved", "float32[50]", "", 0),
        (103, 40, 0, "loss", "tensor", "float32[10]", "Out[3], _3", 0),
        (900, 400, 0, "model.weight", "parameter", "float32[100]", "", 1),
        (7000, 800, -1, "table[a]", "column", "int64[100]", "", 1),
        (0, 500, -1, "rows[]", "objects", "3 Python objects", "", 0),
        (9000, 10**9, -1, "mapped", "file", "float64[1]", "", 1),
    ]
    levels = [
        {"device": -1, "used": used, "allocated": -1, "cached": 700},
        {"device": 0, "used": 5000, "allocated": 384 + 200 + 300 + 40 + 400 + 50, "cached": 500},
    ]
    now = walked(rows, levels)
    put_names([now, now if at_end is None else at_end], b)
    return b.seal()


@pytest.mark.parametrize("used", [10_000, 1_200])
def test_named_saved_unnamed_cached_and_outside_are_what_is_used(used: int) -> None:
    names = analysis.memory_names(sample(used=used))
    counted = names[names["kind"] != "file"].groupby("device")
    assert counted["bytes"].sum().to_dict() == {-1: used, 0: 5000}
    assert counted["share"].sum().to_dict() == pytest.approx({-1: 1.0, 0: 1.0})
    last = names[names["device"] == -1].iloc[-1]
    assert (last["kind"], last["bytes"]) == (
        ("outside", 8000) if used == 10_000 else ("not resident", 1_200 - 2_000)
    )
    device = names[names["device"] == 0].groupby("kind")["bytes"].sum().to_dict()
    assert device["unnamed"] == 300 + 50  # a block of the recording, and what is older
    assert (device["cached"], device["outside"]) == (500, 5000 - 1374 - 500)


def test_blocks_tell_sizes_lines_and_growth() -> None:
    names = analysis.memory_names(sample()).set_index("name")
    acts = names.loc["acts[]"]
    assert (acts["buffers"], acts["bytes"], acts["type"]) == (STEPS, 64 * STEPS, "6 × float32[15]")
    assert (acts["bytes_per_step"], acts["operator"]) == (64, "aten::mm")
    assert names.loc["loss", "bytes_per_step"] == 0, "it holds what the last step has made"
    assert pd.isna(names.loc["model.weight", "bytes_per_step"]), "older than the recording"
    assert pd.isna(names.loc["table[a]", "bytes_per_step"]), "its allocation is not recorded"
    assert names.loc["rows[]", "bytes_per_step"] == (500 - 200) / STEPS, "from look to look"
    assert names.loc["loss", "kept_by"] == "Out[3], _3"
    grown = analysis.memory_growth(sample(), by="operator")
    assert acts["bytes_per_step"] == grown["bytes_per_step"][0], "two ways to one number"


def test_what_is_left_behind_by_variable() -> None:
    left = analysis.memory_left_behind(sample()).set_index("name")
    assert left["bytes"].to_dict() == {"acts": 384, "rows": 500, "loss": 240}
    assert left.loc["loss", "release"] == "del loss, Out[3], _3"
    assert left.loc["acts", "release"] == "del acts"


def test_the_end_of_the_cell_may_be_later() -> None:
    end = walked([(1, 99, 0, "later", "tensor", "float32[9]", "", 0)], [])
    trace = sample(at_end=end)
    assert "acts[]" in set(analysis.memory_names(trace)["name"])
    later = analysis.memory_names(trace, at="cell")
    assert later[["name", "bytes"]].values.tolist() == [["later", 99]], (
        "its address may be another block's now"
    )
    assert analysis.memory_left_behind(trace)["name"].tolist() == ["later"]


def test_names_that_hold_more_at_the_end_of_the_cell_are_listed_too() -> None:
    rows: list[tuple[Any, ...]] = [
        (1, 60, 0, "acts[]", "tensor", "float32[15]", "", 0),
        (5, 300, 0, "loss", "tensor", "float32[75]", "", 0),
        (6, 99, 0, "later", "tensor", "float32[9]", "", 0),
        (0, 900, -1, "rows[]", "objects", "6 Python objects", "", 0),
    ]
    trace = sample(at_end=walked(rows, [{"device": 0, "used": 9_000, "allocated": -1, "cached": 0}]))
    names = analysis.memory_names(trace)
    end = names[names["moment"] == "cell"].set_index("name")
    assert end["bytes"].to_dict() == {"rows[]": 900, "loss": 300, "later": 99}, "less of acts is left"
    assert end.loc["later", "share"] == pytest.approx(99 / 9_000)
    assert end["created_line"].isna().all()
    assert end["bytes_per_step"].isna().all(), "more steps than the recorded ones have added to it"
    first = names[names["moment"] == "recording"].reset_index(drop=True)
    pd.testing.assert_frame_equal(first, analysis.memory_names(trace, at="recording"))
    assert set(analysis.memory_left_behind(trace)["name"]) <= {"rows", "loss", "later", "acts"}
    assert "later" not in set(analysis.memory_names(trace, device=-1)["name"])


def test_what_was_not_compared_is_missing() -> None:
    b = TraceBuilder()
    rows: list[tuple[Any, ...]] = [(1, 8, -1, "x", "array", "", "", -1)]
    put_names([walked(rows, [])], b)
    trace = b.seal()
    assert analysis.memory_names(trace)["new_bytes"].isna().all()
    assert analysis.memory_left_behind(trace).empty


def test_an_errors_locals_and_results_are_let_go_of() -> None:
    b = TraceBuilder()
    rows: list[tuple[Any, ...]] = [
        (1, 8, -1, "traceback: boom:3 › x", "array", "", "", 0),
        (20, 8, -1, "Out[9]", "array", "", "_9", 0),
    ]
    put_names([walked(rows, [])], b)
    released = analysis.memory_left_behind(b.seal()).set_index("name")["release"].to_dict()
    assert released["Out[9]"] == "del Out[9], _9"
    assert released["traceback: boom:3"] == "sys.last_exc = sys.last_value = sys.last_traceback = None"


def test_it_survives_saving(tmp_path: Any) -> None:
    trace = sample()
    nbp.Profile(trace).save(tmp_path / "p.nbprof")
    again = nbp.open_profile(tmp_path / "p.nbprof")
    pd.testing.assert_frame_equal(again.memory.names(), analysis.memory_names(trace))
    pd.testing.assert_frame_equal(again.memory.left_behind(), analysis.memory_left_behind(trace))


def test_a_walk_of_this_process_sums_to_its_resident_memory() -> None:
    psutil = pytest.importorskip("psutil")
    large = np.ones(5_000_000)
    walk = NameWatch(lambda: Roots({"large": large})).now()
    resident = psutil.Process().memory_info().rss
    assert walk is not None
    b = TraceBuilder()
    put_names([walk], b)
    names = analysis.memory_names(b.seal())
    assert names["bytes"][0] == large.nbytes
    assert names["bytes"].sum() == pytest.approx(resident, abs=2**24)


def shown(trace: Trace) -> Panel:
    panel = TABS["memory"].build(trace, {})
    assert isinstance(panel, Panel)
    return panel


def test_the_tab_shows_names_and_what_is_left_behind() -> None:
    tables = {part.title: part for part in shown(sample()).parts if isinstance(part, Table)}
    names = tables["Names that hold memory"]
    expected = analysis.memory_names(sample())
    assert names.frame["bytes"].tolist() == expected["bytes"].tolist()
    focused = [0 if chosen is None else 1 for chosen in names.select or ()]
    assert focused == expected["slice"].notna().astype(int).tolist()
    assert tables["Left behind by the cell"].frame["name"].tolist() == ["rows", "acts", "loss"]


def test_which_errors_say_that_memory_is_not_enough() -> None:
    class Mine(MemoryError):
        def __str__(self) -> str:
            raise RuntimeError("code of the user's ran")

    torch_like = type("OutOfMemoryError", (RuntimeError,), {})
    assert out_of_memory(Mine("x")) == {"error": "Mine", "text": "x"}
    assert (
        out_of_memory(torch_like("CUDA out of memory. Tried to allocate 2 GiB"))["error"]
        == "OutOfMemoryError"
    )
    assert out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried …"))
    assert not out_of_memory(RuntimeError("shapes differ"))
    assert not out_of_memory(ValueError("out of memory"))
    assert not out_of_memory(None)
