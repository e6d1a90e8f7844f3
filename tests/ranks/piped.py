"""Ranks of a GPipe pipeline, drawn with bubbles that are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .drawn import START_US

FORWARD_US, BACKWARD_US, TAIL_US = 100, 200, 50
BYTES = 4096


class Drawn:
    """Collects the events of one rank's file."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._number = 0

    def span(self, name: str, ts: float, dur: float) -> None:
        """A range on the host."""
        host = {"ph": "X", "cat": "user_annotation", "pid": 1, "tid": 1}
        self.events.append({**host, "name": name, "ts": ts, "dur": dur})

    def kernel(self, name: str, ts: float, dur: float, launched: float, stream: int = 7, **args: Any) -> None:
        """A kernel and its launch."""
        self._number += 1
        link = {"correlation": self._number}
        call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1}
        self.events.append({**call, "ts": launched, "dur": 0.5, "args": link})
        event = {"ph": "X", "cat": "kernel", "pid": 0, "tid": stream}
        arguments = {"device": 0, "stream": stream, **link, **args}
        self.events.append({**event, "name": name, "ts": ts, "dur": dur, "args": arguments})


def gpipe_length_us(stages: int, microbatches: int) -> int:
    """From the first forward to the last backward."""
    return (microbatches + stages - 1) * (FORWARD_US + BACKWARD_US)


def write_gpipe(
    folder: Path, stages: int = 4, microbatches: int = 8, steps: int = 2, first_rank: int = 0, world: int = 0
) -> Path:
    """Ranks `first_rank` … of one pipeline; each step ends with an all-reduce, and clocks are wrong."""
    for stage in range(stages):
        rank, drawn = first_rank + stage, Drawn()
        length = gpipe_length_us(stages, microbatches) + TAIL_US
        for number in range(steps):
            _draw_step(drawn, stage, stages, microbatches, START_US + number * length, first_rank)
            drawn.span(f"ProfilerStep#{number}", START_US + number * length, length)
        shift = 777 * rank
        events = [{**event, "ts": event["ts"] + shift} for event in drawn.events]
        distributed = {"backend": "nccl", "rank": rank, "world_size": world or stages}
        content = {"schemaVersion": 1, "deviceProperties": [], "distributedInfo": distributed}
        content["traceEvents"] = events
        (folder / f"rank{rank}.json").write_text(json.dumps(content))
    return folder


def _draw_step(drawn: Drawn, stage: int, stages: int, microbatches: int, at: int, first_rank: int) -> None:
    turn = at + (microbatches + stages - 1) * FORWARD_US
    for i in range(microbatches):
        forward = at + (stage + i) * FORWARD_US
        backward = turn + (stages - 1 - stage + i) * BACKWARD_US
        drawn.kernel("forward", forward, FORWARD_US, at)
        drawn.kernel("backward", backward, BACKWARD_US, at)
        for other, done in ((stage + 1, forward + FORWARD_US), (stage - 1, backward + BACKWARD_US)):
            if 0 <= other < stages:
                _message(drawn, "send", first_rank + other, done - 5, 5, at)
        for other, ready in ((stage - 1, forward), (stage + 1, backward)):
            if 0 <= other < stages:
                _message(drawn, "recv", first_rank + other, ready - 25, 25, at)
    done = at + gpipe_length_us(stages, microbatches)
    args = {"Collective name": "allreduce", "Process Group Name": "0", "Group size": stages}
    drawn.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", done, TAIL_US - 10, at, 9, **args)


def _message(drawn: Drawn, operation: str, other: int, ts: float, dur: float, at: int) -> None:
    peer = {"Dst Rank" if operation == "send" else "Src Rank": other}
    size = {"dtype": "Float", "In msg nelems": BYTES // 4, "Out msg nelems": BYTES // 4}
    args = {"Collective name": operation, "Process Group Name": "1", **size, **peer}
    drawn.kernel("ncclDevKernel_SendRecv(ncclDevKernelArgs)", ts, dur, at, 10 + other, **args)
