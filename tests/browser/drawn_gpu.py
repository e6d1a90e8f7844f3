"""A drawn training on two GPUs, as one of its ranks sees it: what the pictures of the tabs show."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from notebook_prof import Trace, TraceBuilder

START = 1_700_000_000_000_000_000
STEPS = 8
MIB = 2**20
# module, operator, kernel, shapes, forward µs on the device, MiB that it keeps
LAYERS = (
    ("stem.conv", "conv2d", "implicit_convolve_sgemm", "[[64, 3, 224, 224], [64, 3, 7, 7]]", 820, 48),
    ("stem.bn", "batch_norm", "bn_fw_tr_1C11_kernel_NCHW", "[[64, 64, 112, 112]]", 410, 48),
    ("layer1.conv", "conv2d", "volta_scudnn_128x64_relu_nn", "[[64, 64, 56, 56], [64, 64, 3, 3]]", 1240, 32),
    ("layer1.relu", "relu", "vectorized_elementwise_kernel", "[[64, 64, 56, 56]]", 190, 32),
    ("layer2.conv", "conv2d", "volta_h884cudnn_256x64_ldg8", "[[64, 64, 56, 56], [128, 64, 3, 3]]", 760, 24),
    ("layer2.relu", "relu", "vectorized_elementwise_kernel", "[[64, 128, 28, 28]]", 110, 24),
    ("layer3.attention", "bmm", "ampere_h16816gemm_128x128", "[[512, 196, 64], [512, 64, 196]]", 620, 20),
    ("layer3.softmax", "softmax", "softmax_warp_forward", "[[512, 196, 196]]", 240, 20),
    ("head", "mm", "ampere_sgemm_64x64_tn", "[[64, 2048], [2048, 1000]]", 330, 4),
    ("loss", "cross_entropy_loss", "nll_loss_forward_reduce", "[[64, 1000], [64]]", 45, 1),
)


@dataclass
class _Run:
    """What is drawn, in columns; the clocks of the host and of the device."""

    builder: TraceBuilder
    rng: np.random.Generator
    now: int = START
    free: int = START
    network: int = START
    live: list[tuple[int, int]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    blocks: list[tuple[int, int, int]] = field(default_factory=list)
    launched: list[tuple[int, int]] = field(default_factory=list)
    device_events: list[dict[str, Any]] = field(default_factory=list)

    def add(self, ts: int, dur: int, name: str, track: int, **more: Any) -> int:
        """Add a slice; its number."""
        columns = {"category": "operator", "phase": None, "step": -1, "module": None, "shapes": None}
        columns |= {"device": -1, "stream": -1, "stack": -1}
        self.rows.append({"ts": ts, "dur": dur, "name": name, "track": track, **columns, **more})
        return len(self.rows) - 1

    def block(self, at: int, size: int) -> int:
        """Take memory, or give back what was taken as that number."""
        address = 0x7F00_0000_0000 + 64 * MIB * len(self.blocks)
        self.blocks.append((at, address, size))
        return address


def drawn_training() -> Trace:
    """Eight steps: loading, forward, backward with all-reduces half hidden, optimizer."""
    builder = TraceBuilder(metadata={"devices": ["Drawn GPU"], "source": "drawn", "steps_source": "mark"})
    run = _Run(builder, np.random.default_rng(5))
    main, engine = builder.track("main", pid=9, tid=9), builder.track("autograd", pid=9, tid=10)
    compute = builder.track("stream 7", "stream", device=0, stream=7)
    network = builder.track("stream 20 (nccl)", "stream", device=0, stream=20)
    marks = []
    for step in range(STEPS):
        begin = run.now
        _load(run, main, compute, step)
        _forward(run, main, compute, step)
        _backward(run, engine, compute, network, step)
        _optimize(run, main, compute, step)
        marks.append((step, begin, run.now - begin))
    return _sealed(run, marks)


def _load(run: _Run, main: int, compute: int, step: int) -> None:
    wait = int(run.rng.integers(900_000, 2_600_000)) * (3 if step == 4 else 1)
    name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    run.add(run.now, wait, name, main, category="io", phase="data", step=step)
    run.now += wait + 20_000
    op = run.add(run.now, 260_000, "aten::to", main, phase="data", step=step)
    call = run.add(run.now + 20_000, 200_000, "cudaMemcpyAsync", main, category="launch", step=step)
    _work(run, compute, call, "Memcpy HtoD (Pageable -> Device)", 480_000, "memcpy", step, phase="data")
    run.now += int(run.rows[op]["dur"]) + 15_000


def _forward(run: _Run, main: int, compute: int, step: int) -> None:
    whole = run.add(
        run.now - 5_000, 0, "Net.forward", main, category="module", phase="forward", step=step, module="Net"
    )
    for module, operator, kernel, shapes, device_us, keeps in LAYERS:
        took = int(run.rng.integers(90_000, 150_000))
        own: dict[str, Any] = {"phase": "forward", "step": step, "module": f"Net.{module}"}
        run.add(run.now, took, f"{module}.forward", main, category="module", **own)
        run.add(run.now + 6_000, took - 12_000, f"aten::{operator}", main, shapes=shapes, **own)
        call = run.add(run.now + 40_000, 8_000, "cudaLaunchKernel", main, category="launch", **own)
        _work(run, compute, call, kernel, device_us * 1000, "kernel", **own)
        run.live.append((run.block(run.now + 30_000, keeps * MIB), keeps * MIB))
        run.now += took + 8_000
    run.rows[whole]["dur"] = run.now - run.rows[whole]["ts"]


def _backward(run: _Run, engine: int, compute: int, network: int, step: int) -> None:
    backward: dict[str, Any] = {"phase": "backward", "step": step}
    for number, (module, operator, kernel, _, device_us, _) in enumerate(reversed(LAYERS)):
        took = int(run.rng.integers(110_000, 180_000))
        own = {**backward, "module": f"Net.{module}"}
        name = operator.title().replace("_", "") + "Backward0"
        run.add(run.now, took, f"autograd::engine::evaluate_function: {name}", engine, **backward)
        run.add(run.now + 6_000, took - 12_000, f"aten::{operator}_backward", engine, **own)
        call = run.add(run.now + 50_000, 9_000, "cudaLaunchKernel", engine, category="launch", **own)
        _work(run, compute, call, kernel.replace("fw", "bw") + "_bwd", 1900 * device_us, "kernel", **backward)
        address, size = run.live.pop()
        run.blocks.append((run.now + took, address, -size))
        if number % 3 == 2:
            call = run.add(run.now + 70_000, 12_000, "ncclAllReduce", engine, category="launch", **backward)
            at, spent = max(run.free, run.network), 3_200_000 if number > 6 else 1_300_000
            run.network = at + spent
            name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
            row = run.add(at, spent, name, network, category="collective", device=0, stream=20, step=step)
            run.launched.append((call, row))
        run.now += took + 6_000


def _optimize(run: _Run, main: int, compute: int, step: int) -> None:
    begin = run.now
    for _ in range(14):
        own = {"phase": "optimizer", "step": step}
        run.add(run.now, 44_000, "aten::addcdiv_", main, **own)
        call = run.add(run.now + 12_000, 7_000, "cudaLaunchKernel", main, category="launch", **own)
        run.free = max(run.free, run.network)
        _work(run, compute, call, "multi_tensor_apply_kernel", 16_000, "kernel", step, phase="optimizer")
        run.now += 47_000
    run.add(begin - 4_000, run.now - begin + 8_000, "Optimizer.step#SGD.step", main, category="annotation",
            phase="optimizer", step=step)  # fmt: skip
    wait = max(run.free - run.now, 0) + 60_000
    run.add(run.now + 10_000, wait, "cudaStreamSynchronize", main, category="sync", step=step, phase="other")
    run.now += wait + 90_000


def _work(
    run: _Run, track: int, call: int, name: str, dur: int, category: str, step: int, **more: Any
) -> None:
    """Device work behind what runs already, launched by a call."""
    begin = max(run.free, run.rows[call]["ts"] + 9_000)
    took = int(dur * run.rng.uniform(0.93, 1.07))
    run.free = begin + took + 1_500
    row = run.add(begin, took, name, track, category=category, device=0, stream=7, step=step, **more)
    run.launched.append((call, row))
    if category == "kernel":
        blocks = 40 + len(name) * 13 % 400
        run.device_events.append(
            {
                "device": 0, "stream": 7, "start_unix_ns": begin, "grid": f"[{blocks}, 1, 1]",
                "block": "[256, 1, 1]", "registers_per_thread": 32 + len(name) % 5 * 16,
                "shared_memory_bytes": 1024 * (len(name) % 4), "blocks_per_sm": blocks / 80,
                "warps_per_sm": blocks / 10, "occupancy": min(1.0, 0.2 + len(name) % 7 / 8),
            }
        )  # fmt: skip


def _sealed(run: _Run, marks: list[tuple[int, int, int]]) -> Trace:
    builder = run.builder
    frames = ("<module> (train.py:12)", "train (train.py:31)", "Net.forward (net.py:44)")
    stack = builder.stack(
        [(name.split(" (")[0], name.split("(")[1][:-1].split(":")[0], 31) for name in frames]
    )
    for row in run.rows:
        if row["phase"] == "forward":
            row["stack"] = stack
    columns = {key: [row[key] for row in run.rows] for key in run.rows[0]}
    whole = ("ts", "dur", "track", "step", "device", "stream", "stack")
    handles = builder.slices(**{key: np.array(v) if key in whole else v for key, v in columns.items()})
    pairs = np.array(run.launched)
    builder.flows("launch", handles[pairs[:, 0]], handles[pairs[:, 1]])
    numbers = np.array(marks)
    builder.steps(step=numbers[:, 0], ts=numbers[:, 1], dur=numbers[:, 2], source="mark")
    table = np.array(sorted(run.blocks))
    level = np.cumsum(table[:, 2])
    builder.allocations(
        ts=table[:, 0], addr=table[:, 1], bytes=table[:, 2], device=0, allocated=level,
        reserved=np.full(len(level), 300 * MIB), track=0,
    )  # fmt: skip
    builder.metadata["tables"] = {"device_events": pd.DataFrame(run.device_events)}
    return builder.seal()
