"""Call trees, from callers down and from callees up: drawn, by definition, and by law on every sample."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from notebook_prof import Selection, Trace, TraceBuilder
from notebook_prof.analysis import bottom_up, call_tree, event_log, heaviest_stack, operators
from notebook_prof.analysis.device.kernel_launches import launching_rows
from notebook_prof.analysis.scope import on_device
from notebook_prof.analysis.source.line_calls import is_library_file
from notebook_prof.testing import draw
from tests.strategies import traces

PICTURE = """
main:  [train                         ]
main:   [linear    ][linear ][relu]
main:    [mm ][add]  [mm  ]
other: [linear    ]
other:  [mm    ]
stream 7:        [gemm      ]
"""
TIMES = ["count", "total_ns", "self_ns", "device_ns", "device_self_ns"]


def paths(table: pd.DataFrame) -> list[tuple[str, ...]]:
    """Names from the outermost row on, of each row."""
    out: list[tuple[str, ...]] = []
    for name, parent in zip(table["name"], table["parent"].fillna(-1), strict=True):
        out.append((*(out[int(parent)] if parent >= 0 else ()), name))
    return out


def children_of(table: pd.DataFrame, column: str) -> np.ndarray:
    """Sums of a column over what is directly below each row."""
    up = table["parent"].to_numpy(dtype=np.int64, na_value=-1)
    out = np.zeros(len(table), np.int64)
    np.add.at(out, up[up >= 0], table[column].to_numpy()[up >= 0])
    return out


def check_tree_order(table: pd.DataFrame, key: str) -> None:
    """Rows are numbered, each is below the one it names, and what took longest comes first."""
    up = table["parent"].to_numpy(dtype=np.int64, na_value=-1)
    depth = table["depth"].to_numpy()
    assert table["node"].tolist() == list(range(len(table)))
    assert (up < table["node"]).all()
    assert (depth == np.where(up >= 0, depth[up] + 1, 0)).all()
    # before a row lies what it names, or something below that
    assert (depth[1:] <= depth[:-1] + 1).all()
    sibling_before = table.groupby(up)[key].shift()
    assert not (sibling_before < table[key]).any()


def check_call_trees(trace: Trace) -> None:
    """What holds of every trace: nothing is lost, nothing counted twice, and all tables agree."""
    tree, turned, folded = call_tree(trace), bottom_up(trace), call_tree(trace, fold_libraries=True)
    by_name = operators(trace, by=["name", "category"], waits=None)
    busy, launched = by_name["self_ns"].sum(), by_name["device_self_ns"].sum()
    for table in (tree, folded, call_tree(trace, by_thread=True)):
        assert table["self_ns"].sum() == busy
        assert table["device_self_ns"].sum() == launched
        assert (table["total_ns"] == table["self_ns"] + children_of(table, "total_ns")).all()
        assert (table["device_ns"] == table["device_self_ns"] + children_of(table, "device_ns")).all()
        assert table.loc[table["depth"] == 0, "share"].sum() == pytest.approx(1 if busy else 0)
        check_tree_order(table, "total_ns")
    roots = turned[turned["depth"] == 0].set_index(["name", "category"])[TIMES].sort_index()
    assert roots["self_ns"].sum() == busy
    ran = by_name.set_index(["name", "category"])
    assert (roots["self_ns"] == ran["self_ns"].reindex(roots.index)).all()
    assert (roots["device_self_ns"] == ran["device_self_ns"].reindex(roots.index)).all()
    for column in ("count", "self_ns", "device_self_ns"):
        assert (children_of(turned, column) <= turned[column]).all()
    below = turned[turned["parent"].notna()]
    for column in ("total_ns", "device_ns"):  # of recursion, callers' sum to more
        assert (below[column].to_numpy() <= turned[column].to_numpy()[below["parent"].to_numpy(int)]).all()
    assert (turned["self_ns"] <= turned["total_ns"]).all()
    check_tree_order(turned, "self_ns")
    for column in ("total_ns", "device_ns"):
        stack = heaviest_stack(trace, by=column)
        assert stack["depth"].tolist() == list(range(len(stack)))
        assert stack[column].is_monotonic_decreasing
        if len(stack):
            assert stack[column].iloc[0] == tree.loc[tree["depth"] == 0, column].max()


@given(traces())
def test_laws(trace: Trace) -> None:
    check_call_trees(trace)


@given(traces(), st.none() | st.tuples(st.integers(0, 60), st.integers(61, 120)))
def test_nothing_is_lost_in_a_window(trace: Trace, window: tuple[int, int] | None) -> None:
    expected = operators(trace, window=window)[["self_ns", "device_self_ns"]].sum()
    tree = call_tree(trace, window=window)
    for table in (tree, call_tree(trace, window=window, fold_libraries=True)):
        assert table["self_ns"].sum() == expected["self_ns"]
        # what was launched before the window is in no row
        assert table["device_self_ns"].sum() == tree["device_self_ns"].sum() <= expected["device_self_ns"]
    roots = bottom_up(trace, window=window, levels=0)
    assert (roots["depth"] == 0).all()
    for column in ("self_ns", "device_self_ns"):
        assert roots[column].sum() == tree[column].sum()


def callers_of(trace: Trace) -> Callable[[int], list[tuple[str, str]]]:
    """Return a function of a row: name and category of its slice and of all around it, innermost first."""
    slices = trace.slices
    parent = slices["parent"].to_numpy(dtype=np.int64, na_value=-1)
    ts, dur = slices["ts"].to_numpy(), slices["dur"].to_numpy()

    def callers(row: int) -> list[tuple[str, str]]:
        out = []
        while row >= 0:
            out.append((slices["name"].iloc[row], slices["category"].iloc[row]))
            up = parent[row]
            while up >= 0 and ts[row] + dur[row] - ts[up] - dur[up] > dur[row] / 2:
                up = parent[up]
            row = up
        return out

    return callers


@given(traces())
def test_bottom_up_by_definition(trace: Trace) -> None:
    slices, callers = trace.slices, callers_of(trace)
    own: Counter[tuple[object, ...]] = Counter()
    count: Counter[tuple[object, ...]] = Counter()
    device: Counter[tuple[object, ...]] = Counter()
    kinds = trace.tracks.set_index("track")["kind"]

    for row in np.flatnonzero(slices["track"].map(kinds) == "thread").tolist():
        path = callers(row)
        for end in range(1, len(path) + 1):
            own[tuple(path[:end])] += int(slices["self_ns"].iloc[row])
            count[tuple(path[:end])] += 1
    launcher = launching_rows(trace)
    work = on_device(trace).rows
    for row in work[launcher[work] >= 0].tolist():
        path = callers(int(launcher[row]))
        for end in range(1, len(path) + 1):
            device[tuple(path[:end])] += int(slices["dur"].iloc[row])
    table = bottom_up(trace)
    labels: list[tuple[object, ...]] = []
    for name, kind, up in zip(table["name"], table["category"], table["parent"].fillna(-1), strict=True):
        labels.append((*(labels[int(up)] if up >= 0 else ()), (name, kind)))
    assert len(set(labels)) == len(labels)
    assert dict(zip(labels, table["count"], strict=True)) == dict(count)
    assert {at: ns for at, ns in zip(labels, table["self_ns"], strict=True) if ns} == {
        at: ns for at, ns in own.items() if ns
    }
    assert {at: ns for at, ns in zip(labels, table["device_self_ns"], strict=True) if ns} == {
        at: ns for at, ns in device.items() if ns
    }


def test_a_call_tree_is_listed_from_the_longest_down() -> None:
    table = call_tree(draw(PICTURE, launches=[("add", "gemm")]))
    assert dict(zip(paths(table), table["device_ns"], strict=True)) == {
        ("train",): 12,
        ("train", "linear"): 12,
        ("train", "linear", "mm"): 0,
        ("train", "linear", "add"): 12,
        ("train", "relu"): 0,
        ("linear",): 0,
        ("linear", "mm"): 0,
    }
    threads = call_tree(draw(PICTURE), by_thread=True)
    assert [path[0] for path in paths(threads)] == ["main"] * 6 + ["other"] * 3
    only = call_tree(draw(PICTURE), track=1)
    assert paths(only) == [("linear",), ("linear", "mm")]


def test_bottom_up_begins_with_what_took_longest_itself_and_may_leave_callers_of_little_out() -> None:
    table = bottom_up(draw(PICTURE, launches=[("add", "gemm")]))
    of_mm = {path: ns for path, ns in zip(paths(table), table["self_ns"], strict=True) if path[0] == "mm"}
    assert of_mm == {("mm",): 19, ("mm", "linear"): 19, ("mm", "linear", "train"): 11}
    assert paths(table)[0] == ("mm",)
    assert table.loc[table["name"] == "add", "device_self_ns"].tolist() == [12]
    every, little = bottom_up(draw(PICTURE)), bottom_up(draw(PICTURE), least_share=0.3)
    share = every[every["depth"] == 0].set_index("name")["share"]
    assert 0 < (share < 0.3).sum() < len(share)
    called = {path[0] for path in paths(every) if len(path) > 1}
    still = {path[0] for path in paths(little) if len(path) > 1}
    assert still == {name for name in called if share[name] >= 0.3}


def test_the_heaviest_stack_follows_what_takes_most() -> None:
    trace = draw(PICTURE, launches=[("add", "gemm")])
    assert heaviest_stack(trace)["name"].tolist() == ["train", "linear", "mm"]
    assert heaviest_stack(trace, by="device_ns")["name"].tolist() == ["train", "linear", "add"]
    assert heaviest_stack(trace, name="relu")["name"].tolist() == ["train", "relu"]
    assert heaviest_stack(trace, name="relu")["parent"].fillna(-1).tolist() == [-1, 0]
    assert heaviest_stack(trace, name="tanh").empty
    assert heaviest_stack(trace, name="relu", by="device_ns").empty


def folded_calls() -> Trace:
    """A line of the user's calls a library, deep inside of which one function takes the time."""
    library = "/lib/site-packages/pandas/core"
    b = TraceBuilder()
    main = b.track("main")
    places = (
        *("run.py(3): <module>", "frame.py(9): apply", "apply.py(7): apply_standard", "run.py(1): mine"),
        *("generic.py(5): __getattr__", "generic.py(6): _protect", "series.py(4): get"),
    )
    names = [place if place.startswith("run.py") else f"{library}/{place}" for place in places]
    ts, dur = [0, 1, 2, 3, 200, 202, 950], [1000, 998, 996, 985, 700, 1, 5]
    b.slices(ts=ts, dur=dur, name=names, category="python", track=main)
    b.slices(ts=[2000, 2010], dur=[500, 3], name=["aten::linear", "aten::t"], category="operator", track=main)
    waits = ["threading.py(9): run", "threading.py(3): wait"]
    b.slices(ts=[0, 1], dur=[40, 38], name=waits, category="python", track=b.track("other"))
    return b.seal()


def test_a_run_of_library_frames_is_one_row_but_for_what_takes_time_itself() -> None:
    table = call_tree(folded_calls(), fold_libraries=True)
    names = [tuple(part.rpartition(" ")[2] for part in path) for path in paths(table)]
    outer = ("<module>", "apply", "mine")
    assert dict(zip(names, table[["count", "total_ns", "self_ns"]].values.tolist(), strict=True)) == {
        ("<module>",): [1, 1000, 2],
        ("<module>", "apply"): [1, 998, 13],
        outer: [1, 985, 280],
        (*outer, "__getattr__"): [1, 700, 700],
        (*outer, "get"): [1, 5, 5],
        ("aten::linear",): [1, 500, 500],
        ("run",): [1, 40, 2],
        ("run", "wait"): [1, 38, 38],
    }
    turned = bottom_up(folded_calls(), fold_libraries=True)
    assert turned.loc[turned["depth"] == 0, "self_ns"].sum() == 1000 + 500 + 40


def test_what_only_passes_a_call_on_is_no_row_unless_the_time_is_its_own() -> None:
    module = "torch/nn/modules/module.py(1): _call_impl"
    b = TraceBuilder()
    names = ["net.py(7): run", module, "torch/nn/modules/linear.py(2): forward", module]
    b.slices(ts=[0, 1, 9, 100], dur=[200, 90, 80, 50], name=names, category="python", track=b.track("main"))
    table = call_tree(b.seal(), fold_libraries=True)
    assert [name.rpartition(" ")[2] for name in table["name"]] == ["run", "forward", "_call_impl"]
    assert table["count"].tolist() == [1, 1, 1]


MINE = (
    *("/home/me/train.py", "train.py", "models/net.py", "<stdin>", "<ipython-input-3-5f1c>"),
    *("/tmp/ipykernel_71/2201.py", "C:\\me\\train.py"),
)
INSTALLED = (
    *("/venv/lib/python3.12/site-packages/mine/train.py", "/usr/lib/python3.11/threading.py"),
    *("C:\\venv\\Lib\\site-packages\\torch\\_ops.py", "threading.py", "torch/nn/modules/linear.py"),
    *("transformers/models/qwen2/modeling_qwen2.py", "<frozen importlib._bootstrap>", "<string>"),
)


def test_a_file_is_a_librarys_or_the_users() -> None:
    assert [file for file in MINE if is_library_file(file)] == []
    assert [file for file in INSTALLED if not is_library_file(file)] == []


def test_the_event_log_is_in_the_order_of_starts() -> None:
    trace = draw(PICTURE)
    table = event_log(trace)
    assert table["slice"].tolist() == list(range(len(trace.slices)))
    assert table["ts"].is_monotonic_increasing
    assert set(event_log(trace, name="mm")["name"]) == {"mm"}
    assert event_log(trace, track=1)["track_name"].unique().tolist() == ["other"]
    window = (int(trace.span.end) - 2, int(trace.span.end))
    kept = Selection(window=window).mask(trace.slices)
    assert event_log(trace, window=window)["slice"].tolist() == np.flatnonzero(kept).tolist()
    assert len(event_log(folded_calls(), fold_libraries=True)) == len(folded_calls().slices) - 3
    assert event_log(TraceBuilder().seal()).empty


@given(traces(), st.tuples(st.integers(0, 60), st.integers(61, 120)), st.sampled_from(["mm", "add", None]))
def test_the_event_log_is_what_is_selected(trace: Trace, window: tuple[int, int], name: str | None) -> None:
    chosen = Selection(window=window, **({"name": name} if name else {}))
    table = event_log(trace, window=window, name=name)
    assert table["slice"].tolist() == np.flatnonzero(chosen.mask(trace.slices)).tolist()
