"""Only the devices that were asked for, of JAX's planes; no JAX is needed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from notebook_prof.analysis import trust
from notebook_prof.collectors.jax import of_devices
from notebook_prof.formats.jax.assemble import PlaneLine, Space, assemble
from notebook_prof.formats.jax.xplane import decode
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.trace.report import ImportReport
from notebook_prof.trace.strings import Coded


def space() -> Space:
    """Six launches in turns on two cards, by one thread."""
    at = 100 * np.arange(6, dtype=np.int64)
    names, ids = Coded(np.zeros(6, np.int64), ["cudaLaunchKernel"]), {"correlation_id": [*range(1, 7)]}
    calls = PlaneLine("/host:CPU", "main", 1, at, np.full(6, 10), names, ids)
    work = [
        PlaneLine(
            f"/device:GPU:{card}",
            "Stream #7(Kernel)",
            7,
            at[card::2] + 20,
            np.full(3, 50),
            Coded(np.zeros(3, np.int64), ["gemm"]),
            {"correlation_id": [*range(1 + card, 7, 2)]},
        )
        for card in (0, 1)
    ]
    return Space([calls, *work])


def sealed(planes: Space) -> Trace:
    assemble(planes, builder := TraceBuilder())
    return builder.seal()


def test_one_of_two_cards() -> None:
    report = ImportReport()
    trace = sealed(of_devices(space(), (1,), report))
    kernels = trace.slices[trace.slices["category"] == "kernel"]
    assert (len(kernels), set(kernels["device"])) == (3, {1})
    assert (trace.slices["category"] == "launch").sum() == 3
    assert len(trace.flows) == 3
    assert report["other-devices"].count == 3
    assert not trust(trace)["code"].str.startswith("kernels-lost").any()


def test_a_real_recording(shared_traces: Path) -> None:
    """Of the cards of the file, the first with work, and then none."""
    raw, report = (shared_traces / "jax_gpu_rocm" / "tw003.xplane.pb").read_bytes(), ImportReport()
    whole = decode(raw, report)
    number = sorted(set(sealed(whole).slices["device"].dropna()))
    assert len(number) >= 1
    kept = sealed(of_devices(whole, (int(number[0]),), report))
    assert set(kept.slices["device"].dropna()) == {number[0]}
    none = sealed(of_devices(whole, (77,), report))
    assert none.slices["device"].isna().all()
    host = (sealed(whole).slices["category"] == "operator").sum()
    assert (none.slices["category"] == "operator").sum() == host
