"""PyTorch's files other than Kineto's traces: of memory, compilations and operators; and its table."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ...errors import OptionError
from ...readers.base import Folder, FolderReader, PiecesReader, Probe, Reader, pieces_of
from ...readers.codec.protobuf import WireError, fields, varint
from ...trace.builder import TraceBuilder

_KEYS: Final = (b"segments", b"device_traces", b"segment_type")
_TIMELINE: Final = re.compile(
    rb"\[\s*\[\s*(?:(?:-1|\d{13,24})\s*,\s*[1-4]\s*,\s*-?\d{1,16}\s*,\s*[0-7]\s*\]"
    rb"|\d{13,17}(?:\s*,\s*\d{13,17})*\s*(?:\]|(?:,\s*\d*)?\Z))"
)
"""The first event of a memory timeline (time, action, bytes, category), or the first times of its levels."""
_LOG: Final = re.compile(rb'[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ (\d+) [^\]\n]*\] \{"')
_TORCH: Final = (re.compile(rb'"schema"\s*:\s*"\d'), re.compile(rb'"nodes"\s*:\s*\['))
_WORKLOAD: Final = re.compile(rb'"workload_graph"\s*:\s*\[')


class TorchMemoryReader(Reader):
    """Reads memory snapshots (``torch.cuda.memory._dump_snapshot``) and the profiler's memory timelines."""

    name = "torch_memory"
    priority = 700
    describes = "PyTorch memory: CUDA allocator snapshots (.pickle) and memory timelines (.json)"

    def __init__(self, device: int = 0) -> None:
        # of a timeline; snapshots contain it themselves
        self._device = device

    def configured(self, **options: object) -> TorchMemoryReader:
        """Return this reader for a timeline of another device: ``device=-1`` for the host."""
        device = options.pop("device", self._device)
        super().configured(**options)
        if not isinstance(device, int) or not -1 <= device < 2**15:
            raise OptionError(f"device={device!r}: the index of a device is needed, or -1 for the host")
        return TorchMemoryReader(device)

    def recognises(self, probe: Probe) -> bool:
        head = probe.head
        if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
            return any(key in head for key in _KEYS)
        return _TIMELINE.match(head.lstrip()[:400]) is not None

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        """Fill the builder; see `read_snapshot` and `read_timeline`."""
        if data[:1] == b"\x80":
            from .memory_snapshot import read_snapshot
            from .memory_timeline import load_plain

            read_snapshot(load_plain(data), builder)
        else:
            from .memory_timeline import read_timeline

            read_timeline(data, builder, self._device)


class TorchCompileReader(PiecesReader, FolderReader):
    """Reads a folder named by ``TORCH_TRACE``, or a single log from it, which belongs to one process."""

    # The work of TorchDynamo, AOTAutograd and Inductor is on one track per process. The table of compilations
    # is the same as in a live recording. Graphs and generated code, which tlparse shows, are left out.
    name = "torch_compile"
    priority = 710
    describes = "PyTorch's structured trace of compilations (TORCH_TRACE), a log or their folder"

    def recognises(self, probe: Probe) -> bool:
        """Return whether the head is a line from such a log."""
        return _LOG.match(probe.head) is not None

    def recognises_folder(self, folder: Folder) -> bool:
        return any(_LOG.match(folder.head(name)) for name in _logs(folder))

    def read_pieces(self, pieces: Iterable[bytes], builder: TraceBuilder) -> None:
        from .compile_log import read_logs

        read_logs([pieces], builder)

    def read_folder(self, folder: Folder, builder: TraceBuilder) -> None:
        from .compile_log import read_logs

        logs = (name for name in _logs(folder) if _LOG.match(folder.head(name)))
        read_logs((pieces_of(folder.read(name)) for name in logs), builder)


def _logs(folder: Folder) -> list[str]:
    return [name for name in folder.names if name.rpartition("/")[2].partition(".")[2].startswith("log")]


class ExecutionTraceReader(Reader):
    """Reads Chakra's ``.et`` and its JSON, and PyTorch's ``ExecutionTraceObserver``."""

    # Chakra's nodes have durations and dependencies, and are drawn on lanes. PyTorch's file contains which
    # operator called which, with which tensors, but no durations, so it becomes a table,
    # `metadata["tables"]["execution_graph"]`.
    name = "execution_trace"
    priority = 605
    describes = "execution traces: Chakra (.et, JSON), PyTorch's ExecutionTraceObserver"

    def recognises(self, probe: Probe) -> bool:
        head = probe.head
        if head.lstrip()[:1] == b"{":
            return _WORKLOAD.search(head) is not None or all(mark.search(head) for mark in _TORCH)
        return _is_chakra(head)

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        from .execution_trace import add_graph, chakra, read_torch, workload

        if data.lstrip()[:1] != b"{":
            add_graph(chakra(data, builder.report), builder)
        elif _WORKLOAD.search(data) is not None:
            add_graph(workload(data), builder)
        else:
            read_torch(data, builder)


def _is_chakra(head: bytes) -> bool:
    """Return whether a message of texts is followed by a node, each preceded by its length."""
    try:
        size, at = varint(head, 0, min(len(head), 10))
        if not 0 < size <= len(head) - at:
            return False
        first = list(fields(head, (at, at + size)))
        if not first or any(number > 2 or isinstance(value, int) for number, value in first):
            return False
        size, begin = varint(head, at + size, len(head))
        number, value = next(fields(head, (begin, min(begin + size, len(head)))))
    except (WireError, StopIteration):
        return False
    return number == 1 and isinstance(value, int)
