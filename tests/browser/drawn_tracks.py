"""A drawn run of many tracks: more than a timeline has room for."""

import numpy as np

from notebook_prof import Profile, TraceBuilder

START = 1_700_000_000_000_000_000
MS = 1_000_000
STEPS = 8


def many_tracks(workers: int = 12, gpus: int = 2) -> Profile:
    """Operators on one thread, loads on workers, kernels on two streams a GPU, two counters, eight steps."""
    builder = TraceBuilder(metadata={"source": "recording", "steps_source": "loop"})
    end = STEPS * 10 * MS
    main = builder.track("MainThread", pid=100, tid=100)
    ts = START + np.arange(0, end, 250_000)
    names = [f"aten::op{k % 7}" for k in range(len(ts))]
    builder.slices(ts=ts, dur=np.full(len(ts), 200_000), name=names, track=main)
    inner = [f"aten::inner{k % 3}" for k in range(len(ts))]
    builder.slices(ts=ts + 20_000, dur=np.full(len(ts), 120_000), name=inner, track=main)
    for worker in range(workers):
        thread = builder.track(f"worker {worker}", pid=100, tid=200 + worker)
        ts = START + np.arange(worker * 500_000 % (8 * MS), end, 8 * MS)
        builder.slices(ts=ts, dur=np.full(len(ts), 6 * MS), name="load", track=thread)
    for gpu in range(gpus):
        for stream in (7, 20):
            track = builder.track(f"stream {stream}", "stream", device=gpu, stream=stream)
            ts = START + np.arange(100_000 * gpu, end, 400_000 if stream == 7 else 4 * MS)
            name = "sgemm_128x64_nn" if stream == 7 else f"copy_{gpu}"
            builder.slices(
                ts=ts, dur=np.full(len(ts), 150_000), name=name, track=track,
                category="kernel", device=gpu, stream=stream,
            )  # fmt: skip
    ts = START + np.arange(0, end, 2 * MS)
    turn = np.arange(len(ts))
    builder.counter(builder.track("process RSS", "counter", unit="bytes"), ts, 2**29 + turn * 2**20)
    builder.counter(builder.track("GPU 0 power", "counter", unit="W"), ts, 120 + 90.0 * (turn % 7))
    steps = np.arange(STEPS)
    builder.steps(step=steps, ts=START + steps * 10 * MS, dur=np.full(STEPS, 10 * MS), source="loop")
    return Profile(builder.seal())
