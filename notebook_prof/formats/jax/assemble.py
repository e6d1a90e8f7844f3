"""Planes, lines and events of JAX: read from ``trace.json.gz``, and put into a TraceBuilder."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd
from msgspec import Raw, Struct

from ...errors import FormatError
from ...readers.codec.numbers import to_ns
from ...readers.codec.tolerant_json import NOTHING, decode_rows
from ...readers.events import add_arguments, argument_rows
from ...trace.arrays import IntArray, numbered
from ...trace.builder import TraceBuilder
from ...trace.report import ImportReport
from ...trace.strings import Coded, by_value
from ...trace.taxonomy import call_category, device_category

STATISTICS: Final = ("step_num", "hlo_op", "hlo_module", "correlation_id", "tf_op", "memcpy_details")
"""Statistics of events from which the tables are made."""
_ELSEWHERE: Final = frozenset({"step_num", "hlo_module", "correlation_id"})
"""Statistics that are columns of the slices."""
_SOURCE: Final = "_src"


def is_argument(name: str) -> bool:
    """Return whether a statistic describes an event, unlike ``_pt``, which only joins threads."""
    return name == _SOURCE or not name.startswith("_")


def as_arguments(own: list[dict[str, Any]]) -> Coded | None:
    """Return each event's statistics that are not columns, as JSON objects; None if there are none."""
    kept = [
        {
            name: f"{len(v)} bytes" if isinstance(v, bytes) else v
            for name, v in stats.items()
            if name not in _ELSEWHERE and is_argument(name)
        }
        for stats in own
    ]
    texts = [msgspec.json.encode(others).decode(errors="replace") if others else None for others in kept]
    arguments = by_value(np.arange(len(texts)), texts)
    return arguments if arguments.values else None


def statistics(own: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return the values of each of `STATISTICS` that some event has."""
    columns = {name: [each.get(name) for each in own] for name in STATISTICS}
    return {name: values for name, values in columns.items() if any(v is not None for v in values)}


@dataclass(frozen=True, slots=True)
class PlaneLine:
    """A thread, a stream or a derived row."""

    plane: str  # `/host:CPU`, `/device:GPU:0`
    name: str  # `python`, `Stream #17(Kernel)`
    id: int  # thread or stream, as the file numbers it
    ts: IntArray  # ns on the clock of the file
    dur: IntArray
    names: Coded
    # by the names in `STATISTICS`, a value or None for each event; absent where no event has it
    stats: dict[str, list[Any]] = field(default_factory=dict)
    args: Coded | None = None  # from `as_arguments`


@dataclass(frozen=True, slots=True)
class Space:
    """A whole recording."""

    lines: list[PlaneLine]  # in the order of the file
    # statistics by plane, of those that have some
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    planes: list[str] = field(default_factory=list)  # names of all planes, also of those without lines


_DEVICE: Final = re.compile(r"/device:([A-Za-z_]+):(\d{1,4})")
_STREAM: Final = re.compile(r"Stream #(\d{1,12})")
_PYTHON: Final = re.compile(r"\$(.+?):(\d{1,9}) (.+)|\$(.*)", re.S)
_COLLECTIVE: Final = re.compile(
    r"all-?reduce|all-?gather|reduce-?scatter|all-?to-?all|collective-?(?:permute|broadcast)", re.I
)
_CALL: Final = re.compile(r"(?:_*cuda|hip|cu(?=[A-Z])|hsa_|nccl|rccl)\w*")
_WAIT: Final = re.compile(
    r"(?:cuda|hip|cu)\w*Synchronize|BlockUntilReady|BlockHostUntil\w+|AwaitValue|\w*::Await\w*"
    r"|\$\S+:\d+ (?:\w+\.)*block_until_ready$"
)
_OVERHEAD: Final = re.compile(r"end: |ThreadpoolListener::|ThreadPool|Wait for completion")
_DERIVED: Final = ("XLA Modules", "Framework", "Source", "TensorFlow", "XLA TraceMe", "Launch Stats", "Scope")
_RELATIVE_NS: Final = 10**17


def assemble(space: Space, builder: TraceBuilder, *, rank: int | None = None) -> None:
    """Put a recording into `builder`; all its tracks get `rank`."""
    # Threads of `/host:CPU` are threads; Python's frames are category python, events with a `step_num` are
    # steps, XLA's operations on the processor are operators, calls of the GPU's runtime are launches, and
    # what waits (`block_until_ready` too) is sync. Streams of a device are streams with kernels, copies and
    # collectives; so is `XLA Ops` where a device has no streams (TPU). Rows that were worked out from these
    # (modules, name scopes) are annotations on tracks of their own. `module` is the HLO module.
    start = space.facts.get("Task Environment", {}).get("profile_start_time", 0)
    base = int(start) if isinstance(start, int | float) and 0 <= start < 4e18 else 0
    parts: list[tuple[IntArray, pd.DataFrame]] = []
    tables: list[pd.DataFrame] = []
    with_streams = {line.plane for line in space.lines if _STREAM.match(line.name)}
    for number, line in enumerate(space.lines):
        if len(line.ts):
            parts.append(_line(line, number, base, line.plane in with_streams, builder, space, rank, tables))
    add_arguments(builder, tables)
    _facts(space, builder, rank)
    if parts:
        rows = pd.concat([part.assign(handle=handles) for handles, part in parts], ignore_index=True)
        _steps(rows, builder)
        _launches(rows, builder)
        _table(rows, builder)


def _line(
    line: PlaneLine,
    number: int,
    base: int,
    streams: bool,
    builder: TraceBuilder,
    space: Space,
    rank: int | None,
    tables: list[pd.DataFrame],
) -> tuple[IntArray, pd.DataFrame]:
    n = len(line.ts)
    ts = line.ts + (base if int(line.ts.max()) < _RELATIVE_NS else 0)
    stats = {name: pd.Series(values, dtype="object") for name, values in line.stats.items()}
    missing = pd.Series([None] * n, dtype="object")
    hlo, module = (stats.get(name, missing) for name in ("hlo_op", "hlo_module"))
    correlation = pd.to_numeric(stats.get("correlation_id", missing), errors="coerce").fillna(-1)
    correlation = correlation.where(correlation.abs() < 2**53, -1).astype("int64")
    step = pd.to_numeric(stats.get("step_num", missing), errors="coerce")
    match = _DEVICE.match(line.plane)
    if match:
        category = _device_kinds(line, streams)
        track, device, stream = _stream(line, number, match, builder, rank)
        names, stack = line.names, None
    else:
        category = _host_kinds(line, hlo, step)
        pid = space.facts.get(line.plane, {}).get("process_id", 0)
        tid = line.id if line.id >= 0 else number
        pid = pid if isinstance(pid, int) and 0 <= pid < 2**31 else 0
        track, device, stream = builder.track(line.name, pid=pid, tid=tid, rank=rank), None, None
        names, stack = _python(line.names, builder)
    handles = builder.slices(
        ts=ts,
        dur=line.dur,
        track=track,
        name=names,
        category=category,
        correlation=correlation.where(category != "annotation", -1),
        device=device,
        stream=stream,
        module=module.where(module.notna(), None),
        stack=stack,
    )
    if line.args is not None:
        tables.append(argument_rows(track, ts, line.dur, names, line.args))
    rows = pd.DataFrame({"ts": ts, "dur": line.dur, "category": category, "correlation": correlation})
    is_step = step.notna() & (step.abs() < 2**31) & (not match)
    return handles, rows.assign(step=step.where(is_step), hlo_op=hlo, hlo_module=module, device=bool(match))


def _host_kinds(line: PlaneLine, hlo: pd.Series, step: pd.Series) -> pd.Series:
    kinds = [_host_kind(name) for name in line.names.values]
    category = pd.Series(np.array(kinds, dtype=object)[line.names.codes])
    category = category.where(hlo.isna() | ~category.isin(["annotation"]), "operator")
    return category.where(step.isna(), "annotation")


def _host_kind(name: str) -> str:
    for pattern, kind in ((_WAIT, "sync"), (_OVERHEAD, "overhead"), (_CALL, call_category(name))):
        if pattern.match(name):
            return kind
    return "python" if name.startswith("$") else "annotation"


def _device_kinds(line: PlaneLine, streams: bool) -> pd.Series:
    if not _STREAM.match(line.name) and (streams or line.name == "Steps" or line.name.startswith(_DERIVED)):
        return pd.Series(["annotation"] * len(line.ts), dtype="object")
    kinds = ["collective" if _COLLECTIVE.search(n) else device_category(n) for n in line.names.values]
    category = pd.Series(np.array(kinds, dtype=object)[line.names.codes])
    if "memcpy_details" in line.stats:
        copies = pd.Series(line.stats["memcpy_details"], dtype="object").notna()
        category = category.where(~copies | (category != "kernel"), "memcpy")
    return category


def _stream(
    line: PlaneLine, number: int, match: re.Match[str], builder: TraceBuilder, rank: int | None
) -> tuple[int, int, int | None]:
    device = int(match[2])
    if own := _STREAM.match(line.name):
        stream = int(own[1])
        name = f"{match[1]} {device} stream {stream}"
        return builder.track(name, "stream", device=device, stream=stream, rank=rank), device, stream
    # derived rows have no stream of their own; numbers below zero keep their tracks apart
    name = f"{match[1]} {device} {line.name}"
    return builder.track(name, "stream", device=device, stream=-2 - number, rank=rank), device, None


def _python(names: Coded, builder: TraceBuilder) -> tuple[Coded, IntArray | None]:
    """Take the ``$`` of Python's frames off names, and make a stack of one frame for each."""
    texts, stacks = [], []
    stack_of = builder.stack
    for name in names.values:
        match = _PYTHON.fullmatch(name)
        texts.append(name[1:] if match else name)
        framed = match is not None and match[1] is not None
        stacks.append(stack_of([(match[3], match[1], int(match[2]))]) if match and framed else -1)
    leaf = np.array([*stacks, -1], np.int64)[names.codes]
    return Coded(names.codes, texts), leaf if (leaf >= 0).any() else None


def _steps(rows: pd.DataFrame, builder: TraceBuilder) -> None:
    steps = rows[rows["step"].notna()].drop_duplicates("step")
    if len(steps):
        builder.steps(steps["step"].astype("int64"), steps["ts"], steps["dur"].clip(lower=0), "file")


def _launches(rows: pd.DataFrame, builder: TraceBuilder) -> None:
    """Put a launch for each piece of device work whose correlation a call of the runtime has."""
    with_id = rows[rows["correlation"] > 0]
    calls = with_id[~with_id["device"] & with_id["category"].isin(["launch", "sync"])]
    calls = calls.drop_duplicates("correlation").set_index("correlation")["handle"]
    work = with_id[with_id["device"] & (with_id["category"] != "annotation")]
    source = calls.reindex(work["correlation"])
    launched = source.notna().to_numpy()
    builder.flows("launch", source.to_numpy()[launched].astype(np.int64), work["handle"].to_numpy()[launched])
    on_device = rows["device"] & (rows["category"] != "annotation")
    missing = int(on_device.sum()) - int(launched.sum())
    effect = "kernels and copies without a call of the runtime have no step from it"
    builder.report.add("device-work-without-launch", "info", missing, effect=effect)


def _table(rows: pd.DataFrame, builder: TraceBuilder) -> None:
    is_work = rows["category"].isin(["operator", "kernel", "collective", "memcpy"])
    rows = rows[rows["hlo_op"].notna() & is_work]
    if not len(rows):
        return
    texts = rows.astype({"hlo_op": "str", "category": "str"}).assign(
        hlo_module=rows["hlo_module"].fillna("").astype("str")
    )
    groups = texts.groupby(["hlo_module", "hlo_op", "category"])["dur"]
    table = groups.agg(count="size", total_ns="sum").reset_index()
    table = table.sort_values("total_ns", ascending=False, kind="stable", ignore_index=True)
    tables = builder.metadata.setdefault("tables", {})
    earlier = tables.get("hlo_ops")
    tables["hlo_ops"] = table if earlier is None else pd.concat([earlier, table], ignore_index=True)


def _facts(space: Space, builder: TraceBuilder, rank: int | None) -> None:
    facts_by_plane = {plane: dict(facts) for plane, facts in space.facts.items()}
    for facts in facts_by_plane.values():
        facts.pop("profile_options", None)
    if facts_by_plane:
        builder.metadata["planes" if rank is None else f"planes_of_rank_{rank}"] = facts_by_plane
    for key in ("jax_version", "jaxlib_version"):
        if isinstance(value := facts_by_plane.get("/host:metadata", {}).get(key), str):
            builder.metadata[key] = value


Scalar = int | float | str | None


class XlaEvent(Struct, gc=False):
    """One element of ``traceEvents``; the last one is empty."""

    ph: str = ""
    name: Scalar = None
    pid: int | None = None
    tid: int | None = None
    ts: Raw = NOTHING
    dur: Raw = NOTHING
    args: dict[str, Any] | None = None


def read_space(data: bytes, report: ImportReport) -> Space:
    """Decode a file of JAX's trace viewer."""
    rows = decode_rows(data, XlaEvent, report)
    if not rows:
        raise FormatError("there are no events in it")
    planes = _names_of(rows, "process_name", lambda row: _id(row.pid))
    lines = _names_of(rows, "thread_name", lambda row: (_id(row.pid), _id(row.tid)))
    other = sum(row.ph not in ("X", "M") and bool(row.ph) for row in rows)
    report.add("row-not-used", "info", other, effect="rows of a kind that JAX does not write")
    rows = [row for row in rows if row.ph == "X"]
    ts, timed = to_ns([row.ts for row in rows])
    dur, lasting = to_ns([row.dur for row in rows])
    good = timed & lasting & np.fromiter((row.name is not None for row in rows), bool, len(rows))
    report.broken_rows(~good, lambda i: rows[i].name, "rows without a time or a name are left out")
    usable = np.flatnonzero(good)
    codes, threads = numbered((_id(rows[i].pid), _id(rows[i].tid)) for i in usable)
    order = np.argsort(codes, kind="stable")
    parsed_lines = []
    for chosen in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(order) else []:
        pid, tid = threads[codes[chosen[0]]]
        own = usable[chosen]
        args = [rows[i].args or {} for i in own]
        plain = [{k: v for k, v in each.items() if isinstance(v, int | float | str)} for each in args]
        names = Coded(*numbered(str(rows[i].name) for i in own))
        line = lines.get((pid, tid), f"thread {tid}")
        columns = (ts[own], dur[own], names, statistics(plain), as_arguments(args))
        parsed_lines.append(PlaneLine(planes.get(pid, ""), line, tid, *columns))
    return Space(parsed_lines)


def _id(number: int | None) -> int:
    """Return the id of a process or thread; 0 for none, and for what no system gives."""
    return number if number is not None and abs(number) < 1 << 63 else 0


def _names_of(rows: list[XlaEvent], kind: str, key: Callable[[XlaEvent], Any]) -> dict[Any, str]:
    return {
        key(row): str(row.args["name"])
        for row in rows
        if row.ph == "M" and row.name == kind and row.args and row.args.get("name") is not None
    }
