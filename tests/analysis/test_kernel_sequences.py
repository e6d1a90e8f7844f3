"""Sequences of kernels: against HTA's answers, and against counting by hand."""

from pathlib import Path

import numpy as np
import pytest

import notebook_prof as nbp
from notebook_prof import Profile, Trace, TraceBuilder
from notebook_prof.errors import OptionError, SelectionError

DLRM = "param_dlrm_8rank/worker0_step_12.1694128201545.pt.trace.json.gz"
HTA = [
    ("hta/trace_diff/control.json.gz", "autograd::engine", 64, 910, 177_432_000),
    (DLRM, "autograd::engine", 13, 17, 2_746_000),
    (DLRM, "aten::linear", 2, 3, 42_000),
]
"""Sequences, calls and kernel time by ``get_frequent_cuda_kernel_sequences`` of HTA 0.5.0, of two kernels at
least. It leaves the last of several steps out."""


@pytest.mark.parametrize(("file", "operator", "rows", "calls", "kernel_ns"), HTA)
def test_what_operators_launch_are_htas_sequences(
    shared_traces: Path, file: str, operator: str, rows: int, calls: int, kernel_ns: int
) -> None:
    p = nbp.open_profile(shared_traces / file)
    steps = p.trace.steps["step"].tolist()
    table = p.device.sequences(operator=operator, shortest=2, most=10_000, step=steps[:-1] or steps)
    assert (len(table), table["count"].sum(), table["kernel_ns"].sum()) == (rows, calls, kernel_ns)


def on_one_stream(names: list[str]) -> Trace:
    builder = TraceBuilder()
    stream = builder.track("stream 7", "stream", device=0, stream=7)
    at = 10 * np.arange(len(names))
    builder.slices(ts=at, dur=np.full(len(names), 7), name=names, category="kernel", track=stream)
    return builder.seal()


def test_planted_sequences_are_found_and_no_kernel_is_in_two() -> None:
    rng = np.random.default_rng(7)
    planted = [("a", "b", "c", "d", "e"), ("x", "y", "z")]
    names: list[str] = []
    for k in rng.permutation([0] * 9 + [1] * 12).tolist():
        names += [*planted[k], f"other{len(names)}"]
    table = Profile(on_one_stream(names)).device.sequences()
    assert table["kernels"].tolist() == planted
    assert table["count"].tolist() == [9, 12]
    assert table["kernel_ns"].tolist() == [9 * 5 * 7, 12 * 3 * 7]
    assert table["gap_ns"].tolist() == [9 * 4 * 3, 12 * 2 * 3]
    assert (table[["call_ns", "host_ns"]] == 0).all(axis=None)


@pytest.mark.parametrize("seed", range(6))
def test_counts_are_those_that_a_search_finds(seed: int) -> None:
    names = [str(letter) for letter in np.random.default_rng(seed).choice(list("abc"), 80)]
    table = Profile(on_one_stream(names)).device.sequences(shortest=2, longest=5, fewest=2)
    assert len(table)
    for row in table.itertuples():
        searched, at = 0, 0
        while at <= len(names) - row.length:
            if tuple(names[at : at + row.length]) == row.kernels:
                searched, at = searched + 1, at + row.length
            else:
                at += 1
        assert 2 <= row.count <= searched
        assert row.first_slice in [k for k, name in enumerate(names) if name == row.kernels[0]]
    assert (table["count"] * table["length"]).sum() <= len(names)
    first = table.iloc[0]
    assert first["count"] * first["length"] == (table["count"] * table["length"]).max()


def launched() -> Trace:
    """Four steps of 100 ns: three kernels of 5 ns, each launched 20 ns after the one before."""
    builder = TraceBuilder()
    main = builder.track("main")
    stream = builder.track("stream 7", "stream", device=0, stream=7)
    builder.steps(range(4), [0, 100, 200, 300], [100] * 4, "mark")
    for begin in range(0, 400, 100):
        for k, kernel in enumerate(("mul", "add", "sqrt")):
            at = begin + 20 * k
            builder.slices(ts=at, dur=15, name=f"op{k}", category="operator", track=main)
            call = builder.slices(ts=at + 15, dur=5, name=f"launch{k}", category="launch", track=main)
            work = builder.slices(ts=at + 22, dur=5, name=kernel, category="kernel", track=stream)
            builder.flows("launch", call, work)
        builder.slices(ts=begin + 70, dur=30, name="rest", category="operator", track=main)
    return builder.seal()


def test_the_hosts_time_between_launches() -> None:
    row = Profile(launched()).device.sequences().iloc[0]
    assert (row["kernels"], row["count"]) == (("mul", "add", "sqrt"), 4)
    assert (row["call_ns"], row["host_ns"]) == (4 * 15, 4 * 30)


def test_bad_questions_say_what_to_do() -> None:
    p = Profile(launched())
    with pytest.raises(OptionError, match="longest=2 is less than shortest=3"):
        p.device.sequences(longest=2)
    with pytest.raises(OptionError, match="fewest=0 is not a positive number"):
        p.device.sequences(fewest=0)
    with pytest.raises(SelectionError, match="no operator has 'conv' in its name"):
        p.device.sequences(operator="conv")
    assert not len(Profile(on_one_stream(["a"])).device.sequences())
