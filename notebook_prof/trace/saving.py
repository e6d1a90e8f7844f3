"""The writers of a Trace, found as entry points since they belong to a higher layer."""

from __future__ import annotations

import os
from typing import Any, Final

from .. import extensions
from ..errors import OptionError, nearest

SUFFIXES: Final = {
    ".nbprof": "native",
    ".nbprof.zip": "native",
    ".zip": "native",
    ".json": "chrome",
    ".json.gz": "chrome",
    ".pftrace": "perfetto",
    ".pftrace.gz": "perfetto",
    ".perfetto-trace": "perfetto",
}
"""Format by suffix. A name without a suffix means a native folder."""


def writer(format: str) -> Any:
    """Return the writer with this name, a function of a Trace and a path; OptionError if there is none."""
    writers = extensions.points("writers")
    if not writers:
        raise OptionError("no writers are registered: notebook_prof is not installed; pip install it again")
    if format not in writers:
        raise OptionError(f"no writer {format!r}: {nearest(format, writers)}")
    return writers[format].load()


def format_of(path: str | os.PathLike[str], *also: str) -> str:
    """Return the writer's name for a file's suffix. Others raise OptionError, which also lists `also`."""
    name = os.path.basename(os.fspath(path).rstrip("/\\"))
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if name.endswith(suffix):
            return SUFFIXES[suffix]
    if name and not os.path.splitext(name)[1]:
        return "native"
    endings = ", ".join([".nbprof", ".nbprof.zip", ".json", ".json.gz", ".pftrace", ".pftrace.gz", *also])
    raise OptionError(f"{name!r} has no suffix of a known format: end it with {endings}")
