"""FLOPs and bytes against PyTorch's counters, TraceLens' figures and MegEngine's footprints."""

import json
from pathlib import Path

import pandas as pd
import pytest

import notebook_prof as nbp
from notebook_prof import TraceBuilder, read_trace
from notebook_prof.analysis import operator_work, operators, roofline
from notebook_prof.analysis.work.formulas import work_of
from notebook_prof.errors import OptionError

torch = pytest.importorskip("torch")
functional = torch.nn.functional


def products() -> None:
    a, b, bias = torch.randn(6, 5), torch.randn(5, 7), torch.randn(7)
    _ = a @ b
    torch.addmm(bias, a, b)
    torch.bmm(torch.randn(3, 6, 5), torch.randn(3, 5, 7))
    torch.baddbmm(torch.randn(3, 6, 7), torch.randn(3, 6, 5), torch.randn(3, 5, 7))
    torch.matmul(torch.randn(2, 3, 6, 5), torch.randn(3, 5, 7))
    torch.matmul(torch.randn(4, 6, 5), b)
    functional.linear(torch.randn(2, 3, 5), torch.randn(4, 5), torch.randn(4)).sum()
    weight = torch.randn(4, 5, requires_grad=True)
    functional.linear(torch.randn(2, 3, 5, requires_grad=True), weight).sum().backward()


def convolutions() -> None:
    for size, conv in ((1, torch.nn.Conv1d), (2, torch.nn.Conv2d), (3, torch.nn.Conv3d)):
        x = torch.randn(2, 4, *(9,) * size, requires_grad=True)
        layer = conv(4, 6, 3, stride=2, padding=1, dilation=2)
        layer(x).sum().backward()
    x = torch.randn(2, 4, 9, 9)
    torch.nn.Conv2d(4, 6, (3, 2))(x).sum().backward()
    functional.conv2d(x, torch.randn(6, 4, 3, 3), padding="valid")


def grouped() -> None:
    functional.conv2d(torch.randn(2, 4, 9, 9), torch.randn(8, 2, 3, 3), groups=2)
    functional.conv2d(torch.randn(2, 4, 9, 9), torch.randn(4, 1, 3, 3), groups=4, padding=1)
    functional.conv_transpose2d(torch.randn(2, 4, 5, 5), torch.randn(4, 6, 3, 3), stride=2, output_padding=1)


@pytest.mark.parametrize("work", [products, convolutions, grouped])
def test_flops_are_those_of_the_flop_counter(work) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        work()
    with nbp.profile("torch") as p:
        work()
    table = roofline(p.trace)
    counted = table[table["kind"].isin(["matmul", "convolution", "attention"])]
    assert counted["flops"].sum() == counter.get_total_flops()
    assert counter.get_total_flops() > 1000


def test_attention_is_what_the_flop_counter_says_of_its_gpu_kernels() -> None:
    # FlopCounterMode has no entry for the CPU's kernel, so its functions are asked
    from torch.utils.flop_counter import sdpa_backward_flop_count, sdpa_flop_count

    q, k, v = (torch.randn(2, 4, n, 8, requires_grad=True) for n in (10, 12, 12))
    with nbp.profile("torch") as p:
        functional.scaled_dot_product_attention(q, k, v).sum().backward()
    flops = roofline(p.trace).query("kind == 'attention'")["flops"].tolist()
    grad = (2, 4, 10, 8)
    expected = (
        sdpa_backward_flop_count(grad, q.shape, k.shape, v.shape),
        sdpa_flop_count(q.shape, k.shape, v.shape),
    )
    assert flops == list(expected)


def test_flops_are_those_that_the_profiler_counts() -> None:
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as kineto

    def work() -> None:
        products()
        functional.conv2d(torch.randn(2, 4, 9, 9), torch.randn(6, 4, 3, 3), stride=2)
        _ = torch.randn(5, 3) + torch.randn(5, 3)

    with kineto(activities=[ProfilerActivity.CPU], record_shapes=True, with_flops=True) as reference:
        work()
    with nbp.profile("torch") as p:
        work()
    flops_of = operator_work(p.trace).set_index("name")["flops"]
    for name in ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::conv2d"):
        flops = sum(event.flops for event in reference.key_averages() if event.key == name)
        assert flops_of[name] == flops > 0, name


# GFLOPs of one call and MiB moved: TraceLens' own reference output (unified_perf_summary.csv)
TRACELENS = {
    "gaunernst_bert-small-uncased__1016001": [
        ("aten::addmm", (512, 141, 512, 512), 17, 0.0739968, 0.7763671875),
        ("aten::addmm", (30522, 141, 512, 30522), 1, 4.41119205, 38.211021423339844),
        ("aten::addmm", (512, 141, 2048, 512), 4, 0.295770624, 2.689453125),
        ("aten::addmm", (2048, 141, 512, 2048), 4, 0.2959872, 2.6923828125),
        ("aten::_scaled_dot_product_flash_attention", (1, 8, 141, 64), 4, 0.040716288, 0.55078125),
        ("aten::add", (1, 141, 512), 9, 7.2192e-05, 0.4130859375),
        ("aten::layer_norm", (1, 141, 512), 10, 0.000364032, 0.28125),
    ],
    "Falconsai_nsfw_image_detection__1016002": [
        ("aten::addmm", (768, 788, 768, 768), 48, 0.930167808, 3.43505859375),
        ("aten::addmm", (3072, 788, 768, 3072), 12, 3.720671232, 10.27734375),
        ("aten::addmm", (768, 788, 3072, 768), 12, 3.71885568, 10.27294921875),
        ("aten::convolution", (4, 3, 224, 224), 1, 0.924844032, 3.421875),
        ("aten::_scaled_dot_product_flash_attention", (4, 12, 197, 64), 12, 0.476884992, 4.6171875),
        ("aten::add", (4, 197, 768), 24, 0.000605184, 3.462890625),
        ("aten::layer_norm", (4, 197, 768), 25, 0.003030528, 2.3173828125),
    ],
}


@pytest.mark.parametrize("trace_name", TRACELENS)
def test_tracelens_unified_perf_summary(shared_traces: Path, trace_name: str) -> None:
    trace = read_trace(shared_traces / "tracelens/h100" / f"{trace_name}.json.gz")
    table = operator_work(trace, by=["name", "shapes"])
    for name, shape, count, gflops, mib in TRACELENS[trace_name]:
        first = (
            json.dumps(list(shape)) if name != "aten::addmm" else f"[{shape[0]}], [{shape[1]}, {shape[2]}]"
        )
        rows = table[(table["name"] == name) & table["shapes"].str.startswith("[" + first)]
        row = rows.iloc[0]
        assert row["count"] == count, name
        flops, moved = row["flops"] / row["count"], row["bytes"] / row["count"] / 2**20
        if name == "aten::addmm":  # TraceLens counts the addition of the bias
            flops += shape[1] * shape[3]
        inexact = {"aten::layer_norm": 0.03, "aten::convolution": 1e-9}
        assert flops / 1e9 == pytest.approx(gflops, rel=inexact.get(name, 1e-9)), name
        # it leaves out the bias of a convolution, and counts statistics of a norm that it guesses
        rel = {"aten::layer_norm": 0.03, "aten::convolution": 1e-3}.get(name, 1e-9)
        assert moved == pytest.approx(mib, rel=rel), name


def test_rates_are_tracelens_rates(shared_traces: Path) -> None:
    trace = read_trace(shared_traces / "tracelens/h100/gaunernst_bert-small-uncased__1016001.json.gz")
    table = roofline(trace, by=["name", "shapes"], flops_per_s=989e12, bytes_per_s=3.35e12)
    vocabulary = table.iloc[0]
    assert vocabulary["time_ns"] == 41_280
    # 106.86 TFLOP/s and 0.9706 TB/s, MiB of 1e6 … as TraceLens has it: less the bias, plus nothing
    assert vocabulary["flops_per_s"] / 1e12 == pytest.approx(106.86019668919998, rel=1e-3)
    assert vocabulary["bytes_per_s"] / 1e12 == pytest.approx(0.9706184971877716, rel=1e-4)
    assert vocabulary["bound"] == "memory"
    assert 0 < vocabulary["attained_share"] < 1
    assert table["on_device"].iloc[0]


def test_megengine_footprints(data: Path) -> None:
    trace = read_trace(data / "megengine/profiling_train.json.gz")
    table = roofline(trace, by=["name", "shapes"])
    top = table[table["name"] == "backward.ConvolutionBackwardFilterV2"].nlargest(1, "time_ns").iloc[0]
    assert (top["flops"], top["bytes"], top["time_ns"]) == (12_460_032, 306_688, 7_806_000)
    recorded = trace.metadata["tables"]["operators"]
    ran = recorded[recorded["device_ns"].notna()]
    assert table["flops"].sum() == ran["flop_count"].sum()
    assert table["bytes"].sum() == ran["memory_bytes"].sum()
    # the same formulas, where MegEngine's operators have PyTorch's names
    fc1 = work_of("aten::mm", "[[8, 1152], [1152, 64]]")
    assert fc1.flops == table.loc[table["name"] == "fc1.MatrixMul", "flops"].iloc[0]
    conv = table[table["name"] == "conv2.Convolution"].iloc[0]
    shapes = str(conv["shapes"])[:-1] + ", [], [], [], [], []]"
    plain = '["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "1"]'
    assert work_of("aten::conv2d", shapes, None, plain).flops == conv["flops"]


def test_elements_of_every_type() -> None:
    shapes = "[[4, 4], [4, 4]]"
    for kind, size in (("c10::Half", 2), ("double", 8), ("c10::Float8_e4m3fn", 1), ("bool", 1)):
        assert work_of("aten::mm", shapes, json.dumps([kind, kind])).bytes == 3 * 16 * size
    assert work_of("aten::mm", shapes).bytes == 3 * 16 * 4


POOL = '["","[3, 3]","[3, 3]","[0, 0]"]'


@pytest.mark.parametrize(
    ("name", "shapes", "concrete", "kind", "flops", "moved"),
    [
        ("aten::add", "[[4, 1], [3], []]", None, "elementwise", 12, 4 * (4 + 3 + 12)),
        ("aten::relu_", "[[4, 3]]", None, "elementwise", 12, 96),
        ("aten::addcmul_", "[[5], [5], [5], []]", None, "elementwise", 10, 80),
        ("aten::_foreach_mul_", "[[[2, 3], [4]], []]", None, "elementwise", 10, 80),
        ("aten::sum", "[[4, 3], []]", None, "reduction", 12, 48),
        ("aten::_softmax", "[[4, 3], [], []]", None, "softmax", 48, 96),
        ("aten::embedding", "[[9, 3], [4], [], [], []]", None, "embedding", 0, 2 * 48 + 16),
        ("aten::avg_pool2d", "[[1, 2, 6, 6], [], [], []]", POOL, "pooling", 72, 320),
        ("aten::zero_", "[[8]]", None, "copy", 0, 32),
    ],
)
def test_work_by_hand(name, shapes, concrete, kind, flops, moved) -> None:
    dtypes = json.dumps(["float" if entry else "Scalar" for entry in json.loads(shapes)])
    assert work_of(name, shapes, dtypes, concrete) == (kind, flops, moved)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("aten::mm", "[[2, 3]]"),
        ("aten::mm", "garbage("),
        ("aten::conv2d", "[[1, 3, 8, 8], [4, 3, 3, 3]]"),
        ("f", "[]"),
    ],
)
def test_unknown_is_unknown(name: str, shapes: str) -> None:
    assert work_of(name, shapes) is None


def test_nested_work_counts_once_and_every_row_has_its_own() -> None:
    b = TraceBuilder()
    main, stream = b.track("main"), b.track("s", "stream", device=0, stream=7)
    names = ["step", "aten::linear", "aten::addmm", "aten::relu"]
    shapes = [None, "[[2, 3], [4, 3], [4]]", "[[4], [2, 3], [3, 4], [], []]", "[[2, 4]]"]
    host = b.slices(ts=[0, 10, 20, 60], dur=[100, 40, 20, 30], name=names, shapes=shapes, track=main)
    b.flows("launch", host[2], b.slices(ts=30, dur=6, name="gemm", category="kernel", track=stream))
    trace = b.seal()
    table = roofline(trace).set_index("name")
    assert table["flops"].to_dict() == {"aten::linear": 48, "aten::relu": 8}
    assert table["time_ns"].to_dict() == {"aten::linear": 6, "aten::relu": 30}
    assert table["on_device"].to_dict() == {"aten::linear": True, "aten::relu": False}
    joined = operator_work(trace).set_index("name")
    assert joined["flops"].to_dict() == {"aten::linear": 48, "aten::addmm": 48, "aten::relu": 8, "step": 56}
    assert joined.loc["aten::addmm", "flops_per_s"] == pytest.approx(48 / 6e-9)
    plain = operators(trace).set_index("name")
    pd.testing.assert_frame_equal(joined[plain.columns], plain)


def test_windows_count_in_proportion_and_a_device_computes_something() -> None:
    b = TraceBuilder()
    b.slices(ts=[0, 100], dur=[100, 50], name="aten::mm", shapes="[[2, 3], [3, 4]]", track=b.track("main"))
    table = roofline(b.seal(), window=(50, 150))
    assert table[["count", "flops", "time_ns"]].values.tolist() == [[2, 72, 100]]
    with pytest.raises(OptionError, match="above 0"):
        roofline(TraceBuilder().seal(), flops_per_s=0)


def test_variants_of_one_shape_are_averaged() -> None:
    b = TraceBuilder()
    b.slices(ts=[0, 10], dur=[5, 5], name="aten::mm", shapes="[[2, 2], [2, 2]]", track=b.track("main"))
    types = ['["float", "float"]', '["c10::Half", "c10::Half"]']
    arguments = {"name": "aten::mm", "shapes": "[[2, 2], [2, 2]]", "dtypes": types, "concrete": None}
    b.metadata["tables"] = {"operator_arguments": pd.DataFrame({**arguments, "count": 1})}
    assert roofline(b.seal())["bytes"].tolist() == [12 * 4 + 12 * 2]


def test_arguments_are_read_and_recorded_alike(data: Path) -> None:
    table = read_trace(data / "torch213_cpu/cnn_adam.pt.trace.json.gz").metadata["tables"][
        "operator_arguments"
    ]
    conv = table[table["name"] == "aten::conv2d"].iloc[0]
    assert json.loads(conv["dtypes"])[:3] == ["float"] * 3
    assert json.loads(conv["concrete"]) == ["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "1"]
    assert set(table.loc[table["name"] == "aten::mm", "concrete"]) == {'["",""]'}
    assert json.loads(conv["strides"])[1] == [27, 9, 3, 1]
    with nbp.profile("torch") as p:
        torch.nn.Conv2d(3, 16, 3, padding=1)(torch.randn(64, 3, 32, 32))
    live = p.trace.metadata["tables"]["operator_arguments"]
    convolution = live[live["name"] == "aten::conv2d"].iloc[0]
    assert (
        convolution[["shapes", "dtypes", "concrete", "strides"]].tolist()
        == conv[["shapes", "dtypes", "concrete", "strides"]].tolist()
    )
