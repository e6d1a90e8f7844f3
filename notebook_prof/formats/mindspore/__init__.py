"""MindSpore and MindInsight: profiler folders of versions r0.5 to 2.10, and Ascend's msprof timelines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ...errors import FormatError, OptionError, nearest
from ...readers.base import Folder, FolderReader, Probe, Reader
from ...trace.builder import TraceBuilder
from .files import File, is_profile, kind_of, profile_files

_OPTIONS: Final = ("fp_point", "bp_point")


class MindSporeReader(FolderReader):
    """Reads a MindSpore profiler folder as one Trace, or a single file of it.

    >>> MindSporeReader().configured(fp="Conv2D-op1")
    Traceback (most recent call last):
    notebook_prof.errors.OptionError: no option 'fp' of the reader 'mindspore': choose from fp_point, bp_point
    """

    # Options: the operators that begin the forward and end the backward of a step.
    name = "mindspore"
    priority = 640
    describes = (
        "MindSpore and MindInsight profiler folders (CPU, GPU, Ascend), and Ascend msprof trace_view.json"
    )

    def __init__(self, points: Mapping[str, str] | None = None) -> None:
        self._points = dict(points or {})

    def configured(self, **options: object) -> Reader:
        """Return this reader with ``fp_point`` and ``bp_point`` set."""
        for key, value in options.items():
            if key not in _OPTIONS:
                known = nearest(key, _OPTIONS)
                raise OptionError(f"no option {key!r} of the reader 'mindspore': {known}")
            if value is not None and not isinstance(value, str):
                raise OptionError(f"{key} must be the name of an operator, not {value!r}")
        return MindSporeReader({key: str(value) for key, value in options.items() if value is not None})

    def recognises(self, probe: Probe) -> bool:
        """Return whether the head is that of one of the known files."""
        return kind_of(probe.head) is not None

    def recognises_folder(self, folder: Folder) -> bool:
        return is_profile(profile_files(folder.names))

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        """Add a single file to `builder`."""
        kind = kind_of(data[: 64 * 1024]) or ("trace_view" if data.lstrip().startswith(b"[") else None)
        if kind is None:
            raise FormatError(f"it is not a file of a MindSpore profile; it starts with {data[:40]!r}")
        self._read([File(kind, "")], lambda name: data, builder)

    def read_folder(self, folder: Folder, builder: TraceBuilder) -> None:
        files = profile_files(folder.names)
        files_by_part: dict[tuple[str, int, str], list[File]] = {}
        for file in files:
            files_by_part.setdefault((file.kind, file.rank, file.part), []).append(file)
        folders = [{file.folder for file in same} for same in files_by_part.values()]
        if apart := sorted(set().union(*(several for several in folders if len(several) > 1))):
            raise FormatError(
                f"there are several MindSpore profiles in it; open one of them: {', '.join(apart[:8])}"
                + (" …" if len(apart) > 8 else "")
            )
        used = [same[0] for same in files_by_part.values()]
        self._read(used, folder.read, builder)
        used_names = {file.name for file in used}
        others = [name for name in folder.names if name not in used_names]
        effect = "files that do not belong to a profile, or of an unknown kind"
        builder.report.add("file-not-used", "info", len(others), ", ".join(others[:3]), effect)

    def _read(self, files: list[File], content: Callable[[str], bytes], builder: TraceBuilder) -> None:
        from .ranks import Rank
        from .staging import Staging

        numbers = {file.rank for file in files if file.rank >= 0}
        # files without a number (msprof's of 2.2 and later) belong to the only rank
        lowest = min(numbers, default=0)
        staging = Staging(builder, numbered=bool(numbers), **self._points)
        for rank in sorted(numbers or {0}):
            own = {file.kind: file for file in files if (lowest if file.rank < 0 else file.rank) == rank}
            Rank(own, content, staging, rank).read()
        staging.pour()
        if not staging.used:
            raise FormatError("nothing in it can be read")
