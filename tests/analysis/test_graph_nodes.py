"""CUDA graphs by their nodes: drawn, with the recorder's numbers and without, and of a V100 and an MI300."""

import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from notebook_prof import Trace, TraceBuilder, read_trace
from notebook_prof.analysis import graph_nodes
from notebook_prof.testing import draw

Launch = tuple[int, list[tuple[str, int, int, int, int, int]]]
"""Start of the call; name, stream, start, duration, graph and node of each piece of work."""


def recorded(*launches: Launch, numbers: bool = True) -> Trace:
    builder = TraceBuilder()
    main = builder.track("main", pid=1, tid=1)
    rows: list[dict[str, Any]] = []
    for number, (begin, works) in enumerate(launches):
        builder.steps(step=number, ts=begin, dur=50, source="loop")
        call = builder.slices(ts=begin, dur=5, name="cudaGraphLaunch", category="launch", track=main)
        for name, stream, ts, dur, graph, node in works:
            track = builder.track(f"GPU 0 stream {stream}", "stream", device=0, stream=stream)
            stream_columns = {"device": 0, "stream": stream}
            work = builder.slices(ts=ts, dur=dur, name=name, category="kernel", track=track, **stream_columns)
            builder.flows("launch", call, work)
            rows.append({**stream_columns, "start_unix_ns": ts, "graph": graph, "graph_node": node})
    if numbers:
        table = pd.DataFrame(rows).astype({"graph": "Int64", "graph_node": "Int64"})
        builder.metadata["tables"] = {"device_events": table}
    return builder.seal()


TWO = (
    (0, [("gemm", 7, 10, 4, 3, 31), ("add", 7, 14, 2, 3, 32), ("gemm", 9, 12, 10, 3, 33)]),
    (50, [("gemm", 7, 62, 6, 3, 31), ("add", 7, 68, 2, 3, 32), ("gemm", 9, 60, 20, 3, 33)]),
    (100, [("gemm", 7, 110, 8, 5, 31)]),
)


def test_nodes_are_told_apart_by_the_recorders_numbers() -> None:
    """The two products take turns in who is first, and are still two nodes."""
    table = graph_nodes(recorded(*TWO))
    assert table[["graph", "node", "name", "stream", "replays", "total_ns"]].values.tolist() == [
        [3, 31, "gemm", 7, 2, 10],
        [3, 33, "gemm", 9, 2, 30],
        [3, 32, "add", 7, 2, 4],
        [5, 31, "gemm", 7, 1, 8],
    ]
    assert table[["mean_ns", "min_ns", "max_ns", "start_ns"]].iloc[0].tolist() == [5.0, 4, 6, 1.0]
    assert table["share"].tolist() == pytest.approx([10 / 44, 30 / 44, 4 / 44, 1.0])


def test_without_numbers_launches_of_the_same_kernels_are_one_graph() -> None:
    table = graph_nodes(recorded(*TWO, numbers=False))
    assert table["node"].isna().all()
    assert table.groupby("graph")["replays"].agg(["max", "size"]).values.tolist() == [[2, 3], [1, 1]]
    products = table[(table["graph"] == 1) & (table["name"] == "gemm")]
    assert products["total_ns"].tolist() == [24, 16]  # the first of each replay, whichever stream it was on
    assert products["stream"].isna().all()


def test_what_is_asked_for() -> None:
    trace = recorded(*TWO)
    assert graph_nodes(trace, step=1)["total_ns"].tolist() == [20, 6, 2]
    assert graph_nodes(trace, window=(0, 80))["replays"].tolist() == [2, 2, 2]
    assert graph_nodes(trace, window=(0, 79))["replays"].tolist() == [1, 1, 1]  # the second is cut


def test_work_whose_call_was_not_recorded_is_known_by_its_number() -> None:
    builder = TraceBuilder()
    track = builder.track("GPU 0 stream 7", "stream", device=0, stream=7)
    stream_columns = {"device": 0, "stream": 7}
    builder.slices(
        ts=[0, 5, 50], dur=[4, 2, 1], name=["a", "b", "c"], category="kernel", track=track,
        correlation=[8, 8, 9], **stream_columns,
    )  # fmt: skip
    rows = [
        {**stream_columns, "start_unix_ns": ts, "graph": graph} for ts, graph in ((0, 4), (5, 4), (50, None))
    ]
    builder.metadata["tables"] = {"device_events": pd.DataFrame(rows).astype({"graph": "Int64"})}
    table = graph_nodes(builder.seal())
    assert table[["graph", "name", "replays"]].values.tolist() == [[4, "a", 1], [4, "b", 1]]


def test_no_graph() -> None:
    launched = draw(
        "main:     [cudaLaunchKernel]\nstream 7:      [gemm]",
        categories={"cudaLaunchKernel": "launch"},
        launches=[("cudaLaunchKernel", "gemm")],
    )
    for trace in (TraceBuilder().seal(), draw("main: [mm ]"), draw("stream 7: [gemm]"), launched):
        table = graph_nodes(trace)
        assert table.empty
        assert table.dtypes.astype(str).to_dict()["node"] == "Int64"
    assert graph_nodes(recorded(*TWO), step=77).empty


@pytest.mark.parametrize(
    ("name", "graphs"),
    [
        ("hta/trace_diff/test.json.gz", {502: 6, 339: 6}),
        ("tracelens/vllm_decode_graph/graph_execution.json.gz", {421: 1}),
    ],
)
def test_real_graphs(name: str, graphs: dict[int, int], shared_traces: Path) -> None:
    """Nodes, replays and times against the events of the file, taken apart here."""
    table = graph_nodes(read_trace(shared_traces / name))
    by_graph = table.groupby("graph").agg(
        nodes=("name", "size"), least=("replays", "min"), most=("replays", "max")
    )
    assert {row.nodes: row.least for row in by_graph.itertuples()} == graphs
    assert (by_graph["least"] == by_graph["most"]).all()
    assert (table["count"] == table["replays"]).all()
    events = json.loads(gzip.decompress((shared_traces / name).read_bytes()))["traceEvents"]
    launches = [event for event in events if "GraphLaunch" in str(event.get("name")) and "dur" in event]
    calls = {event["args"]["correlation"] for event in launches}
    works = defaultdict(list)
    for event in events:
        on_device = event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
        if on_device and event["args"]["correlation"] in calls:
            works[event["args"]["correlation"]].append(event)
    assert Counter(map(len, works.values())) == graphs
    sums: Counter[str] = Counter()
    for event in (event for own in works.values() for event in own):
        sums[event["name"]] += round(1000 * event["dur"])
    assert table.groupby("name")["total_ns"].sum().to_dict() == dict(sums)
    assert table.groupby("graph")["share"].sum().tolist() == pytest.approx([1.0] * len(graphs))
