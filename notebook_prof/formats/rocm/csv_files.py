"""Reads rocprofv3's CSV files: one of them, or the folder of a run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pandas as pd

from ...errors import FormatError
from ...readers.base import Folder
from ...readers.codec.columns import MISSING, Column, TableRows, Texts, groups, marked, per_group, texts_in
from ...trace.arrays import IntArray, positions
from ...trace.builder import TraceBuilder
from ...trace.report import ImportReport
from ...trace.strings import Coded
from .csv_kinds import AGENTS, ALLOCATIONS, CALLS, COPIES, COUNTERS, KERNELS, header_names, kind_of
from .work import (
    OPERATOR,
    LaunchedWork,
    add_allocations,
    add_calls,
    add_work,
    copy_name,
    joined_work,
    kernel_facts,
    kernel_kinds,
    kind_of_region,
    thread_tracks,
)

_KIND: Final = re.compile(
    r"_?(?:(?:hip|hsa|marker|rccl|rocdecode|rocjpeg)(?:_runtime|_compiler|_core)?(?:_api)?|kernel|memory_copy|"
    r"memory_allocation|scratch_memory|agent|counter)_(?:trace|collection|info)\.csv(?:\.\w+)?$"
)
"""The part of a file name after the words that all files of one process share."""


def read_file(data: bytes, builder: TraceBuilder) -> None:
    process = _Process(builder)
    process.take(kind_of(data) or "", data)
    _put([process], builder)


def read_folder(folder: Folder, names: Iterable[str], builder: TraceBuilder) -> None:
    """Put all files of a run into `builder`. Files of the same process have the same prefix."""
    processes: dict[str, _Process] = {}
    for name in names:
        kind = kind_of(folder.head(name))
        if kind is None:
            builder.report.add("file-not-used", "info", 1, name, "statistics and similar files are not shown")
            continue
        processes.setdefault(_KIND.sub("", name), _Process(builder)).take(kind, folder.read(name))
    _put(list(processes.values()), builder)


class _Process:
    """The files of one process, whose names begin with the same prefix."""

    def __init__(self, builder: TraceBuilder) -> None:
        self._builder = builder
        self._parts: dict[str, list[Any]] = {}  # Arrow's tables by kind

    def take(self, kind: str, data: bytes) -> None:
        self._parts.setdefault(kind, []).append(read_csv(data, self._builder.report))

    def rows(self, kind: str) -> TableRows:
        """Return the rows of a kind of file."""
        return _joined(self._parts.get(kind, []))

    def kernels(self) -> TableRows:
        """Return kernels: of the kernel trace, else those whose counters were collected, once each."""
        counted = self._parts.get(COUNTERS, [])
        example = "counters of kernels"
        effect = "their values are not shown: they belong to whole kernels, not to moments"
        advice = "read them with pandas.read_csv, and join them by Dispatch_Id"
        self._builder.report.add("table-not-used", "info", sum(map(len, counted)), example, effect, advice)
        if KERNELS in self._parts or not counted:
            return self.rows(KERNELS)
        rows = _joined(counted)
        _, first = groups(rows.ints("dispatch_id"), rows.ints("start"))
        keep = np.zeros(len(rows), bool)
        keep[first] = True
        return rows.where(keep)

    def put(self, rank: int | None) -> None:
        kernels, copies, calls = self.kernels(), self.rows(COPIES), self.rows(CALLS)
        to_device = _marked_texts(copies, "direction", "TO_DEVICE")
        source, target = copies.ints("source_agent_id"), copies.ints("destination_agent_id")
        agent_of_copy = np.where(to_device, target, source)
        gpus = self._gpus(np.concatenate([kernels.ints("agent_id"), agent_of_copy]))
        of_kernels = self._add_kernels(kernels, gpus, rank)
        of_copies = self._add_copies(copies, gpus(agent_of_copy), rank)
        self._add_calls(calls, rank, joined_work(self._builder, of_kernels, of_copies))
        self._add_allocations(gpus)

    def _gpus(self, used: IntArray) -> Any:
        """Return the GPU numbers of agents: by their table, or else in the order of those in use."""
        agents = self.rows(AGENTS)
        kinds = texts_in(agents.texts("agent_type"))
        logical = agents.ints("logical_node_id")
        numbers = np.where(logical >= 0, logical, agents.ints("node_id"))
        index = agents.ints("logical_node_type_id")
        own = np.array([kind.upper() == "GPU" for kind in kinds], bool)
        by_order = {number: i for i, number in enumerate(np.unique(used[used >= 0]).tolist())}
        index_of = (
            dict(zip(numbers[own].tolist(), np.maximum(index[own], 0).tolist(), strict=True)) or by_order
        )

        return lambda agent, missing=0: per_group(lambda own: index_of.get(own, missing), agent)

    def _add_kernels(self, rows: TableRows, gpus: Any, rank: int | None) -> tuple[LaunchedWork, pd.DataFrame]:
        name = _coded(rows, "kernel_name").named("unknown kernel")
        facts = kernel_facts(rows, rows.ints("vgpr_count"), rows.ints("lds_block_size"))
        device = gpus(rows.ints("agent_id"))
        return self._add_work(rows, name, kernel_kinds(name), device, rank, facts)

    def _add_copies(
        self, rows: TableRows, device: IntArray, rank: int | None
    ) -> tuple[LaunchedWork, pd.DataFrame]:
        words = _coded(rows, "direction")
        name = Coded(words.codes, [copy_name(text) for text in words.values]).named("Memcpy")
        effect = "the CSV of copies does not contain how many bytes they moved"
        advice = "record with --output-format rocpd to have them"
        self._builder.report.add("copies-without-bytes", "info", len(rows), effect=effect, advice=advice)
        return self._add_work(rows, name, "memcpy", device, rank, {"kind": "gpu_memcpy"})

    def _add_work(
        self,
        rows: TableRows,
        name: Coded,
        category: Any,
        device: IntArray,
        rank: int | None,
        facts: dict[str, Any],
    ) -> tuple[LaunchedWork, pd.DataFrame]:
        stream = np.where(rows.ints("stream_id") < 0, rows.ints("queue_id"), rows.ints("stream_id"))
        correlation, where = rows.ints("correlation_id"), (device, np.maximum(stream, 0))
        return add_work(self._builder, rows, name, category, correlation, where, rank, facts)

    def _add_calls(self, calls: TableRows, rank: int | None, work: LaunchedWork) -> None:
        names, domains = _coded(calls, "function"), _coded(calls, "domain")
        kinds = np.array([*map(kind_of_region, domains.values), OPERATOR], np.int64)[domains.codes]
        numbers = calls.ints("correlation_id")
        source = positions(np.where(kinds == OPERATOR, numbers, -1), work.correlation)
        track = thread_tracks(self._builder, calls, rank)
        add_calls(self._builder, calls, track, names, kinds, source, work.handle, correlation=numbers)

    def _add_allocations(self, gpus: Any) -> None:
        rows = self.rows(ALLOCATIONS)
        frees = _marked_texts(rows, "operation", "FREE") | _marked_texts(rows, "operation", "RELEASE")
        columns = {
            "start": rows.ints("start"),
            "address": rows.ints("address"),
            "size": np.maximum(rows.ints("allocation_size"), 0),
        }
        add_allocations(self._builder, pd.DataFrame(columns), gpus(rows.ints("agent_id"), -1), frees)


def _put(processes: list[_Process], builder: TraceBuilder) -> None:
    with_gpu = [process for process in processes if len(process.rows(KERNELS))]
    for process in processes:
        process.put(with_gpu.index(process) if process in with_gpu and len(with_gpu) > 1 else None)
    if builder.is_empty:
        raise FormatError("the CSV files of rocprofv3 have no rows; record with rocprofv3 --runtime-trace")


def _coded(rows: TableRows, name: str) -> Coded:
    column = rows.texts(name)
    return column.coded() if column is not None else Coded(np.full(len(rows), -1, np.int64), [])


def _marked_texts(rows: TableRows, column: str, part: str) -> Any:
    return marked(_coded(rows, column), lambda text: part in text.upper())


# CSV of rocprofv3, whose columns are read like rocpd's.

_TEXTS: Final = frozenset({"kernel_name", "function", "domain", "direction", "operation", "agent_type"})
_SKIPPED: Final = frozenset({"kind", "guid", "address", "counter_name", "counter_value"})
_HEXADECIMAL: Final = re.compile(r"\s*(?:0[xX]0*)?([0-9a-fA-F]{1,16})\s*")


def read_csv(data: bytes, report: ImportReport) -> Any:
    """Return a file as Arrow's table, its columns in lower case, times as ``start`` and ``end``."""
    import pyarrow as pa

    line, _, content = data.partition(b"\n")
    names = header_names(line)
    lost: list[str] = []
    # what is told of a line must be text
    table = _table(names, content.decode(errors="replace").encode(), lost)
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(names):
        if name in _TEXTS:
            columns[name] = table.column(name)
        elif name == "address":
            columns[name] = pa.array(hexadecimal(table.column(name)))
        elif name not in _SKIPPED:
            columns[name] = _integers(table.column(name))
    rows = pa.table(columns)
    if "start" in names:
        rows = rows.filter(rows.column("start").is_valid())
        lost += [""] * (len(table) - len(rows))
    report.broken_rows(
        len(lost),
        next((text for text in lost if text), "a row without a time")[:80],
        advice="record again, or copy the file again",
    )
    return rows


def _table(names: list[str], content: bytes, lost: list[str]) -> Any:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    def skip(row: Any) -> str:
        lost.append(row.text or "a row with too few values")
        return "skip"

    own = list(dict.fromkeys(names))
    columns = [name if names.index(name) == i else f"{name} {i}" for i, name in enumerate(names)]
    read = arrow_csv.ReadOptions(column_names=columns, use_threads=False)
    parse = arrow_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip)
    types = dict.fromkeys(columns, pa.large_string())
    convert = arrow_csv.ConvertOptions(column_types=types, include_columns=own, strings_can_be_null=False)
    if not content.strip():
        return pa.table({name: pa.array([], pa.large_string()) for name in own})
    try:
        table = arrow_csv.read_csv(pa.BufferReader(content), read, parse, convert)
    except pa.ArrowInvalid as error:
        whole = content[: content.rstrip(b"\n").rfind(b"\n") + 1]
        if not whole or len(whole) == len(content):
            raise FormatError(f"the CSV cannot be parsed: {error}") from error
        lost.append(content[len(whole) :].decode(errors="replace"))
        return _table(names, whole, lost)
    return table


def _integers(column: Any) -> Any:
    """Return whole numbers; for texts like ``Agent 4``, the number at the end."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        digits = pc.struct_field(pc.extract_regex(column, r"(?P<n>\d{1,18})\s*$"), 0)
        return digits.cast(pa.int64())


def hexadecimal(column: Any) -> IntArray:
    """Return numbers written like ``0x7ffb`` as signed ones; 0 for other texts."""
    sound = (_HEXADECIMAL.fullmatch(text or "") for text in column.to_pylist())
    return np.array([int(match[1], 16) if match else 0 for match in sound], np.uint64).view(np.int64)


def _joined(parts: list[Any]) -> TableRows:
    """Return the rows of tables of one kind, in order."""
    import pyarrow as pa

    if not parts:
        return TableRows({}, 0)
    table = pa.concat_tables(parts, promote_options="default")
    columns: dict[str, Column] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        columns[name] = (
            Texts(column.combine_chunks()) if name in _TEXTS else column.fill_null(MISSING).to_numpy()
        )
    return TableRows(columns, len(table))
