"""A drawn training run: what the browser tests profile, without torch and always the same."""

from typing import Any

import numpy as np

from notebook_prof import Profile, Trace, TraceBuilder

FORWARD = ("aten::conv2d", "aten::relu", "aten::max_pool2d", "aten::linear", "aten::cross_entropy_loss")
INNER = ("aten::convolution", "aten::mkldnn_convolution", "aten::addmm", "aten::copy_", "aten::empty")
START = 1_700_000_000_000_000_000


class _Events:
    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(self, ts: int, dur: int, name: str, track: int, phase: str, step: int, **more: str) -> None:
        row = {"ts": ts, "dur": dur, "name": name, "track": track, "phase": phase, "step": step}
        self.rows.append({**row, "category": "operator", "module": "", **more})

    def columns(self) -> dict[str, list[Any]]:
        return {key: [row[key] for row in self.rows] for key in self.rows[0]}


def drawn_trace(steps: int = 10, seed: int = 0, memory: bool = True, gpu: bool = False) -> Trace:
    """Ten steps (3 … 12): data, forward, backward on a second thread, optimizer; memory rises and falls."""
    rng = np.random.default_rng(seed)
    builder = TraceBuilder(metadata={"source": "recording", "steps_source": "loop"})
    main = builder.track("MainThread", pid=100, tid=100)
    engine = builder.track("autograd thread 0", pid=100, tid=101)
    stream = builder.track("stream 7", kind="stream", device=0, stream=7) if gpu else -1
    events, marks, blocks, kernels = _Events(), [], [], []
    now, total, address = START, 0, 1
    for step in range(3, 3 + steps):
        begin = now
        wait = int(rng.integers(1_000_000, 3_000_000))
        events.add(now, wait, "DataLoader.__next__", main, "data", step, category="io")
        now += wait + 20_000
        forward, live = now, []
        for k in range(8):
            dur = int(rng.integers(300_000, 1_500_000))
            module = f"layers.{k % 4}"
            events.add(now, dur, FORWARD[k % 5], main, "forward", step, module=module)
            inner = now + 10_000
            while inner < now + dur - 80_000:
                part = min(int(rng.integers(20_000, 200_000)), now + dur - inner - 5_000)
                events.add(inner, part, INNER[int(rng.integers(5))], main, "forward", step, module=module)
                if gpu and part > 60_000:
                    kernels.append((inner + 300_000, part - 40_000, step))
                inner += part + int(rng.integers(1_000, 20_000))
            size = int(rng.integers(1, 40)) * 2**18
            total += size
            live.append((address, size))
            blocks.append((now + 5_000, address, size, total))
            address += 1
            now += dur + int(rng.integers(5_000, 50_000))
        events.add(forward - 5_000, now - forward, "Net.forward", main, "forward", step, category="module")
        now += 30_000
        events.add(now - 10_000, 9_500_000, "Tensor.backward", main, "backward", step, category="sync")
        at = now
        while at < now + 9_000_000:
            part = int(rng.integers(100_000, 900_000))
            node = "autograd::engine::evaluate_function: ConvolutionBackward0"
            events.add(at, part, node, engine, "backward", step)
            events.add(at + 2_000, part // 2, "aten::convolution_backward", engine, "backward", step)
            at += part + 10_000
            if live:
                freed, size = live.pop()
                total -= size
                blocks.append((at, freed, -size, total))
        now += 10_200_000
        part = int(rng.integers(500_000, 1_000_000))
        events.add(now, part, "Optimizer.step#SGD.step", main, "optimizer", step, category="annotation")
        for k in range(8):
            events.add(now + k * part // 9, part // 12, "aten::add_", main, "optimizer", step)
        now += part + 50_000
        while live:
            freed, size = live.pop()
            total -= size
            blocks.append((now - 10_000, freed, -size, total))
        marks.append((step, begin, now - begin))
    handles = builder.slices(
        **{k: np.array(v) if k in ("ts", "dur", "track") else v for k, v in events.columns().items()}
    )
    if gpu:
        _add_counters(builder, now)
        _add_kernels(builder, stream, kernels, events, handles)
        _add_backward(builder, events, handles)
    numbers = np.array(marks)
    builder.steps(step=numbers[:, 0], ts=numbers[:, 1], dur=numbers[:, 2], source="loop")
    if memory:
        table = np.array(sorted(blocks))
        running = np.cumsum(table[:, 2])
        sizes = {"bytes": table[:, 2], "allocated": running, "reserved": 0 * running}
        builder.allocations(ts=table[:, 0], addr=table[:, 1], device=-1, track=main, **sizes)
    return builder.seal()


def drawn_profile(**options: Any) -> Profile:
    return Profile(drawn_trace(**options))


def _add_counters(builder: TraceBuilder, end: int) -> None:
    ts = np.arange(START, end, 2_000_000)
    turn = np.arange(len(ts))
    for name, unit, value in (
        ("process RSS", "bytes", 2**29 + turn * 2**20),
        ("GPU 0 utilisation", "1", 0.5 + 0.45 * np.sin(turn / 5)),
        ("GPU 0 power", "W", 120 + 90.0 * (turn % 7)),
    ):
        builder.counter(builder.track(name, "counter", unit=unit), ts, value)


def _add_kernels(
    builder: TraceBuilder, stream: int, kernels: list[Any], events: _Events, handles: Any
) -> None:
    end = 0
    ts, dur = [], []
    for start, length, _ in kernels:
        end = max(end, start)
        ts.append(end)
        dur.append(length)
        end += length + 1_000
    row = {"name": "sgemm_128x64_nn", "track": stream, "category": "kernel", "device": 0, "stream": 7}
    made = builder.slices(ts=np.array(ts), dur=np.array(dur), **row)
    launches = [i for i, row in enumerate(events.rows) if row["name"] in INNER and row["dur"] > 60_000][
        : len(made)
    ]
    builder.flows("launch", handles[launches], made)


def _add_backward(builder: TraceBuilder, events: _Events, handles: Any) -> None:
    """From the first convolution of a step to what differentiates it: the last of its backward pass."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for i, row in enumerate(events.rows):
        if row["name"] == FORWARD[0]:
            first.setdefault(row["step"], i)
        elif row["name"].startswith("autograd::engine"):
            last[row["step"]] = i
    builder.flows("fwdbwd", handles[list(first.values())], handles[[last[step] for step in first]])
