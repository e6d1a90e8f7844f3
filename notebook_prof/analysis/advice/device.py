"""Rules for devices: waits, blocking copies, kernels that underuse a card, exposed communication."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pandas as pd

from ...trace.nesting import climb
from ...units import format_count, format_number
from ..busy_time import device_of
from ..device.busy import copies as copies_of
from ..device.busy import device, uses_tensor_cores
from ..device.kernel_launches import launch_calls
from ..device.kernels import kernels
from ..distributed.communication import distributed
from ..scope import ints
from ..verdict.claims import Claim, Sentence, Source, cite, cite_bytes, cite_ns, cite_share, fill, say, short
from .context import WORTH, Advice, AdviceContext, evidence, named, names_of

_PLUMBING: Final = ("launch", "sync", "overhead")
_SHOWN: Final = 3


def sync_points(run: AdviceContext) -> Advice | None:
    """Find calls in the steps that make the host wait while the device runs out of work."""
    host = run.host
    waits = host.among("category", ("sync",))
    if not waits.any() or int(waits.sum()) < run.facts.count or not len(run.idle):
        return None
    start, end = host.ts[waits], host.end[waits]
    idle = run.idle
    at = np.searchsorted(start, idle["ts"].to_numpy(), side="right") - 1
    dried = (at >= 0) & (idle["ts"].to_numpy() <= np.append(end, 0)[at])
    gain = int(idle["dur"].to_numpy()[dried].sum()) // max(idle["device"].nunique(), 1)
    slices = run.trace.slices  # name the innermost operators around these calls, most frequent first
    rows = climb(ints(slices["parent"]), host.rows[waits], slices["category"].isin(_PLUMBING).to_numpy())
    callers = slices["name"].iloc[rows].astype("str").value_counts()
    names = tuple(names_of(host, waits))
    waiting = Source("host_waits", "total_ns", {"kind": "waiting", "name": names}, run.replay_arguments)
    often = run.each(int(waits.sum()), run.on_thread("count", names), _times)
    return Advice(
        "sync-points",
        fill(
            "The host waits for the device {}{}, for {}{}, in {}; the device then runs out of work.",
            *(often, run.a_step),
            *(run.each(waiting.evaluate(run.trace), waiting), run.a_step),
            ", ".join(map(str, callers.index[:_SHOWN])),
        ),
        "Keep values on the device: collect losses as tensors and read them occasionally, instead of calling "
        ".item(), .cpu(), print(tensor), nonzero() or masks in each step; copy with non_blocking=True.",
        gain_ns=gain,
        bound=True,
        what_if={"remove": "sync"},
        select={"category": "sync"},
        **evidence(host, waits),
    )


def _times(number: float) -> str:
    return "once" if number == 1 else f"{format_number(number)} times"


def pageable_copies(run: AdviceContext) -> Advice | None:
    """Find blocking copies to the device from memory that is not pinned."""
    work = run.device
    copies = work.among("category", ("memcpy",)) & named(work, ("pageable",)) & named(work, ("htod", "host"))
    if not copies.any():
        return None
    count = int(copies.sum())
    spent = int((work.end - work.ts)[copies].sum())
    ends = run.idle["next"].fillna(-1).to_numpy(dtype=np.int64)
    waits = int(run.idle.loc[np.isin(ends, work.rows[copies]), "memcpy_ns"].sum())
    calls = launch_calls(run.trace)[work.rows[copies]]
    called = run.trace.slices["name"].iloc[calls[calls >= 0]].astype("str").unique()
    own = names_of(work, copies)
    took, times = (
        Source("kernels", column, {"name": tuple(own)}, run.replay_arguments)
        for column in ("total_ns", "count")
    )
    return Advice(
        "pageable-copies",
        fill(
            "{} copies to the device come from unpinned memory, and take {}{}.",
            cite(format_count(count), count, times),
            cite_ns(spent, took),
            run.share(spent, took),
        ),
        "Pin the memory (DataLoader(pin_memory=True) or tensor.pin_memory()) and copy with "
        ".to(device, non_blocking=True), so that copies overlap with work.",
        gain_ns=spent + waits,
        bound=True,
        what_if={"remove": "copy", "scale": dict.fromkeys([*called, *own], 0)},
        select={"name": own},
        **evidence(work, copies),
    )


_MOST: Final = 0.5


def copy_bound(run: AdviceContext) -> Advice | None:
    """Find a device that mostly copies, and what would shorten its longest copies."""
    table = device(run.trace, **run.facts.arguments)
    if not len(table):
        return None
    row = table.iloc[int(table["busy_ns"].to_numpy().argmax())]
    number, busy, moved = (int(row[name]) for name in ("device", "busy_ns", "memory_ns"))
    if int(row["compute_ns"]) + int(row["communication_ns"]) >= _MOST * busy:
        return None
    if moved < max(_MOST * busy, _SHARE * int(row["window_ns"])):
        return None
    longest = copies_of(run.trace, **run.replay_arguments)
    longest = longest[longest["device"] == number]
    work = run.device
    own = work.among("category", ("memcpy",)) & (device_of(run.trace, work) == number)
    if not len(longest) or not own.any():
        return None
    more, remedies = _longest_copies(run, longest)
    whole, memory = (
        Source("device", column, {"device": number}, run.facts.arguments)
        for column in ("busy_ns", "memory_ns")
    )
    share, names = cite_share(moved / busy, memory, whole), names_of(work, own)
    return Advice(
        "copy-bound",
        fill("Device {} copies for {}, {} of its busy time{}.", number, cite_ns(moved, memory), share, more),
        f"{remedies[0][:1].upper()}{'; '.join(remedies)[1:]}.",
        gain_ns=min(moved, run.total_ns),
        bound=True,
        what_if={"scale": dict.fromkeys(names, 0)},
        select={"name": names},
        **evidence(work, own),
    )


def _longest_copies(run: AdviceContext, table: pd.DataFrame) -> tuple[Sentence, list[str]]:
    """Describe the copies that take most time, and the remedies that the recording supports."""
    first = table.iloc[0]
    where = {name: str(first[name]) for name in ("direction", "source", "target")}
    direction, of_device = where["direction"], {**where, "device": int(first["device"])}

    def of(column: str) -> Source:
        return Source("copies", column, of_device, run.replay_arguments)

    count, spent = int(first["count"]), int(first["total_ns"])
    number, took = cite(format_count(count), count, of("count")), cite_ns(spent, of("total_ns"))
    sentence = fill("; the longest are {} {} of {} together", number, direction or "copies", took)
    remedies = []
    if pd.notna(first["pinned"]) and not first["pinned"]:
        sentence += say(" with unpinned memory")
        remedies.append(
            "pin that memory (DataLoader(pin_memory=True), tensor.pin_memory()) and copy with "
            "non_blocking=True: only such copies overlap with the host, and run at the rate of the link"
        )
    if pd.notna(first["bytes"]):
        sentence += say(", ", cite_bytes(int(first["bytes"]), of("bytes")), " in all")
    if direction == "HtoD":
        remedies.append(
            "copy constant data once, copy the rest in fewer bytes (uint8 or bfloat16, converted on the "
            "device), and overlap copies with kernels of the previous batch"
        )
    elif direction == "DtoH":
        remedies.append("compute on the device, and copy only the result")
    elif direction == "DtoD":
        remedies.append("copy less within the device: .contiguous(), .clone(), torch.cat and indexing copy")
    return sentence, remedies or ["copy less: keep data on the device if it is needed there again"]


_SHARE: Final = 0.1
_LOW: Final = 0.25
_ELIGIBLE: Final = re.compile(r"gemm|conv|dgrad|wgrad|cudnn.*(fprop|engine)|scudnn|winograd", re.IGNORECASE)
_HAVE: Final = re.compile(
    r"\b(V100|T4|A10\w*|A30|A40|A100|H100|H200|GH200|B100|B200|L4|L40\w*|RTX|TITAN (?:V|RTX)|DGX\w*)", re.I
)
_FASTER: Final = 2
"""Minimum assumed speed-up by tensor cores; NVIDIA's data sheets promise 8 to 16 times."""


def low_occupancy(run: AdviceContext) -> Advice | None:
    """Find kernels with grids too small to fill the device, or with low occupancy."""
    work = run.device
    table = kernels(run.trace, category="kernel", **run.replay_arguments)
    blocks, occupancy = table.reindex(columns=["blocks_per_sm", "occupancy"]).to_numpy(np.float64).T
    low = (blocks < 1) | (occupancy < _LOW)
    spent, names = table["total_ns"].to_numpy(np.float64), [str(name) for name in table["name"][low]]
    if float(spent[low].sum()) < max(_SHARE * float(spent.sum()), 1.0):
        return None
    starved = work.among("category", ("kernel",)) & work.among("name", tuple(names))
    filled = np.where(blocks < 1, blocks, 1.0)[low]
    return Advice(
        "low-occupancy",
        fill(
            "Kernels with less than one block for each multiprocessor, or less than a quarter of the warps "
            "that fit there, take {} of the kernels' time.",
            _of_kernels(run, names, float(spent[low].sum()), float(spent.sum())),
        ),
        "Give each kernel more to do: a larger batch or larger layers, channels that are multiples of 64, "
        "torch.compile to fuse small ones.",
        gain_ns=int((spent[low] * (1 - filled)).sum()),
        bound=True,
        # a kernel would take this share of its time on a full device
        what_if={"scale": dict(zip(names, filled.tolist(), strict=True))},
        select={"name": names},
        **evidence(work, starved),
    )


def _of_kernels(run: AdviceContext, names: list[str], ns: float, whole: float) -> Claim:
    """Return a claim about the share of the kernels' time that kernels of these names take."""
    arguments = {"category": "kernel", **run.replay_arguments}
    source, of = (Source("kernels", "total_ns", where, arguments) for where in ({"name": tuple(names)}, {}))
    return cite_share(ns / whole, source, of)


def tensor_cores_unused(run: AdviceContext) -> Advice | None:
    """Find matrix products and convolutions that do not use the device's tensor cores."""
    devices = run.trace.metadata.get("devices")
    if not isinstance(devices, list | tuple) or not any(_HAVE.search(str(name)) for name in devices):
        return None
    work = run.device
    kernel = work.among("category", ("kernel",))
    plain = kernel & work.named(lambda name: _ELIGIBLE.search(name) and not uses_tensor_cores(name))
    spent = work.end - work.ts
    if int(spent[plain].sum()) < max(_SHARE * int(spent[kernel].sum()), 1):
        return None
    found = evidence(work, plain)
    longest = short(work.slices["name"].iloc[int(found["rows"][0])], 32)
    names = names_of(work, plain)
    share = _of_kernels(run, names, int(spent[plain].sum()), int(spent[kernel].sum()))
    return Advice(
        "tensor-cores-unused",
        fill(
            "Matrix products and convolutions without tensor cores take {} of the kernels' time; the longest "
            "is {}.",
            share,
            longest,
        ),
        "Compute in half precision: torch.autocast('cuda', dtype=torch.float16 or bfloat16); on Ampere and "
        "later torch.set_float32_matmul_precision('high'); sizes that are multiples of 8.",
        gain_ns=int(spent[plain].sum()) * (_FASTER - 1) // _FASTER,
        bound=True,
        what_if={"scale": dict.fromkeys(names, 1 / _FASTER)},
        select={"name": names},
        **found,
    )


def communication_exposed(run: AdviceContext) -> Advice | None:
    """Find collectives that run while nothing computes."""
    spent = run.facts.phase_ns.get("communication", 0)
    source = Source("phases", "host_ns", {"phase": "communication"}, run.facts.arguments)
    arguments = {"by": "trace", **run.facts.arguments}
    table = distributed(run.trace, **arguments)
    on_devices = table[table["device"] >= 0]
    scope = run.threads
    if len(on_devices) and int(on_devices["communication_ns"].sum()):
        row, scope = on_devices.iloc[int(on_devices["exposed_ns"].to_numpy().argmax())], run.device
        spent = int(row["exposed_ns"])
        source = Source("distributed", "exposed_ns", {"device": int(row["device"])}, arguments)
    if spent < WORTH * run.total_ns:
        return None
    return Advice(
        "communication-exposed",
        fill(
            "Nothing computes during {} of communication{}{}.",
            run.each(spent, source),
            run.a_step,
            run.share(spent, source),
        ),
        "Overlap it with backward (DDP's buckets: bucket_cap_mb, gradient_as_bucket_view), exchange less "
        "often (no_sync with gradient accumulation) or less (compression hooks, bfloat16), and look for a "
        "rank that arrives late: the others' communication is then waiting.",
        gain_ns=min(spent, run.total_ns),
        bound=True,
        what_if={"overlap_communication": True} if scope is run.device else {},
        select={"category": "collective"},
        **evidence(scope, scope.among("category", ("collective",))),
    )
