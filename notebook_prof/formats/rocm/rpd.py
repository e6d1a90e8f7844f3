"""ROCm Profiler Data: what rocmProfileData's tools record, PyTorch's operators among it."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ...readers.codec.columns import INTS, TEXTS, Kind, TableSource
from ...readers.codec.rows import Rows, Strings, read_rows, texts_in
from ...trace.arrays import BoolArray, IntArray, positions
from ...trace.builder import TraceBuilder
from ...trace.strings import Coded
from .work import (
    add_calls,
    add_events,
    kernel_kinds,
    optional,
    sizes,
    stream_tracks,
    thread_tracks,
    times,
)

_COPIES: Final = {
    "CopyHostToDevice": "Memcpy HtoD",
    "CopyDeviceToHost": "Memcpy DtoH",
    "CopyDeviceToDevice": "Memcpy DtoD",
    "CopyHostToHost": "Memcpy HtoH",
}
_KERNEL, _FILL = "KernelExecution", "FillBuffer"
_MARKER: Final = "UserMarker"
_OPERATOR, _ANNOTATION, _OVERHEAD = 3, 4, 0


def read_rpd(source: TableSource, builder: TraceBuilder) -> None:
    """Put a database of RPD into `builder`: ops on streams, calls on threads, monitors as counters."""
    rows = read_rows(source, "rocpd_string", {"id": INTS, "string": TEXTS})
    strings = Strings(rows.ints("id"), rows.texts("string"))
    apis = read_rows(
        source,
        "rocpd_api",
        dict.fromkeys(("id", "pid", "tid", "start", "end", "apiName_id", "args_id"), INTS),
    )
    links = read_rows(source, "rocpd_api_ops", {"api_id": INTS, "op_id": INTS})
    work = _add_ops(source, strings, apis.ints("id"), links, builder)
    names = strings.names(apis.ints("apiName_id"))
    marker = np.array([*(name == _MARKER for name in names.values), False])[names.codes]
    messages = strings.names(apis.ints("args_id"))
    shift = len(names.values)
    whole = Coded(np.where(marker, messages.codes + shift, names.codes), [*names.values, *messages.values])
    operator, shapes = _operators(source, apis.ints("id"))
    other = np.where(operator, _OPERATOR, np.where(marker, _ANNOTATION, _OVERHEAD))
    track = thread_tracks(builder, apis)
    add_calls(builder, apis, track, whole, other, work["api"], work["handle"], shapes=shapes)
    _add_monitors(source, builder)


def _add_ops(
    source: TableSource, strings: Strings, api_ids: IntArray, links: Rows, builder: TraceBuilder
) -> dict[str, IntArray]:
    """Put ops into the builder; barriers, which have no name, are left out and counted."""
    columns = ("id", "gpuId", "queueId", "start", "end", "description_id", "opType_id")
    ops = read_rows(source, "rocpd_op", dict.fromkeys(columns, INTS))
    kinds = strings.names(ops.ints("opType_id"))
    names = strings.names(ops.ints("description_id"))
    # kernels of a graph are ops of type `Task` with the name of the kernel
    typed = [kind in _COPIES or kind in (_KERNEL, _FILL) for kind in kinds.values]
    has_name = np.array([*map(bool, names.values), False])[names.codes]
    keep = np.array([*typed, False])[kinds.codes] | has_name
    builder.report.add(
        "barrier-not-used",
        "info",
        int((~keep).sum()),
        effect="barriers and tasks without a name are no kernels: left out",
        advice="nothing needs to be done",
    )
    ops, kinds = ops.where(keep), Coded(kinds.codes[keep], kinds.values)
    names = Coded(names.codes[keep], names.values)
    by_kind = [_COPIES.get(kind, "Memset" if kind == _FILL else "unknown kernel") for kind in kinds.values]
    moves = [kind in _COPIES or kind == _FILL for kind in kinds.values]
    is_kernel = ~np.array([*moves, False])[kinds.codes]
    empty = np.array([*(not name for name in names.values), True])[names.codes]
    own = is_kernel & ~empty
    name = Coded(np.where(own, names.codes, kinds.codes + len(names.values)), [*names.values, *by_kind])
    words = np.array([3 if kind == _FILL else 2 for kind in kinds.values] + [0])[kinds.codes]
    kernel = kernel_kinds(name)
    category = Coded(np.where(is_kernel, kernel.codes, words), kernel.values)
    ts, dur = times(ops)
    device, stream = np.clip(ops.ints("gpuId", 0), 0, 32_767), np.maximum(ops.ints("queueId", 0), 0)
    handle = builder.slices(
        ts=ts,
        dur=dur,
        track=stream_tracks(builder, None, device, stream),
        name=name,
        category=category,
        device=device,
        stream=stream,
    )
    api_of_link = positions(api_ids, links.ints("api_id"))
    at = positions(links.ints("op_id"), ops.ints("id"))
    api = np.where(at >= 0, np.append(api_of_link, -1)[at], -1)
    api_id = np.where(api >= 0, np.append(api_ids, -1)[api], -1)
    launch = ("gridX", "gridY", "gridZ", "workgroupX", "workgroupY", "workgroupZ", "groupSegmentSize")
    kernels = read_rows(source, "rocpd_kernelapi", dict.fromkeys(("api_ptr_id", *launch), INTS))
    copies = read_rows(source, "rocpd_copyapi", {"api_ptr_id": INTS, "size": INTS})
    of_kernel = np.where(is_kernel, positions(kernels.ints("api_ptr_id"), api_id), -1)
    of_copy = np.where(is_kernel, -1, positions(copies.ints("api_ptr_id"), api_id))
    grid, block = sizes(kernels, launch[:3]), sizes(kernels, launch[3:6])
    table = {
        "device": device,
        "stream": stream,
        "start_unix_ns": ts,
        "correlation": api_id,
        "name": np.array([*name.values, ""], dtype=object)[name.codes],
        "kind": np.where(is_kernel, "kernel", np.where(words == 3, "gpu_memset", "gpu_memcpy")),
    }
    if len(ops):
        facts = {
            "grid": grid.take(of_kernel, allow_fill=True),
            "block": block.take(of_kernel, allow_fill=True),
            "shared_memory_bytes": optional(np.append(kernels.ints("groupSegmentSize"), -1)[of_kernel]),
            "bytes": optional(np.append(copies.ints("size"), -1)[of_copy]),
        }
        add_events(builder, [pd.DataFrame({**table, **facts})])
    return {"api": api, "handle": handle}


def _operators(source: TableSource, api_ids: IntArray) -> tuple[BoolArray, Coded | None]:
    """Return which calls are PyTorch's operators, and the shapes of their inputs."""
    rows = read_rows(source, "ext_autogradapi", {"api_ptr_id": INTS, "sizes": TEXTS})
    at = positions(rows.ints("api_ptr_id"), api_ids)
    text = rows.texts("sizes")
    if text is None or not len(rows):
        return at >= 0, None
    shapes = text.coded()
    empty = np.array([*(not value for value in shapes.values), True])
    codes = np.append(shapes.codes, -1)[at]
    codes = np.where(empty[codes], -1, codes)
    return at >= 0, Coded(codes, shapes.values) if (codes >= 0).any() else None


def _add_monitors(source: TableSource, builder: TraceBuilder) -> None:
    """Put clocks and the like into the builder as counters."""
    kinds: dict[str, Kind] = {
        **dict.fromkeys(("deviceId", "start"), INTS),
        **dict.fromkeys(("deviceType", "monitorType", "value"), TEXTS),
    }
    rows = read_rows(source, "rocpd_monitor", kinds)
    if not len(rows):
        return
    what, device_type = texts_in(rows.texts("monitorType")), texts_in(rows.texts("deviceType"))
    whole = read_rows(source, "rocpd_monitor", {"value": INTS}).ints("value").astype(np.float64)
    numbers = pd.to_numeric(pd.Series(texts_in(rows.texts("value"))), errors="coerce").to_numpy(np.float64)
    value = np.where(np.isnan(numbers), np.where(whole < 0, np.nan, whole), numbers)
    device, ts = np.clip(rows.ints("deviceId", 0), 0, 32_767), rows.ints("start", 0)
    table = pd.DataFrame({"kind": device_type, "device": device, "what": what, "ts": ts, "value": value})
    for (kind, number, name), part in table.dropna().groupby(["kind", "device", "what"]):
        label = f"{'GPU' if str(kind).lower() == 'gpu' else kind} {number} {name}"
        unit = "MHz" if str(name).endswith("clk") else ""
        track = builder.track(label, "counter", device=int(str(number)), unit=unit)
        builder.counter(track, part["ts"].to_numpy(), part["value"].to_numpy())
