"""Proton's trees and execution traces, against independent sums of their nodes."""

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest

from notebook_prof import read_trace
from notebook_prof.errors import FormatError
from tests import samples

ROOT = samples.ROOTS["shared"]
shared = pytest.mark.skipif(not ROOT.is_dir(), reason="the shared recordings are not here")


@shared
@pytest.mark.parametrize("name", ["cuda", "frame", "leaf_nodes", "triton"])
def test_kernels_of_proton_have_their_sums(name: str) -> None:
    path = ROOT / "proton" / f"{name}.json"
    trace, oracle = read_trace(path), json.loads(path.with_suffix(".json.oracle.json").read_text())
    assert trace.slices["self_ns"].sum() == oracle["total_ns"]
    table = trace.metadata["tables"]["proton"]
    assert (table["time (ns)"].fillna(0) > 0).sum() == oracle["nodes_with_time"]
    assert table["count"].fillna(0).sum() == oracle["launches"]
    lanes = trace.tracks.set_index("track")["name"]
    per_lane = trace.slices.groupby("track")["self_ns"].sum().rename(lanes)
    assert per_lane.to_dict() == {f"kernels of {k}, summed": v for k, v in oracle["per_device"].items()}
    own = trace.slices.groupby("name", observed=True)["self_ns"].sum()
    for row in oracle["top5"]:
        assert own[row["name"]] == row["total_ns"]
    assert "no-time-line" in trace.report


def test_message_pack_is_what_json_is(data: Path) -> None:
    """Both are of one session, written by Triton 3.9: three steps of scopes with sums, and no device."""
    packed, plain = (
        read_trace(data / "proton" / name) for name in ("scopes.hatchet_msgpack", "scopes.hatchet")
    )
    assert packed.metadata["source"] == "proton"
    columns = ["name", "ts", "dur", "self_ns", "depth", "category"]
    order = ["name", "dur"]
    tables = [trace.metadata["tables"]["proton"].sort_values("path") for trace in (packed, plain)]
    pd.testing.assert_frame_equal(*(t.reset_index(drop=True) for t in tables), check_like=True)
    rows = [trace.slices[columns].sort_values(order).reset_index(drop=True) for trace in (packed, plain)]
    pd.testing.assert_frame_equal(*rows)
    layers = 3 * sum(1_000 * (layer + 1) for layer in range(20))
    templates = sum(70_000 + step for step in range(3))
    assert packed.slices["self_ns"].sum() == layers + templates + round(3 * 250_000.75)
    assert packed.slices["name"].str.len().max() > 255
    table = tables[0].set_index("name")
    assert table.loc["λ backward", "level"] == 3 * -7
    assert table.loc["loss", "cpu_time (ns)"] == 3 * 12_345


@shared
@pytest.mark.parametrize("name", ["cuda", "frame", "leaf_nodes", "triton"])
def test_kernels_in_message_pack_are_those_of_json(name: str, tmp_path: Path) -> None:
    def ordered(node: dict[str, Any]) -> dict[str, Any]:
        """As Proton writes it: what a node is, its sums, and what is below it."""
        below = [ordered(child) for child in node.get("children", ())]
        return {"frame": node["frame"], "metrics": node["metrics"], "children": below}

    plain = ROOT / "proton" / f"{name}.json"
    *roots, devices = json.loads(plain.read_text())
    (tmp_path / "packed").write_bytes(msgspec.msgpack.encode([*map(ordered, roots), devices]))
    traces = read_trace(tmp_path / "packed"), read_trace(plain)
    assert samples.figures(traces[0]) == samples.figures(traces[1])
    assert traces[0].metadata["proton_devices"] == traces[1].metadata["proton_devices"]
    pd.testing.assert_frame_equal(*(trace.metadata["tables"]["proton"] for trace in traces))


def test_message_pack_that_was_cut_is_refused(data: Path, tmp_path: Path) -> None:
    content = (data / "proton" / "scopes.hatchet_msgpack").read_bytes()
    for size in (12, 600, len(content) - 1):
        (tmp_path / "cut").write_bytes(content[:size])
        with pytest.raises(FormatError, match="Proton's tree cannot be decoded"):
            read_trace(tmp_path / "cut")


@shared
def test_scopes_enclose_their_kernels_and_launches_of_the_profiler_are_overhead() -> None:
    trace = read_trace(ROOT / "proton" / "triton.json")
    rows = trace.slices.set_index(trace.slices["name"].astype(str))
    assert rows.loc["scope", ["ts", "dur", "category"]].tolist() == [0, 5_728, "annotation"]
    assert rows.loc["cuda_kernel", "category"] == "overhead"
    assert rows.loc["triton_kernel", ["dur", "category"]].tolist() == [1_664, "operator"]


def test_own_time_and_children_of_a_node_stand_beside_one_another(tmp_path: Path) -> None:
    def node(name: str, ns: float, *children: object) -> dict[str, object]:
        facts = {"time (ns)": ns, "device_id": "0", "device_type": "CUDA"}
        return {"frame": {"name": name}, "metrics": facts, "children": list(children)}

    tree = [node("ROOT", 0, node("a", 10, node("b", 5.4), node("c", 7)), node("d", 3)), {"CUDA": {"0": {}}}]
    (tmp_path / "t.hatchet").write_text(json.dumps(tree))
    trace = read_trace(tmp_path / "t.hatchet")
    rows = [tuple(row) for row in trace.slices[["name", "ts", "dur", "self_ns"]].values.tolist()]
    assert rows == [("a", 0, 22, 10), ("b", 10, 5, 5), ("c", 15, 7, 7), ("d", 22, 3, 3)]
    for wrong in ("[1]", '[{"frame": {"name": "a"}, "metrics": {"cycles": 3}, "children": []}]', "[{"):
        (tmp_path / "w").write_text(wrong)
        with pytest.raises(FormatError):
            read_trace(tmp_path / "w", format="proton")


@shared
def test_nodes_of_chakra_have_durations_and_dependencies() -> None:
    path = ROOT / "chakra" / "feeder_chakra.0.et.xz"
    oracle = json.loads((path.parent / "feeder_chakra.0.et.oracle.json").read_text())
    trace = read_trace(path)
    assert len(trace.slices) == oracle["nodes"]
    assert trace.slices["dur"].sum() == oracle["sum_duration_micros"] * 1_000
    missing = trace.report["dependency-without-node"].count
    assert len(trace.flows) + missing == oracle["dependencies"]
    assert (trace.slices["category"] == "collective").sum() == oracle["types"]["COMM_COLL"]
    counts = trace.slices["name"].value_counts()
    assert all(counts[name] == count for name, count in oracle["top5_names"])
    for _, rows in trace.slices[trace.slices["dur"] > 0].groupby("track"):
        ends = (rows["ts"] + rows["dur"]).to_numpy()
        assert np.array_equal(rows["ts"].to_numpy()[1:], ends[:-1])
    assert "no-time-line" in trace.report


@shared
def test_a_simulators_graph() -> None:
    trace = read_trace(ROOT / "chakra" / "chakra_small.0.json")
    nodes = json.loads((ROOT / "chakra" / "chakra_small.0.json").read_text())["workload_graph"]
    assert trace.slices["dur"].sum() == sum(node["runtime"] for node in nodes) * 1_000
    ids = {node["Id"] for node in nodes}
    needs = [(n, node["Id"]) for node in nodes for n in node["ctrlDeps"] + node["data_deps"]]
    assert len(trace.flows) == sum(n in ids for n, _ in needs)


@shared
@pytest.mark.parametrize("name", ["torch_et_linear", "torch_et_resnet_1gpu_1.0.3", "torch_et_simple_add"])
def test_pytorchs_nodes_are_a_table(name: str) -> None:
    path = ROOT / "chakra" / f"{name}.json.gz"
    oracle = json.loads((path.parent / f"{path.name}.oracle.json").read_text())
    trace = read_trace(path)
    table = trace.metadata["tables"]["execution_graph"]
    assert len(table) == oracle["nodes"] == trace.report["no-durations"].count
    assert {str(k): v for k, v in table["tid"].value_counts().items()} == oracle["threads"]
    assert (table["rf_id"] >= 0).sum() == oracle["with_rf_id"]
    counts = table["name"].value_counts()
    assert all(counts[word] == count for word, count in oracle["by_name_top5"])
    parents = table["parent"].value_counts()
    assert parents.max() == oracle["max_children"]
    assert not len(trace.slices)


@shared
def test_a_cut_graph_keeps_its_nodes(tmp_path: Path) -> None:
    raw = samples.unpacked("shared/chakra/feeder_chakra.0.et.xz")
    (tmp_path / "cut.et").write_bytes(raw[: len(raw) // 2])
    trace = read_trace(tmp_path / "cut.et")
    assert 1_000 < len(trace.slices) < 3_664
    assert "truncated-file" in trace.report
