"""Which kernels, ranges and operators talk to other ranks, by names that libraries really give them."""

from __future__ import annotations

from notebook_prof.analysis.distributed.collectives import operation_of
from notebook_prof.trace import Trace
from notebook_prof.trace.taxonomy import function_name, is_collective_kernel, is_collective_range, phase_of

TALK = {
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "all_reduce",
    "ncclSymkDevKernel_AllGather_LL(ncclSymkDevWorkArgs4K)": "all_gather",
    "rcclGenericKernel_ReduceScatter_Sum_bf16": "reduce_scatter",
    "void dpsk::ep::internode::dispatch<false, 8, true, 8>(int4*, float*, long*)": "dispatch",
    "void dpsk::ep::internode::combine_ll<3, 10, 7168, 9>(void*, void*, int*)": "combine",
    "void dpsk::ep::internode::notify_dispatch<false, 4>(int const*, long*, int)": "notify",
    "void dpsk::ep::internode::cached_notify<false>(int, int, int)": "notify",
    "void dpsk::ep::cuda::get_dispatch_layout<256, 32, 8>(long const*)": "layout",
    "void deep_ep::internode_ll::dispatch<true, false, 7168>(void*, void*)": "dispatch",
    "_ZN7deep_ep9intranode7combineI13__nv_bfloat16Li8EEEvPT_": "combine",
    "void hybrid_ep::dispatch_kernel<float, 4>(hybrid_ep::dispatch_kernel_param_t<float>)": "dispatch",
    "void mori::moe::EpCombineInterNodeKernel<__hip_bfloat16>(mori::moe::EpDispatchCombineArgs)": "combine",
    "EpDispatchIntraNodeKernel_bf16": "dispatch",
    "void sglang::cross_device_reduce_1stage<__half, 8>(sglang::RankData*)": "all_reduce",
    "void vllm::cross_device_reduce_2stage<__nv_bfloat16, 4>(vllm::RankData*)": "all_reduce",
    "void aiter::cross_device_reduce_2stage<__hip_bfloat16, 8>(aiter::RankData*)": "all_reduce",
    "void quickreduce::allreduce_prototype_twoshot<AllReduceTwoshot<__half>>()": "all_reduce",
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<1>()": "all_reduce",
    "tensorrt_llm::kernels::mnnvl::oneshotAllreduceFusionKernel<8>(float*)": "all_reduce",
    "void moeA2ADispatchKernel<8, false>(int const*, DispatchKernelPointers)": "dispatch",
    "void (anonymous namespace)::one_shot_all_reduce_kernel<c10::BFloat16>(int)": "all_reduce",
    "void c10d::symmetric_memory::multimem_all_gather_kernel<16>(char*, char*)": "all_gather",
    "c10d::intra_node_comm::hybridCubeMeshAllReduceKernel<float>(float*)": "all_reduce",
    "mscclpp::collective::allreducePacket<float, 2>(float*)": "all_reduce",
    "void userbuffers_fp16_sum_inplace_gpu_rr_rs<2>(int, int, int)": "",
    "nvshmemi_transfer_quiet(int)": "",
    "hcom_allReduce__360_0": "all_reduce",
    "MoeDistributeDispatchV2": "dispatch",
    "aiv_all_gather_bfloat16_t": "all_gather",
}
WORK = (
    "ampere_sgemm_128x64_nn",
    "triton_poi_fused_all_reduce_0",
    "triton_red_fused__to_copy_all_gather_into_tensor_add_wait_tensor_3",
    "void at_cuda_detail::cdpsk::ep::DeviceScanKernel<int>(int*)",
    "void at_cuda_detail::cub::DeviceReduceKernel<float>(float*)",
    "void dpsk::gemm::fp8_gemm_kernel<7168, 4096>(float*)",
    "gemm_one_shot_all_reduce_kernel",
    "MatmulAllReduceAddRmsNorm",
    "void flux::cutlass_kernel<GemmReduceScatter<nccl>>(nvshmem_team_t)",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>()",
    "void at::native::_scatter_gather_elementwise_kernel<128, 8>(int)",
    "void cross_entropy_kernel<float>(ncclComm*)",
    "void moe::dev::routing::routingIndicesKernel<int>(int)",
    "Memcpy PtoP (Device -> Device)",
    "memory::moe::combine_weights",
)


OPERATIONS = {
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "all_gather",
    "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)": "send_recv",
    "nccl:_reduce_scatter_base": "reduce_scatter",
    "gloo:barrier": "barrier",
    "c_allreduce_sum compute": "all_reduce",
    "void deep_ep::internode_ll::combine<true, 3, 7168>(void*)": "combine",
    "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*)": "dispatch",
    "void deep_ep::internode::notify_dispatch<false, 8>(int const*)": "notify",
    "void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*)": "layout",
    "HcclBatchSendRecv": "send_recv",
    "hcom_broadcast__360_1": "broadcast",
    "gloo:all_to_all": "all_to_all",
    "alltoallv": "all_to_all",
    "ncclDevKernel_Generic(ncclDevComm*)": "",
}
RANGES = ("gloo:all_reduce", "nccl:_all_gather_base", "mpi:barrier", "ucc:alltoall", "xccl:all_reduce")
OPERATORS = {
    "c10d::allreduce_": "communication",
    "_c10d_functional::wait_tensor": "communication",
    "symm_mem::one_shot_all_reduce": "communication",
    "_C_custom_ar::all_reduce": "communication",
    "sglang::inplace_all_reduce": "communication",
    "sglang::reg_all_gather_into_tensor": "communication",
    "vllm::reduce_scatter": "communication",
    "symm_mem::fused_all_gather_matmul": None,
    "vllm::moe_forward": None,
    "aten::all": None,
    "sglang::attention": None,
}


def test_kernels_that_talk_and_that_compute() -> None:
    found = {name: is_collective_kernel(name) for name in (*TALK, *WORK)}
    assert found == {**dict.fromkeys(TALK, True), **dict.fromkeys(WORK, False)}


def test_operations_of_kernels_and_ranges() -> None:
    operations = {**TALK, **OPERATIONS}
    assert {name: operation_of(name) for name in operations} == {
        name: operation or name for name, operation in operations.items()
    }


def test_ranges_and_operators_that_talk() -> None:
    assert [name for name in RANGES if not is_collective_range(name)] == []
    phases = {**dict.fromkeys(RANGES, "communication"), **OPERATORS}
    assert {name: phase_of(name) for name in phases} == phases


def test_function_names() -> None:
    assert function_name("a(int)::b") == "a"
    assert function_name("") == ""
    assert function_name("operator") == "operator"
    assert function_name("<unknown>") == "<unknown>"
    assert function_name("void f<g<h>(1)>(int)") == "f"


def check_names(trace: Trace) -> None:
    """On streams: what is called a collective's name is one, and products and copies never are."""
    streams = trace.tracks.loc[trace.tracks["kind"] == "stream", "track"]
    rows = trace.slices[trace.slices["track"].isin(streams)]
    kinds = rows[["name", "category"]].drop_duplicates().astype(str)
    kinds = kinds[kinds["category"].isin(["kernel", "collective", "memcpy", "memset"])]
    for name, category in kinds.itertuples(index=False):
        assert category == "collective" or not is_collective_kernel(name), name
        computes = any(word in name.lower() for word in ("gemm", "conv", "elementwise", "softmax", "memcpy"))
        assert not (computes and is_collective_kernel(name)), name
