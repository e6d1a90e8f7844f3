"""Names to read on the screen: short, one for each name, a family for each colour."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from notebook_prof.labels import family, merged_label, merged_name, short_names, track_label, variants
from notebook_prof.labels.kernels import kernel_label
from notebook_prof.service.palette import NAMES, name_colours
from notebook_prof.service.store import ViewStore
from notebook_prof.trace import Trace

from ..new_process import run_python

KERNELS = {
    "volta_sgemm_128x64_nn": "gemm f32 128×64 nn",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_k_off": (
        "gemm bf16 128×128 tn"
    ),
    "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_16x6_nt_align4>(cutlass_80::Params)": (
        "gemm f32 64×64 nt"
    ),
    "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT32x32x256_MI16x16x1_SN": "gemm bf16 32×32",
    "void splitKreduce_kernel<float, float, true>(cublasSplitKParams<float>)": "gemm split-K reduce f32",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::Half>, X>(int)": (
        "elementwise add f16"
    ),
    "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::silu_kernel("
    "at::TensorIteratorBase&)::{lambda()#1}, Y<float> >(int)": "elementwise silu f32",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float> > >(X)": (
        "reduce mean f32"
    ),
    "void at::native::vectorized_elementwise_kernel<(int)4, at::native::FillFunctor<float>, "
    "std::array<char *, (unsigned long)1>>(int, T2, T3)": "elementwise fill f32",
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<(int)128, (int)64, (bool)0, cutlass::bfloat16_t>, "
    "(bool)0>(flash::Flash_fwd_params)": "attention forward bf16",
    "void (anonymous namespace)::softmax_warp_forward<float, float, 10>(float*)": "softmax forward f32",
    "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float)": "batch norm backward f32",
    "void cudnn::detail::dgrad_engine<float, 512, 6>(int)": "conv backward data f32",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "AllReduce Sum f32 RING LL",
    "triton_poi_fused_add_relu_0": "triton pointwise add relu 0",
    "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)": "rotary_embedding",
    "Im3d2Col.kd": "Im3d2Col",
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_written_by_what_it_does(name: str) -> None:
    assert variants(name, kernel=True)[0] == KERNELS[name]


@pytest.mark.parametrize(
    "name", ["BiasAddGrad-op143", "Conv2DBackpropFilter-op82", "SUB(input[25],step.MUL)[2]"]
)
def test_nodes_of_graphs_keep_their_names(name: str) -> None:
    assert kernel_label(name) is None
    assert variants(name, kernel=True) == (name,)


def test_names_of_the_host() -> None:
    names = {
        "aten::conv2d": "conv2d",
        "nn.Module: ReLU_2": "2 ReLU",
        "torch/nn/modules/module.py(1782): _call_impl": "_call_impl (module.py)",
        "<built-in method append of list object at 0x7f3d2f66a480>": "list.append",
        "Memcpy HtoD (Pinned -> Device)": "memcpy HtoD pinned",
        "cudaLaunchKernel": "cudaLaunchKernel",
    }
    assert {name: variants(name)[0] for name in names} == names


def test_names_that_would_read_the_same_are_told_apart() -> None:
    add = "void at::native::vectorized_elementwise_kernel<{}, at::native::CUDAFunctor_add<float> >(int)"
    adds = short_names(["torch/a.py(3): f", "torch/a.py(9): f", add.format(2), add.format(4)])
    assert adds == ["f (a.py:3)", "f (a.py:9)", "elementwise add f32 (2)", "elementwise add f32 (4)"]
    assert short_names(["aten::mm", "mm"]) == ["aten::mm", "mm"]


def check_labels(trace: Trace) -> None:
    """No two names of a recording read the same, and none is lost."""
    store = ViewStore(trace)
    names, labels = store.columns.names, store.name_styles.labels
    assert len(labels) == len(names)
    assert len(set(labels)) == len(set(names))
    assert all(label for label, name in zip(labels, names, strict=True) if name)
    assert sum(map(len, labels)) <= sum(map(len, names))


@given(st.lists(st.text(max_size=30), unique=True, max_size=12))
def test_every_list_of_names_stays_unique(names: list[str]) -> None:
    labels = short_names(names, [bool(len(name) % 2) for name in names])
    assert len(set(labels)) == len(names)


def test_a_family_keeps_its_colour_in_every_process() -> None:
    products = ("volta_sgemm_64x64_nt", "ampere_fp16_s16816gemm_fp16_128x128_tn")
    assert len({family(name, kernel=True) for name in products}) == 1
    assert family("nn.Module: Linear_3") == family("nn.Module: Linear_11") == "Linear"
    assert family("ProfilerStep#5") == "ProfilerStep"
    assert family("aten::conv2d") == "conv2d"
    families = ["gemm", "conv2d", "Linear", "step"]
    here = name_colours(families, np.array([False, False, False, True])).tolist()
    script = (
        "import numpy as np; from notebook_prof.service.palette import name_colours;"
        f"print(name_colours({families}, np.array([False, False, False, True])).tolist())"
    )
    assert run_python(script).stdout.strip() == str(here)
    assert here[-1] == len(NAMES) - 1


@pytest.mark.parametrize(
    ("name", "pid", "tid", "autograd", "label"),
    [
        ("thread 5555 (python)", 5555, 5555, False, "main"),
        ("MainThread", -1, -1, False, "main"),
        ("thread 1074 (pt_main_thread)", 1, 1074, False, "main"),
        ("thread 598009 (pt_autograd_0)", 1, 598009, True, "autograd 0"),
        ("thread 57 (python3)", 55, 57, True, "autograd"),
        ("thread 57 (python3)", 55, 57, False, "thread 57"),
        ("thread 58 (pt_gloo_runloop)", 55, 58, False, "gloo runloop"),
        ("GPU 0 stream 7", -1, -1, False, "stream 7"),
        ("NPU 0 AI CPU", -1, -1, False, "AI CPU"),
        ("Dataloader_140361422748208", 3, 4, False, "Dataloader_140361422748208"),
    ],
)
def test_tracks(name: str, pid: int, tid: int, autograd: bool, label: str) -> None:
    assert track_label(name, pid, tid, autograd) == label


def test_methods_of_several_objects_are_told_apart_by_address() -> None:
    names = [
        "<built-in method get of dict object at 0x7f01>",
        "<built-in method get of dict object at 0x7f02>",
        "<built-in method get of pybind11_builtins.Cache object at 0x7f01>",
        "<built-in method  of pybind11_builtins.detail object at 0x7f03>",
        "get",
    ]
    labels = short_names(names)
    assert labels[:2] == ["dict.get 0x7f01", "dict.get 0x7f02"]
    assert len(set(labels)) == len(names)
    assert [merged_label(merged_name(names[0]), label) for label in labels[:2]] == ["dict.get"] * 2
    assert len({merged_name(name) for name in names}) == 4


def test_what_inductor_made_is_short_and_apart() -> None:
    graphs = [
        f"## Call CompiledFxGraph f{letter}kgo24poyg2gmh7uvxdfqt3xtgkdpvkes2vgqq4w4exhnxfvef ##"
        for letter in "mc"
    ]
    assert short_names(graphs) == ["compiled graph fmkgo24p", "compiled graph fckgo24p"]
    assert short_names(graphs[:1]) == ["compiled graph"]
    module = "Runner.call (cqo5p7be6jid5xatj2bi3t4vjwrlqctsrob3jptds62lbenumtgl.py)"
    assert short_names([module]) == ["Runner.call (compiled)"]
    assert short_names(["cpp_fused_add_relu_0"]) == ["cpp add relu 0"]
    assert short_names(["## inductor_kernel:cpp_fused_add_relu_0:3 ##"]) == ["range of cpp add relu 0"]
