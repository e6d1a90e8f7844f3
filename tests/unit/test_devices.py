"""Only the devices that were asked for, and no launch that looks as if it had lost its kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import notebook_prof as nbp
from notebook_prof.analysis import trust
from notebook_prof.collectors.devices import of_devices
from notebook_prof.collectors.options import CollectorOptions
from notebook_prof.errors import OptionError
from notebook_prof.jupyter.options import parse
from notebook_prof.readers.kineto import assemble, read_columns
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.trace.report import ImportReport


def events(at: int) -> list[dict[str, Any]]:
    """An operator, its launch, its kernel and its memory; cards take turns."""
    here = {"ph": "X", "pid": 9, "tid": 9}
    begin, card = 100 * at, at % 2
    memory = {"Device Type": 1, "Device Id": card, "Addr": 4096 + at, "Bytes": 64}
    totals = {"Total Allocated": 64, "Total Reserved": 64}
    launch, work = {"correlation": at + 1}, {"correlation": at + 1, "device": card, "stream": 7}
    return [
        here | {"cat": "cpu_op", "name": "aten::relu", "ts": begin, "dur": 50},
        here
        | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": begin + 5, "dur": 10, "args": launch},
        here | {"cat": "kernel", "name": "relu", "pid": card, "ts": begin + 20, "dur": 60, "args": work},
        here | {"ph": "i", "s": "t", "name": "[memory]", "ts": begin + 3, "args": memory | totals},
    ]


FILE = json.dumps({"traceEvents": [event for at in range(20) for event in events(at)]}).encode()


def trace_of(devices: tuple[int, ...] | None) -> tuple[Trace, ImportReport]:
    report, builder = ImportReport(), TraceBuilder()
    assemble(of_devices(read_columns(FILE, report), devices, report), builder)
    return builder.seal(), report


def test_two_cards_of_which_one_was_asked_for() -> None:
    whole, _ = trace_of(None)
    assert set(whole.slices["device"].dropna()) == {0, 1}
    trace, report = trace_of((1,))
    kernels = trace.slices[trace.slices["category"] == "kernel"]
    assert (len(kernels), set(kernels["device"])) == (10, {1})
    assert (trace.slices["name"] == "cudaLaunchKernel").sum() == 10
    assert (trace.slices["name"] == "aten::relu").sum() == 20  # what the host did stays
    assert set(trace.allocations["device"]) == {1}
    assert report["other-devices"].count == 10
    assert not trust(trace)["code"].str.startswith("kernels-lost").any()


def test_all_of_them() -> None:
    trace, report = trace_of((0, 1))
    assert len(trace.slices) == 60
    assert "other-devices" not in report


def test_how_it_is_asked_for() -> None:
    assert parse("p --devices 0,2 --pcie").recorded.devices == (0, 2)
    assert parse("p --devices 0,2 --pcie").recorded.pcie
    assert parse("p").recorded.devices is None
    for line, words in (("p --devices one", "list of numbers"), ("p --devices ,", "numbers of GPUs")):
        with pytest.raises(OptionError, match=words):
            parse(line)
    with pytest.raises(OptionError, match="numbers of GPUs"):
        nbp.profile("marks", devices=[])
    with pytest.raises(OptionError, match="numbers of GPUs"):
        CollectorOptions(devices=(-1,))


def test_a_real_recording(shared_traces: Path) -> None:
    data = (shared_traces / "kineto_sync" / "after_fix_trace.json").read_bytes()
    report = ImportReport()
    columns = of_devices(read_columns(data, report), (999,), report)
    assert not (columns.device >= 0).any()
    assert report["other-devices"].count > 0
