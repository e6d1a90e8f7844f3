"""Samples become slices: synthetic stacks, so that nothing depends on timing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from notebook_prof.collectors.journal import AnnotationEdges
from notebook_prof.collectors.python.assemble import Exact, TimedStacks, put
from notebook_prof.collectors.python.frames import (
    CELL,
    LIBRARY,
    MACHINERY,
    NOTEBOOK,
    OURS,
    USER,
    PackedStacks,
    PythonFrame,
    owner_of,
    trim,
)
from notebook_prof.collectors.python.snapping import bridged
from notebook_prof.trace import Trace, TraceBuilder

CELL_1 = PythonFrame("<module>", "<ipython-input-1-a>", 1, 3, CELL)
CELL_2 = CELL_1._replace(line=4)
TRAIN_8 = PythonFrame("train", "train.py", 5, 8, USER)
TRAIN_9 = TRAIN_8._replace(line=9)
SVD = PythonFrame("svd", "linalg.py", 100, 140, LIBRARY)
RUN = PythonFrame("run_code", "interactiveshell.py", 1, 2, MACHINERY)
OUR = PythonFrame("wrapper", "marks.py", 1, 2, OURS)


def stacks_of(*stacks: Sequence[PythonFrame]) -> PackedStacks:
    frames = list(dict.fromkeys(frame for stack in stacks for frame in stack))
    flat = [frames.index(frame) for stack in stacks for frame in stack]
    return PackedStacks(np.array(flat, np.int64), np.array([len(s) for s in stacks], np.int64), frames)


def assembled(
    stacks: PackedStacks,
    samples: Sequence[int],
    ts: Sequence[int] | None = None,
    edges: AnnotationEdges | None = None,
) -> Trace:
    times = np.array(ts if ts is not None else [10 * (i + 1) for i in range(len(samples))], np.int64)
    builder = TraceBuilder()
    track = builder.track("main", pid=1, tid=1)
    timed = TimedStacks(np.concatenate([[0], times]), np.array(samples, np.int64))
    exact = Exact(AnnotationEdges.none() if edges is None else edges)
    put(builder, track, timed, stacks, exact, interval_ns=10)
    return builder.seal()


def rows(trace: Trace) -> list[tuple[str, int, int, int]]:
    s = trace.slices
    return list(zip(s["name"].astype(str), s["ts"], s["dur"], s["depth"], strict=True))


@given(
    st.lists(
        st.lists(st.sampled_from([CELL_1, CELL_2, TRAIN_8, TRAIN_9, SVD]), max_size=6), min_size=1, max_size=6
    ),
    st.data(),
)
def test_slices_nest_and_self_times_are_sampled(paths: list[list[PythonFrame]], data: st.DataObject) -> None:
    samples = data.draw(st.lists(st.integers(0, len(paths) - 1), min_size=1, max_size=30))
    gaps = data.draw(st.lists(st.integers(1, 50), min_size=len(samples), max_size=len(samples)))
    ts = np.cumsum(gaps)
    trace = assembled(stacks_of(*paths), samples, ts.tolist())
    slices = trace.slices
    sampled = sum(gap for gap, sample in zip(gaps, samples, strict=True) if paths[sample])
    assert slices["self_ns"].sum() == sampled
    starts, ends = slices["ts"].to_numpy(), (slices["ts"] + slices["dur"]).to_numpy()
    parent = slices["parent"].fillna(-1).to_numpy(dtype=np.int64)
    inner = parent >= 0
    assert (starts[parent[inner]] <= starts[inner]).all()
    assert (ends[inner] <= ends[parent[inner]]).all()


def test_what_of_a_stack_is_the_users() -> None:
    main, other = PythonFrame("<module>", "run.py", 1, 7, USER), PythonFrame("<module>", "run.py", 1, 8, USER)
    started = [main, TRAIN_8._replace(line=6)]
    for stacks, start, lengths, frames in (
        # the cell is the root
        ([[RUN, CELL_1, OUR, TRAIN_8, RUN, SVD], [RUN, RUN], []], [], [4, 0, 0], [CELL_1, TRAIN_8, RUN, SVD]),
        # our own calls are left out
        (
            *([[CELL_1, OUR, SVD], [CELL_1, SVD, OUR, TRAIN_8, SVD, OUR], [OUR, SVD]], []),
            *([1, 4, 0], [CELL_1, CELL_1, SVD, TRAIN_8, SVD]),
        ),
        # without a cell, the root is where the recording started
        (
            [[main, TRAIN_8, SVD], [main, TRAIN_9], [other]],
            started,
            [2, 1, 1],
            [TRAIN_8, SVD, TRAIN_9, other],
        ),
    ):
        trimmed = trim(stacks_of(*stacks), start)
        assert trimmed.lengths.tolist() == lengths
        assert [trimmed.distinct[i] for i in trimmed.frames] == frames


def test_whose_code_a_file_holds() -> None:
    assert owner_of("/tmp/ipykernel_123/4567.py") == CELL
    assert owner_of("<ipython-input-3-abc>") == CELL
    assert owner_of(np.linalg.__file__) == LIBRARY
    assert owner_of(pd.__file__) == LIBRARY
    assert owner_of("<frozen importlib._bootstrap>") == LIBRARY
    assert owner_of(__file__) == USER
    assert owner_of("<stdin>") == USER
    assert owner_of("/x/lib/python3.11/site-packages/ipykernel/kernelbase.py") == NOTEBOOK
    assert owner_of("/x/lib/python3.11/site-packages/ipykernel_launcher.py") == NOTEBOOK
    assert owner_of("/other/lib/python3.9/json/decoder.py") == LIBRARY
    assert owner_of(__import__("asyncio").__file__) == MACHINERY
    assert owner_of(__import__("notebook_prof").__file__) == OURS


def test_a_line_of_a_compiled_module_is_the_fused_kernel_that_it_calls(tmp_path: Path) -> None:
    module = tmp_path / "torchinductor_me" / "c7" / "c7t4.py"
    module.parent.mkdir(parents=True)
    module.write_text(
        "class Runner:\n"
        "    def call(self, args):\n"
        "        cpp_fused_add_relu_0(buf0, buf1)\n"
        "        extern_kernels.mm(buf1, w, out=buf2)\n"
        "        triton_poi_fused_mul_1.run(buf2, buf3, 64)\n"
    )
    call = [PythonFrame("Runner.call", str(module), 2, line, LIBRARY) for line in (3, 4, 5)]
    trace = assembled(stacks_of(*([CELL_1, frame] for frame in call)), [0, 0, 1, 2])
    assert rows(trace)[1:] == [
        ("Runner.call (c7t4.py)", 0, 40, 1),
        ("cpp_fused_add_relu_0", 0, 20, 2),
        ("triton_poi_fused_mul_1", 30, 10, 2),
    ]


def bridged_rows(stacks: PackedStacks, samples: Sequence[int], ts: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the frames of each stretch after failed looks were filled."""
    stack, filled = bridged(np.array([0, *ts]), np.array(samples), stacks, 10)
    begin = filled.offsets
    return [tuple(filled.frames[begin[n] :][: filled.lengths[n]].tolist()) for n in stack.tolist()]


def test_what_both_neighbours_of_a_failed_look_saw_goes_on() -> None:
    stacks = stacks_of([CELL_1, TRAIN_8, SVD], [], [CELL_1, TRAIN_8], [CELL_2])
    assert bridged_rows(stacks, [1, 0, 1, 1, 2, 1, 3, 1], [10, 20, 30, 40, 50, 60, 70, 80]) == [
        *((), (0, 1, 2), (0, 1), (0, 1), (0, 1), (), (3,), ())
    ]
    assert bridged_rows(stacks, [0, 1, 0], [10, 100, 110]) == [(0, 1, 2)] * 3
    assert bridged_rows(stacks, [0, 1, 0], [10, 200, 210]) == [(0, 1, 2), (), (0, 1, 2)], "too long"
