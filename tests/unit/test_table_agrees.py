"""The operator table of the views against ``p.operators()`` and ``p.kernels()``, number by number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from notebook_prof.analysis import kernels, operators
from notebook_prof.analysis.scope import on_device
from notebook_prof.errors import OptionError
from notebook_prof.labels import merged_name
from notebook_prof.profiles.profile import Profile
from notebook_prof.selection import Selection
from notebook_prof.service import executor
from notebook_prof.service.answers import table
from notebook_prof.service.store import ViewStore
from notebook_prof.testing import draw as drawn_lanes
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.views.page_queries import PageQueries

from ..browser.drawn import drawn_trace
from ..browser.drawn_cell import drawn_cell


def _shown(store: ViewStore, scope: str, by: str = "name", **selected: Any) -> pd.DataFrame:
    state = Selection(**selected).to_state()
    answer = table(store, state, {"by": by, "scope": scope, "top": 1000})
    data = answer.arrays()
    frame = pd.DataFrame({k: data[k] for k in ("count", "total_ns", "self_ns", "device_ns", "share")})
    frame.insert(0, by, answer.content["label"])
    return frame.sort_values(by).reset_index(drop=True)


def _same(
    store: ViewStore, by: str = "name", device_columns: Sequence[str] = ("count", "total_ns"), **selected: Any
) -> None:
    ours = _shown(store, "host", by, **selected)
    theirs = operators(store.trace, by=by, **selected)
    theirs = theirs[theirs[by].notna()]
    theirs["share"] = theirs["self_ns"] / max(theirs["self_ns"].sum(), 1)
    _equal(ours, theirs, by, ["count", "total_ns", "self_ns", "device_ns", "share"])
    _equal(
        _shown(store, "device", by, **selected), kernels(store.trace, by=by, **selected), by, device_columns
    )


def check_tables(trace: Trace) -> None:
    """Check that the page's table of a whole trace is that of the analyses."""
    # Work of one name that overlaps on a stream counts once in the page's table, and twice in
    # ``p.kernels()``: `trust` tells how much that is.
    doubled = (on_device(trace).end[:-1] > on_device(trace).ts[1:]).any()
    _same(ViewStore(trace), device_columns=["count"] if doubled else ["count", "total_ns"])


def _equal(ours: pd.DataFrame, theirs: pd.DataFrame, by: str, columns: Sequence[str]) -> None:
    theirs = theirs[theirs[by].notna()].sort_values(by)
    assert ours[by].tolist() == theirs[by].tolist()
    for column in columns:
        np.testing.assert_allclose(ours[column], theirs[column].astype(float), rtol=1e-12, err_msg=column)


SELECTIONS: list[dict[str, Any]] = [
    {},
    {"window": (31_234_567, 77_777_777)},
    {"step": [4, 5]},
    {"phase": ["forward"], "window": (20_000_000, 90_000_001)},
    {"category": ["operator"], "window": (20_000_000, 90_000_001)},
]


@pytest.mark.parametrize(
    ("selected", "rows"),
    [
        ({"window": (20_000_000, 90_000_001)}, 17),
        ({"name": "aten::conv2d"}, 1),
        ({"category": "operator"}, 13),
        ({"track": [1, 2]}, 2),
        ({"step": [4, 5], "track": 0}, 15),
        ({"phase": "forward"}, 11),
        ({"line": "cell:6"}, 2),
    ],
    ids=str,
)
def test_python_goes_on_with_the_selection_of_the_page(selected: dict[str, Any], rows: int) -> None:
    """`p.operators(where=p.selection)` has the numbers of the table, in every dimension."""
    p = Profile(drawn_cell() if "line" in selected else drawn_trace(gpu=True))
    p.selection.update(**selected)
    theirs = p.operators(where=p.selection)
    ours = _shown(ViewStore(p.trace), "host", **selected)
    ours = ours[ours["name"].isin(theirs["name"])]  # all names stay in the page, to choose from
    assert len(ours) == rows
    _equal(ours, theirs, "name", ["count", "total_ns", "self_ns", "device_ns"])


@pytest.mark.parametrize("selected", SELECTIONS, ids=str)
@pytest.mark.parametrize("by", ["name", "module", "category"])
def test_a_training_run(selected: dict[str, Any], by: str) -> None:
    if by == "category" and "category" in selected:
        pytest.skip("a view is not filtered by its own dimension")
    _same(ViewStore(drawn_trace(gpu=True)), by, **selected)


@pytest.mark.parametrize("selected", [*SELECTIONS, {"name": ["aten::mm"]}, {"name": ["gone"]}], ids=str)
def test_the_shortest_and_the_longest_call(selected: dict[str, Any]) -> None:
    trace = drawn_trace(gpu=True)
    answer = table(ViewStore(trace), Selection(**selected).to_state(), {"by": "name"})
    chosen = trace.slices[Selection(**selected).mask(trace.slices)]
    device = chosen.index.isin(on_device(trace).rows)
    for side, rows in (("host_range", chosen[~device]), ("device_range", chosen[device])):
        expected = [int(rows["dur"].min()), int(rows["dur"].max())] if len(rows) else []
        assert answer.content[side] == expected
    data = answer.arrays()
    for label, low, high, on_side in zip(
        answer.content["label"], data["min_ns"], data["max_ns"], data["side"], strict=True
    ):
        same = trace.slices["name"].astype(str).map(merged_name) == label
        others = Selection(**{**selected, "name": None}).mask(trace.slices)
        dur = trace.slices["dur"][others & same & (trace.slices.index.isin(on_device(trace).rows) == on_side)]
        assert (low, high) == ((dur.min(), dur.max()) if len(dur) else (0, 0)), label


@st.composite
def tangled_traces(draw: st.DrawFn) -> Trace:
    """Slices of few names that nest in their own name, overlap in part, and launch work on two streams."""
    builder = TraceBuilder()
    tracks = [builder.track(f"t{k}", pid=1, tid=k + 1) for k in range(2)]
    streams = [builder.track(f"s{k}", "stream", device=0, stream=k) for k in range(2)]
    names = draw(st.sampled_from([("a", "b", "c"), ("a", "ProfilerStep#1", "ProfilerStep#2")]))
    row = st.tuples(*(st.integers(0, most) for most in (30, 25, 1, 2, 3)))
    rows = draw(st.lists(row, min_size=1, max_size=14))
    handles = []
    for ts, dur, track, name, kind in rows:
        category = ("operator", "annotation", "launch", "python")[kind]
        more = {"step": ts % 3, "module": f"m{name}" if ts % 2 else None}
        handles += builder.slices(
            ts=ts, dur=dur, name=names[name], track=tracks[track], category=category, **more
        ).tolist()
    launches = draw(
        st.lists(st.tuples(st.integers(0, len(rows) - 1), st.integers(0, 9), st.integers(0, 12)), max_size=6)
    )
    free = [0, 0]
    for k, (source, wait, dur) in enumerate(launches):
        at = max(free[k % 2], rows[source][0] + wait)
        made = builder.slices(ts=at, dur=dur, name="gemm", category="kernel", track=streams[k % 2])
        free[k % 2] = at + dur
        builder.flows("launch", handles[source], made[0])
    return builder.seal()


windows = st.tuples(st.integers(-5, 60), st.integers(1, 50)).map(lambda w: (w[0], w[0] + w[1]))


@given(tangled_traces(), windows, st.sampled_from(["name", "module"]))
def test_any_trace_and_window(trace: Trace, window: tuple[int, int], by: str) -> None:
    store = ViewStore(trace)
    _same(store, by)
    if (window := (max(window[0], 0), window[1]))[1] > window[0]:
        _same(store, by, window=window)
        _same(store, by, window=window, step=[0, 2])


def test_ranges_around_steps_are_one_row() -> None:
    trace = drawn_lanes("main: [ProfilerStep#1 ][ProfilerStep#2 ]\nmain: [mm   ]          [mm   ]")
    store = ViewStore(trace)
    _same(store)
    for selected in ({"window": (5, 22)}, {"name": ["ProfilerStep#2"]}, {"name": ["ProfilerStep#1", "mm"]}):
        shown = _shown(store, "host", **selected)
        assert shown["name"].tolist() == ["ProfilerStep*", "mm"]
        rows = operators(trace, **selected).set_index("name")
        for name, row in rows.iterrows():
            own = shown[shown["name"] == name].iloc[0]
            assert (row["count"], row["total_ns"]) == (own["count"], own["total_ns"])
    assert operators(trace, name="ProfilerStep#2")["name"].tolist() == ["ProfilerStep*"]
    assert operators(trace).set_index("name").loc["ProfilerStep*", "count"] == 2
    answer = table(store, Selection(name="ProfilerStep#1").to_state(), {"by": "name"}).content
    assert answer["count"] == 2  # the row counts all of them


def test_calls_that_wait_are_those_of_python() -> None:
    trace = drawn_lanes(
        "main: [mm][cudaDeviceSynchronize][threading.py(359): wait][cudaMemcpy][Stream Sync]\n"
        "stream 7: [gemm]",
        categories={"cudaDeviceSynchronize": "launch", "Stream Sync": "sync", "cudaMemcpy": "launch"},
    )
    store = ViewStore(trace)
    waits = {"cudaDeviceSynchronize", "threading.py(359): wait", "Stream Sync"}
    for by, extra in (("name", []), ("shapes", ["shapes"])):
        table_of = operators(trace, by=["name", *extra], waits=True)
        assert set(table_of["name"]) == waits
        assert set(operators(trace, by=["name", *extra], waits=False)["name"]) == {"mm", "cudaMemcpy"}
        request: dict[str, Any] = {"by": by, "scope": "host"}
        shown = table(store, Selection().to_state(), request)
        marked = {
            name for name, flag in zip(shown.content["label"], shown.arrays()["waits"], strict=True) if flag
        }
        assert marked == waits
        assert shown.content["waits"] == 3
        others = table(store, Selection().to_state(), {**request, "waits": False}).content
        assert (set(others["label"]), others["waits"], others["rows"]) == ({"mm", "cudaMemcpy"}, 3, 2)
    share = operators(trace).set_index("name")["share"][["cudaMemcpy", "mm"]]
    assert operators(trace, waits=False).set_index("name")["share"].to_dict() == share.to_dict()
    with pytest.raises(OptionError, match="group by 'name'"):
        operators(trace, by="module", waits=True)


def test_a_first_window_of_a_long_recording_is_made_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other queries are answered while the running sums for a brush are built."""
    monkeypatch.setattr(executor, "_MANY", 100)
    queries = PageQueries(drawn_trace(gpu=True), Selection())
    queries.selection.window = (0, 50_000_000)
    while (answer := queries.answer({"t": "table"})[0]).get("pending"):
        assert "failed" not in queries.answer({"t": "timeline", "a": 0, "b": 1e9, "px": 10, "rows": [0]})[0]
    assert answer["rows"] > 0
