"""Rules for memory that grows, fills up, is fragmented, or is requested too often."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from ...units import format_count
from ..memory.growth import matters, memory_growth
from ..memory.names import memory_names
from ..time.overview import device_properties
from ..verdict.claims import Sentence, Source, cite_bytes, cite_ns, fill, say
from .context import Advice, AdviceContext, evidence, named, names_of

_FULL: Final = 0.9
_LOOSE: Final = 0.25
_LOOSE_BYTES: Final = 256 * 2**20
_ALLOCATING: Final = 0.03
_CALLS: Final = ("cudamalloc", "cudafree", "hipmalloc", "hipfree", "cudahostalloc")


def memory_growth_rule(run: AdviceContext) -> Advice | None:
    """Find blocks that every step leaves behind."""
    if not len(run.facts.peak) or not len(table := memory_growth(run.trace)):
        return None
    first = table.iloc[0]
    if first["source"] == "rss":
        size, grown, count = (int(first[column]) for column in ("bytes_per_step", "steps", "of_steps"))
        source = Source("memory_growth", "bytes_per_step", {"source": "rss"}, reduce="max")
        return Advice(
            "memory-growth",
            fill(
                "Resident memory grows by {} every step, in {} of {} steps, outside the recorded "
                "blocks: arrays, lists or other objects are kept.",
                *(cite_bytes(size, source), grown, count),
            ),
            "Clear lists, dicts and caches that collect arrays across steps; append numbers instead of "
            "arrays; copy the part of an array that you need, since a view keeps all of it.",
            gain_bytes=size,
        )
    name = str(first["operator"]) if isinstance(first["operator"], str) else "an unknown operator"
    rows = table["first_slice"].dropna().to_numpy(dtype=np.int64)
    where = f" in {first['module']}" if isinstance(first["module"], str) else ""
    named_rows = table[table["source"] == "allocator"]
    growth = int(named_rows.groupby("device")["growth_bytes"].first().sum())
    size, step_count = int(first["growth_bytes"]), int(first["of_steps"])
    of_device = f" of device {int(first['device'])}" if len(set(named_rows["device"])) > 1 else ""
    where_is: dict[str, Any] = {"device": int(first["device"]), "source": "allocator"}
    if pd.notna(first["first_slice"]):
        where_is = {"first_slice": int(first["first_slice"]), **where_is}
    left, grows = (
        Source("memory_growth", column, where_is, reduce="max")
        for column in ("bytes_per_step", "growth_bytes")
    )
    if not matters(size, step_count, run.facts.peak, int(first["device"]), "allocator"):
        return None
    return Advice(
        "memory-growth",
        fill(
            "Memory{} grows by {} every step; {}{} leaves {} behind in each of {} steps{}.",
            *(of_device, cite_bytes(size, grows), name, where),
            *(cite_bytes(int(first["bytes_per_step"]), left), int(first["steps"]), _growing_name(run)),
        ),
        "Keep numbers instead of tensors across steps: losses.append(loss.item()), or loss.detach() if "
        ".item() would make the host wait; clear lists, caches and hooks that collect tensors.",
        gain_bytes=growth,
        select={"name": name} if isinstance(first["operator"], str) else {},
        rows=rows,
        count=len(rows),
    )


def _growing_name(run: AdviceContext) -> Sentence:
    """Say which name grows most; empty if no name is known to grow."""
    names = memory_names(run.trace)
    names = names[names["name"].notna() & (names["bytes_per_step"].fillna(0) > 0).to_numpy(bool)]
    if not len(names):
        return say()
    row = names.loc[names["bytes_per_step"].astype("int64").idxmax()]
    source = Source("memory_names", "bytes_per_step", {"name": str(row["name"])}, reduce="max")
    size = int(row["bytes_per_step"])
    return say(f"; {row['name']} keeps ", cite_bytes(size, source), " more after each")


def near_full_memory(run: AdviceContext) -> Advice | None:
    """Find a device whose memory is nearly all reserved."""
    peaks = run.facts.peak
    peaks = peaks[peaks["device"] >= 0]
    for row in peaks.to_dict("records"):
        number, reserved, ts = row["device"], row["reserved_peak_bytes"], row["ts"]
        size = device_properties(run.trace, number).get("memory_bytes", np.nan)
        if reserved >= _FULL * size:
            return Advice(
                "memory-near-full",
                fill(
                    "Device {} has nearly all of its memory reserved: {}.",
                    number,
                    cite_bytes(int(reserved), _at_peak("reserved_peak_bytes", number)),
                ),
                "Save less for the backward pass: activation checkpointing, half precision, a smaller batch "
                "with gradient accumulation, optimizer.zero_grad(set_to_none=True).",
                gain_bytes=int(reserved - _FULL * size),
                select={"window": (int(ts), int(ts) + 1)},
            )
    return None


def fragmented_memory(run: AdviceContext) -> Advice | None:
    """Find reserved memory that cannot be used."""
    peaks = run.facts.peak
    peaks = peaks[(peaks["device"] >= 0) & (peaks["reserved_peak_bytes"] > 0)]
    loose = (peaks["reserved_peak_bytes"] - peaks["peak_bytes"]).to_numpy()
    if not len(peaks) or loose.max() < max(_LOOSE_BYTES, _LOOSE * int(peaks["reserved_peak_bytes"].max())):
        return None
    row = peaks.iloc[int(loose.argmax())]
    number, reserved, held = (int(row[name]) for name in ("device", "reserved_peak_bytes", "peak_bytes"))
    return Advice(
        "memory-fragmented",
        fill(
            "Device {} reserves {}, of which tensors held {} at their peak.",
            number,
            cite_bytes(reserved, _at_peak("reserved_peak_bytes", number)),
            cite_bytes(held, _at_peak("peak_bytes", number)),
        ),
        "Let segments grow: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; use batches of one shape; "
        "run the largest batch first.",
        gain_bytes=int(loose.max()),
        select={"window": (int(row["ts"]), int(row["ts"]) + 1)},
    )


def _at_peak(column: str, device: int) -> Source:
    return Source("memory_peak", column, {"device": device}, reduce="max")


def small_allocations(run: AdviceContext) -> Advice | None:
    """Find steps that request memory from the driver, which makes the host wait each time."""
    host = run.host
    calls = host.among("category", ("launch",)) & named(host, _CALLS, start=True)
    spent = int(host.self_ns[calls].sum())
    count = int(calls.sum())
    if count < run.facts.count or spent < _ALLOCATING * run.total_ns:
        return None
    names = names_of(host, calls)
    times = run.each(count, run.on_thread("count", names), lambda number: format_count(round(number)))
    took = run.on_thread("self_ns", names)
    return Advice(
        "small-allocations",
        fill(
            "The host asks the driver for memory {} times{}, which takes {}{}.",
            *(times, run.a_step, cite_ns(spent, took), run.share(spent, took)),
        ),
        "Reuse tensors: operate in place or with out=, allocate buffers before the loop.",
        gain_ns=spent,
        bound=True,
        select={"name": names},
        **evidence(host, calls),
    )
