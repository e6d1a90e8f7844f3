"""Rules for devices: waits, blocking copies, kernels that underuse a card, exposed communication."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pandas as pd

from ...trace.arrays import BoolArray, FloatArray, IntArray
from ...trace.nesting import climb
from ...units import format_bytes, format_count, format_ns, format_number, format_share
from ..busy_time import device_of
from ..device.busy import device
from ..device.copies import copies as copies_of
from ..device.counters import device_attributes, uses_tensor_cores
from ..device.kernel_launches import launch_calls
from ..distributed.communication import distributed
from ..scope import Scope, ints
from ..verdict.claims import Sentence, Source, cite, cite_ns, cite_share, say
from ..verdict.lines import short
from .finding import Finding, Run, evidence, named, names_of

_PLUMBING: Final = ("launch", "sync", "overhead")
_SHOWN: Final = 3


def sync_points(run: Run) -> Finding | None:
    """Find calls in the steps that make the host wait while the device runs out of work."""
    host = run.host
    waits = host.among("category", ("sync",))
    if not waits.any() or int(waits.sum()) < run.step_count or not len(run.idle):
        return None
    start, end = host.ts[waits], host.end[waits]
    idle = run.idle
    at = np.searchsorted(start, idle["ts"].to_numpy(), side="right") - 1
    dried = (at >= 0) & (idle["ts"].to_numpy() <= np.append(end, 0)[at])
    gain = int(idle["dur"].to_numpy()[dried].sum()) // max(idle["device"].nunique(), 1)
    callers = _callers(run, host.rows[waits])
    shown = ", ".join(f"{name} ({format_count(count)})" for name, count in callers.head(_SHOWN).items())
    rows, count = evidence(host, waits)
    waited = int(host.self_ns[waits].sum())
    often = "once" if count == run.step_count else f"{format_number(count / run.step_count)} times"
    return Finding(
        "sync-points",
        f"The host waits for the device {often}{run.a_step}, "
        f"{format_ns(waited / run.step_count)} in all, in {shown}; the device then runs dry for "
        f"{format_ns(gain / run.step_count)}{run.a_step}.",
        "Leave values on the device: collect losses as tensors and read them once in a while, in place of "
        ".item(), .cpu(), print(tensor), nonzero() and masks in each step; copy with non_blocking=True.",
        gain,
        bound=True,
        what_if={"remove": "sync"},
        select={"category": "sync"},
        rows=rows,
        count=count,
    )


def _callers(run: Run, rows: IntArray) -> pd.Series[int]:
    """Return names of the innermost operators around calls, most frequent first."""
    slices = run.trace.slices
    rows = climb(ints(slices["parent"]), rows, slices["category"].isin(_PLUMBING).to_numpy())
    return slices["name"].iloc[rows].astype("str").value_counts()


def pageable_copies(run: Run) -> Finding | None:
    """Find blocking copies to the device from memory that is not pinned."""
    work = run.device
    copies = work.among("category", ("memcpy",)) & named(work, ("pageable",)) & named(work, ("htod", "host"))
    if not copies.any():
        return None
    rows, count = evidence(work, copies)
    spent = int((work.end - work.ts)[copies].sum())
    ends = run.idle["next"].fillna(-1).to_numpy(dtype=np.int64)
    waits = int(run.idle.loc[np.isin(ends, work.rows[copies]), "memcpy_ns"].sum())
    calls = launch_calls(run.trace)[work.rows[copies]]
    slices, calls = run.trace.slices, calls[calls >= 0]
    waited_ns = int(slices["dur"].to_numpy()[calls].sum())
    names = [*slices["name"].iloc[calls].astype("str").unique(), *names_of(work, copies)]
    return Finding(
        "pageable-copies",
        f"{format_count(count)} copies to the device come from memory that is not pinned: {format_ns(spent)} "
        f"of copying ({format_share(spent / run.total_ns)}), during which the host waits "
        f"{format_ns(waited_ns)}.",
        "Pin what is copied (DataLoader(pin_memory=True) or tensor.pin_memory()) and copy with "
        ".to(device, non_blocking=True), so that copies overlap with work.",
        spent + waits,
        bound=True,
        what_if={"remove": "copy", "scale": dict.fromkeys(names, 0)},
        select={"name": names_of(work, copies)},
        rows=rows,
        count=count,
    )


_MOST: Final = 0.5
_SMALL_BYTES: Final = 1 << 16
"""Smaller copies take about as long as starting a copy: PCIe 3 moves 64 KiB in 5 µs."""


def copy_bound(run: Run) -> Finding | None:
    """Find a device that mostly copies, and say what would shorten its longest copies."""
    table = device(run.trace, **run.looking)
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
    where = {"device": number}
    sentence, remedies = _longest_copies(run, longest)
    whole = Source("device", "busy_ns", where, run.looking)
    memory = Source("device", "memory_ns", where, run.looking)
    sentence = (
        say(
            f"Device {number} copies for ",
            cite_ns(moved, memory),
            ", ",
            cite_share(moved / busy, memory, whole),
        )
        + say(" of the time in which it is busy")
        + sentence
        + "."
    )
    rows, count = evidence(work, own)
    names = names_of(work, own)
    return Finding(
        "copy-bound",
        str(sentence),
        f"{remedies[0][:1].upper()}{'; '.join(remedies)[1:]}.",
        min(moved, run.total_ns),
        bound=True,
        what_if={"scale": dict.fromkeys(names, 0)},
        claims=sentence.placed(0),
        select={"name": names},
        rows=rows,
        count=count,
    )


def _longest_copies(run: Run, table: pd.DataFrame) -> tuple[Sentence, list[str]]:
    """Describe the copies that take most time, and the remedies that the recording supports."""
    first = table.iloc[0]
    words = [str(first[name]) for name in ("direction", "source", "target")]
    where = dict(
        zip(("device", "direction", "source", "target"), (int(first["device"]), *words), strict=True)
    )

    def of(column: str) -> Source:
        return Source("copies", column, where, run.replay_arguments)

    count, spent = int(first["count"]), int(first["total_ns"])
    sentence = say("; the longest are ", cite(format_count(count), count, of("count")))
    sentence += say(f" {words[0] or 'copies'} of ", cite_ns(spent, of("total_ns")), " together")
    remedies = []
    if pd.notna(first["pinned"]) and not first["pinned"]:
        sentence += say(" with memory that is not pinned")
        remedies.append(
            "pin that memory (DataLoader(pin_memory=True), tensor.pin_memory()) and copy with "
            "non_blocking=True: only such copies run beside the host, and at the rate of the link"
        )
    if pd.notna(first["bytes"]):
        moved = int(first["bytes"])
        sentence += say(", ", cite(format_bytes(moved), moved, of("bytes")), " in all")
        if count > 1 and moved < count * _SMALL_BYTES:
            sentence += say(f" and less than {format_bytes(_SMALL_BYTES)} each")
            remedies.append(
                "put small tensors together before they are copied: each copy costs a call and a start"
            )
    directions = set(table.loc[table["share"] >= _SHARE, "direction"])
    if {"HtoD", "DtoH"} <= directions:
        remedies.append("keep on the device what goes both ways: data is copied to it and back")
    elif words[0] == "HtoD":
        remedies.append(
            "copy once what stays the same, in fewer bytes what does not (uint8 or bfloat16, converted on "
            "the device), and while kernels of the batch before run"
        )
    elif words[0] == "DtoH":
        remedies.append("compute on the device what is needed of it, and copy the result only")
    elif words[0] == "DtoD":
        remedies.append("copy less inside of the device: .contiguous(), .clone(), torch.cat and indexing do")
    return sentence, remedies or ["copy less: keep on the device what is needed there again"]


_SHARE: Final = 0.1
_LOW: Final = 0.25
_ELIGIBLE: Final = re.compile(r"gemm|conv|dgrad|wgrad|cudnn.*(fprop|engine)|scudnn|winograd", re.IGNORECASE)
_HAVE: Final = re.compile(
    r"\b(V100|T4|A10\w*|A30|A40|A100|H100|H200|GH200|B100|B200|L4|L40\w*|RTX|TITAN (?:V|RTX)|DGX\w*)", re.I
)
_FASTER: Final = 2
"""Matrix products on tensor cores take at most half the time; NVIDIA's data sheets say 8 to 16 times less."""


def low_occupancy(run: Run) -> Finding | None:
    """Find kernels whose grids are too small to fill the device or leave it mostly empty."""
    work = run.device
    attributes = device_attributes(run.trace, work)
    if attributes is None:
        return None
    nothing = np.full(len(work.rows), np.nan)
    blocks, occupancy = (
        attributes[name].to_numpy(dtype=np.float64, na_value=np.nan) if name in attributes else nothing
        for name in ("blocks_per_sm", "occupancy")
    )
    kernel = work.among("category", ("kernel",))
    spent = (work.end - work.ts).astype(np.float64)
    few = kernel & ((blocks < 1) | (occupancy < _LOW))
    share = float(spent[few].sum() / max(spent[kernel].sum(), 1.0))
    if share < _SHARE:
        return None
    rows, count = evidence(work, few)
    empty = np.where(blocks < 1, 1 - blocks, 0.0)
    return Finding(
        "low-occupancy",
        f"Kernels with less than one block for each multiprocessor, or an occupancy below "
        f"{format_share(_LOW)}, take {format_share(share)} of the kernels' time.",
        "Give each kernel more to do: a larger batch or larger layers, channels that are multiples of 64, "
        "torch.compile to fuse small ones.",
        int(np.nansum((spent * empty)[few])),
        bound=True,
        what_if={"scale": _filled(work, few, spent, empty)},
        select={"name": names_of(work, few)},
        rows=rows,
        count=count,
    )


def _filled(work: Scope, few: BoolArray, spent: FloatArray, empty: FloatArray) -> dict[str, float]:
    """Return, by name, the share of their time that kernels would take on a fully used device."""
    rows = pd.DataFrame({"code": work.codes("name")[few], "spent": spent[few]})
    rows["filled"] = rows["spent"] * (1 - np.nan_to_num(empty[few]))
    sums = rows.groupby("code")[["filled", "spent"]].sum()
    words = work.slices["name"].cat.categories
    return {str(words[code]): float(part) for code, part in (sums["filled"] / sums["spent"]).items()}


def tensor_cores_unused(run: Run) -> Finding | None:
    """Find matrix products and convolutions that do not use the device's tensor cores."""
    if not _has_tensor_cores(run):
        return None
    work = run.device
    words = [str(name) for name in work.slices["name"].cat.categories]
    eligible = [bool(_ELIGIBLE.search(word)) and not uses_tensor_cores(word) for word in words]
    kernel = work.among("category", ("kernel",))
    plain = kernel & np.append(np.array(eligible, dtype=bool), False)[work.codes("name")]
    spent = work.end - work.ts
    share = float(spent[plain].sum() / max(int(spent[kernel].sum()), 1))
    if share < _SHARE:
        return None
    rows, count = evidence(work, plain)
    longest = short(work.slices["name"].iloc[int(rows[0])], 32)
    return Finding(
        "tensor-cores-unused",
        f"Matrix products and convolutions without tensor cores take {format_share(share)} of the kernels' "
        f"time; the longest is {longest}.",
        "Compute in half precision: torch.autocast('cuda', dtype=torch.float16 or bfloat16); on Ampere and "
        "later torch.set_float32_matmul_precision('high'); sizes that are multiples of 8.",
        int(spent[plain].sum()) * (_FASTER - 1) // _FASTER,
        bound=True,
        what_if={"scale": dict.fromkeys(names_of(work, plain), 1 / _FASTER)},
        select={"name": names_of(work, plain)},
        rows=rows,
        count=count,
    )


def _has_tensor_cores(run: Run) -> bool:
    names = run.trace.metadata.get("devices")
    return any(_HAVE.search(str(name)) for name in names) if isinstance(names, list | tuple) else False


WAITS: Final = 0.05
"""Waits below this share of the measured time are not reported."""


def communication_exposed(run: Run) -> Finding | None:
    """Find collectives that run while nothing computes."""
    spent = run.facts.phase_ns.get("communication", 0)
    table = distributed(run.trace, window=run.window, by="trace")
    on_devices = table[table["device"] >= 0]
    scope = run.threads
    if len(on_devices) and int(on_devices["communication_ns"].sum()):
        spent, scope = int(on_devices["exposed_ns"].max()), run.device
    share = spent / run.total_ns
    if share < WAITS:
        return None
    rows, count = evidence(scope, scope.among("category", ("collective",)))
    return Finding(
        "communication-exposed",
        f"{format_share(min(share, 1.0))} of the time is communication behind which nothing computes "
        f"({format_ns(spent / run.step_count)}{run.a_step}).",
        "Overlap it with backward (DDP's buckets: bucket_cap_mb, gradient_as_bucket_view), exchange less "
        "often (no_sync with gradient accumulation) or less (compression hooks, bfloat16), and look for a "
        "rank that arrives late: the others' communication is then waiting.",
        min(spent, run.total_ns),
        bound=True,
        what_if={"overlap_communication": True} if scope is run.device else {},
        select={"category": "collective"},
        rows=rows,
        count=count,
    )
