"""JAX and XLA: the planes in ``.xplane.pb``, or their copy in ``trace.json.gz``."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Final

from ...errors import FormatError
from ...readers.base import Folder, FolderReader, Probe
from ...readers.codec.protobuf import WireError, fields, varint
from ...trace.builder import TraceBuilder

_PLANE: Final = re.compile(
    rb"(?:/host:|/device:|Task Environment|#Chip|Megascale Trace|/task:|/custom:|/cupti)", re.I
)
_JSON: Final = re.compile(rb'"args":\s*\{\s*"name":\s*"/(?:host|device):[A-Za-z]')
_ENDING: Final = re.compile(r"(.+)\.(?:xplane\.pb|xplane\.riegeli|trace\.json\.gz|trace\.json)")
_RIEGELI: Final = bytes.fromhex("83af70d10d884a3f")
"""Signature of a Riegeli file."""
_SMALLER: Final = "record fewer steps, or open the .trace.json.gz beside it"


class JaxReader(FolderReader):
    """Reads ``*.xplane.pb`` and ``*.trace.json.gz`` of `jax.profiler`, or the folder around them."""

    # Of a log folder (`plugins/profile/<run>/`) the latest run is read, from the xplane files where there are
    # some; several hosts are ranks in the order of their names. TensorFlow and PyTorch/XLA write the same.
    name = "jax"
    priority = 630
    describes = "JAX and XLA: .xplane.pb and trace.json.gz of jax.profiler, or their log folder"

    def recognises(self, probe: Probe) -> bool:
        """Return whether the head is that of an XSpace, or of JSON whose processes are planes."""
        head = probe.head
        if head.startswith(_RIEGELI) or (not head and probe.path.name.endswith(".xplane.pb")):
            return True
        if head.lstrip()[:1] == b"{":
            return _JSON.search(head) is not None
        return _starts_with_plane(head)

    def recognises_folder(self, folder: Folder) -> bool:
        return any(
            name.endswith((".xplane.pb", ".xplane.riegeli"))
            or ("plugins/profile/" in f"/{name}" and _ENDING.fullmatch(name))
            for name in folder.names
        )

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        _add(data, None, builder)

    def read_folder(self, folder: Folder, builder: TraceBuilder) -> None:
        runs: dict[str, list[str]] = {}
        for name in folder.names:
            if _ENDING.fullmatch(name):
                runs.setdefault(str(PurePosixPath(name).parent), []).append(name)
        *older, latest = sorted(runs)
        effect = f"only the latest, {latest}, is read"
        advice = "open the folder of another run itself"
        builder.report.add("older-runs", "info", len(older), ", ".join(older[:3]), effect, advice)
        planes = [name for name in runs[latest] if name.endswith(".xplane.pb")]
        files = [name for name in planes if folder.head(name)]
        empty = [name for name in planes if name not in files]
        effect = "this host is missing or has less"
        builder.report.add("empty-file", "loss", len(empty), ", ".join(empty[:3]), effect, _SMALLER)
        if not files:
            # perfetto_trace.json.gz holds the same events again
            copies = [name for name in runs[latest] if name.endswith((".json", ".json.gz"))]
            files = [n for n in copies if not n.endswith("perfetto_trace.json.gz")] or copies or runs[latest]
        for rank, name in enumerate(files):
            _add(folder.read(name), rank if len(files) > 1 else None, builder)


def _add(data: bytes, rank: int | None, builder: TraceBuilder) -> None:
    from .assemble import assemble, read_space
    from .xplane import decode

    if not data:
        raise FormatError(f"the file is empty, as JAX leaves it if a profile exceeds 2 GB: {_SMALLER}")
    if data.startswith(_RIEGELI):
        raise FormatError(
            "it has Riegeli records, written by XProf's continuous profiling, which are not read: "
            "record with jax.profiler.trace, which writes .xplane.pb"
        )
    is_json = data.lstrip()[:1] in (b"{", b"[")
    space = read_space(data, builder.report) if is_json else decode(data, builder.report)
    assemble(space, builder, rank=rank)


def _starts_with_plane(head: bytes) -> bool:
    """Return whether the first field is a plane (1) that begins with an id (1) and a name (2)."""
    if head[:1] != b"\x0a":
        return False
    with suppress(WireError):
        size, at = varint(head, 1, len(head))
        for number, value in fields(head, (at, min(at + size, len(head)))):
            if number == 2 and isinstance(value, tuple):
                return _PLANE.match(head[slice(*value)]) is not None
            if number != 1:
                return False
    return False
