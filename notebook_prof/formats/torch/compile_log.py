"""PyTorch's structured log of compilations, requested by ``TORCH_TRACE``, which tlparse reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pandas as pd

from ...errors import FormatError
from ...readers.codec.tolerant_json import UNDECODABLE
from ...trace.builder import TraceBuilder
from ...trace.nesting import pair
from ...trace.report import ImportReport

_LINE: Final = rb"[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ (\d+) [^\]\n]*\] "
_RECORD: Final = re.compile(
    rb"^"
    + _LINE
    + rb'(\{(?=[^\n]*"(?:chromium_event|(?:bwd_)?compilation_metrics)":)[^\n]*)((?:\n\t[^\n]*)*)',
    re.MULTILINE,
)
"""A line of the log that is used, and the lines after it that belong to it."""
_METRICS: Final = ("compilation_metrics", "bwd_compilation_metrics")
_NAME: Final = "compile"
_EXAMPLE: Final = 80
_SUFFIX: Final = " (dynamo_timed)"
"""Suffix that torch's profiler adds to the names of the same ranges."""


class _Log(NamedTuple):
    """The log of one process."""

    pid: int | None
    rank: int | None
    events: list[dict[str, Any]]
    metrics: list[dict[str, Any]]


def _read_log(pieces: Iterable[bytes], report: ImportReport) -> _Log:
    pid = rank = None
    events: list[dict[str, Any]] = []
    metrics: list[dict[str, Any]] = []
    broken: list[bytes] = []
    for process, text, payload in (match.groups() for match in _records(pieces)):
        try:
            record = msgspec.json.decode(text)
            if "chromium_event" in record:
                event = msgspec.json.decode(payload.replace(b"\n\t", b"\n"))
                events += [event] if isinstance(event, dict) else []
            metrics += [record[name] for name in _METRICS if isinstance(record.get(name), dict)]
        except UNDECODABLE:
            broken.append(text[:_EXAMPLE])
            continue
        pid, rank = int(process), record.get("rank", rank)
    example, effect = (broken or [b""])[0], "these compilations, or parts of them, are left out"
    advice = "a killed process leaves its last line incomplete"
    report.broken_rows(len(broken), example.decode("utf-8", "replace"), effect, advice)
    return _Log(pid, rank, events, metrics)


def _records(pieces: Iterable[bytes]) -> Iterator[re.Match[bytes]]:
    """Yield matches of the records that are used; a record may span several pieces."""
    tail = b""
    for piece in pieces:
        tail += piece
        cut = tail.rfind(b"\nV") + 1  # the last record may go on
        yield from _RECORD.finditer(tail, 0, cut)
        tail = tail[cut:]
    yield from _RECORD.finditer(tail)


def read_logs(every: Iterable[Iterable[bytes]], builder: TraceBuilder) -> None:
    """Put the compilations of the logs into `builder`: tracks, slices and a table."""
    logs = [_read_log(pieces, builder.report) for pieces in every]
    rows = [[compilation_row(metrics.get) for metrics in log.metrics] for log in logs]
    if not any(rows) and not any(log.events for log in logs):
        raise FormatError("nothing was compiled while this was logged")
    for number, (log, own) in enumerate(zip(logs, rows, strict=True)):
        track = builder.track(_NAME, pid=log.pid, tid=log.pid or number, rank=log.rank)
        if log.events:
            _put_events(pd.DataFrame(log.events), track, builder)
        elif own:  # logs before PyTorch 2.5
            table = pd.DataFrame(own)
            names = "_compile.compile_inner " + table["function"] + " " + table["id"]
            ts, dur = table["ts"].to_numpy(), table["dur"].to_numpy()
            builder.slices(ts=ts, dur=dur, name=names.tolist(), track=track)
    if any(rows):
        builder.table(COMPILATIONS, pd.DataFrame([row for own in rows for row in own]))


def _put_events(events: pd.DataFrame, track: int, builder: TraceBuilder) -> None:
    """Put ranges with begin and end, and whole ones, on a track."""
    events = events.reindex(columns=["name", "ph", "ts", "dur"])
    ts = pd.to_numeric(events["ts"], errors="coerce")
    used = ts.notna() & events["name"].map(lambda name: isinstance(name, str))
    events, at = events[used], np.round(ts[used].to_numpy(np.float64) * 1000).astype(np.int64)
    kind, name = events["ph"].astype(str).to_numpy(), (events["name"] + _SUFFIX).to_numpy(object)
    begin_or_end = np.flatnonzero((kind == "B") | (kind == "E"))
    pairs = pair(np.zeros(len(begin_or_end), np.int64), at[begin_or_end], kind[begin_or_end] == "B")
    begin, end = begin_or_end[pairs.begin], begin_or_end[pairs.end]
    same = name[begin] == name[end]
    alone = np.concatenate([begin_or_end[pairs.unclosed], begin_or_end[pairs.unopened], begin[~same]])
    builder.slices(ts=at[begin], dur=at[end] - at[begin], name=name[begin], track=track)
    whole = np.flatnonzero(kind == "X")
    dur = pd.to_numeric(events["dur"].iloc[whole], errors="coerce").fillna(0).to_numpy(np.float64)
    builder.slices(ts=at[whole], dur=np.round(dur * 1000).astype(np.int64), name=name[whole], track=track)
    example = str(name[alone[0]]) if len(alone) else ""
    effect = "ranges without an end or a begin of their name are left out, or end with another"
    builder.report.add("unclosed-slice", "loss", len(alone), example, effect, "a killed process leaves them")
    unused = int((~used).sum()) + int(np.isin(kind, ["B", "E", "X"], invert=True).sum())
    example = "instants, as `fx_graph_cache_miss`"
    effect = "they are not in the tables; whether code came from a cache is in `p.compilations()`"
    advice = "nothing needs to be done; tlparse shows them"
    builder.report.add("row-not-used", "info", unused, example, effect, advice)


# TorchDynamo's record of a compilation as a row: the same from a process and from its log.

COMPILATIONS: Final = "compilations"
"""Name of the table in ``metadata["tables"]``."""

_RESUMED: Final = re.compile(r"torch_dynamo_resume_in_(?P<function>.+)_at_(?P<line>\d+)")
_USER_LINE: Final = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_GUARD: Final = re.compile(r"(?:\d+/\d+: )?(?P<guard>.*?)(?:\s+#.*)?")
_MOST_CHARACTERS: Final = 300
_TIMES: Final = (
    ("duration_us", "entire_frame_compile_time_s"),
    ("aot_autograd_cumulative_compile_time_us", "backend_compile_time_s"),
    ("inductor_cumulative_compile_time_us", "inductor_compile_time_s"),
    ("inductor_code_gen_cumulative_compile_time_us", "code_gen_time_s"),
)
"""Each contains the next: TorchDynamo calls AOTAutograd, which calls Inductor, which generates code. The
second name is that of PyTorch before 2.6, in seconds."""


def compilation_row(read: Callable[[str], Any], file_of: Callable[[str], str] = str) -> dict[str, Any]:
    """Return a row of the table of compilations: times in ns, and text cut to what people read."""
    # `read` gives a field of TorchDynamo's CompilationMetrics by its name, None where there is none;
    # `file_of` what a file is called
    total, backend, inductor, codegen = (_ns(read, *names) for names in _TIMES)
    total = max(total, backend, inductor, codegen)
    backward = read("is_forward") is False
    backend = total if backward else max(backend, inductor)  # the graph of a backward is there already
    name = str(read("co_name") or "")
    resumed = _RESUMED.fullmatch(name)
    recompiled = str(read("recompile_reason") or "")
    where = _USER_LINE.findall(recompiled)
    guard = _GUARD.fullmatch(recompiled.partition("\n")[0])
    hits = ("inductor_fx_local_cache_hit_count", "aotautograd_local_cache_hit_count")
    return {
        "ts": _ns(read, "start_time_us", "start_time"),
        "dur": total,
        "id": str(read("compile_id") or ""),
        "function": resumed["function"] if resumed else name,
        "file": file_of(file) if (file := str(read("co_filename") or "")) else "",
        "line": int(resumed["line"]) if resumed else _number(read("co_firstlineno")),
        "resumed": resumed is not None,
        "backward": backward,
        "dynamo_ns": max(total - backend, 0),
        "aot_ns": max(backend - inductor, 0),
        "inductor_ns": max(inductor - codegen, 0),
        "codegen_ns": codegen,
        "operators": _number(read("graph_op_count")),
        "guards": _number(read("guard_count")),
        "cached": any(_number(read(hit)) for hit in hits),
        "guard": guard["guard"].strip()[:_MOST_CHARACTERS] if recompiled and guard else "",
        "guard_file": file_of(where[-1][0]) if where else "",
        "guard_line": int(where[-1][1]) if where else 0,
        "restart": "; ".join(sorted(map(_first_sentence, read("restart_reasons") or ()))),
        "failure": _first_sentence(read("fail_reason") or ""),
    }


def _ns(read: Callable[[str], Any], microseconds: str, seconds: str) -> int:
    """Return a time by whichever name exists."""
    value = read(microseconds)
    if isinstance(value, int | float):
        return int(value) * 1000
    value = read(seconds)
    return round(value * 1e9) if isinstance(value, int | float) else 0


def _number(value: Any) -> int:
    return int(value) if isinstance(value, int | float) else 0


def _first_sentence(text: object) -> str:
    return str(text).strip().partition("\n")[0].strip()[:_MOST_CHARACTERS]
