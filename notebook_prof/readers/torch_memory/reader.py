"""The reader of PyTorch's memory recordings."""

from __future__ import annotations

from typing import ClassVar

from ...errors import OptionError
from ...trace.builder import TraceBuilder
from ..base import Probe, Reader
from .plain_pickle import load_plain
from .snapshot import read_snapshot
from .timeline import looks_like_timeline, read_timeline

_KEYS = (b"segments", b"device_traces", b"segment_type")


class TorchMemoryReader(Reader):
    """Memory snapshots (``torch.cuda.memory._dump_snapshot``) and memory timelines of the profiler.

    Parameters
    ----------
    device : int
        Which device a timeline is about; snapshots say it themselves.
    """

    name: ClassVar[str] = "torch_memory"
    priority: ClassVar[int] = 700
    describes: ClassVar[str] = (
        "PyTorch memory: CUDA allocator snapshots (.pickle) and memory timelines (.json)"
    )

    def __init__(self, device: int = 0) -> None:
        self._device = device

    def configured(self, **options: object) -> TorchMemoryReader:
        """Return this reader for a timeline of another device: ``device=-1`` for the host."""
        device = options.pop("device", self._device)
        super().configured(**options)
        if not isinstance(device, int) or not -1 <= device < 2**15:
            raise OptionError(f"device={device!r}: the index of a device is needed, or -1 for the host")
        return TorchMemoryReader(device)

    def recognises(self, probe: Probe) -> bool:
        """Return whether this is a pickle with a snapshot's keys, or JSON that begins as a timeline does."""
        head = probe.head
        if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
            return any(key in head for key in _KEYS)
        return looks_like_timeline(head)

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        """Fill the builder; see `read_snapshot` and `read_timeline`."""
        if data[:1] == b"\x80":
            read_snapshot(load_plain(data), builder)
        else:
            read_timeline(data, builder, self._device)
