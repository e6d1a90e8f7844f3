"""Opens files written by other runs and other profilers as Profiles."""

from __future__ import annotations

import os

from ..readers import read_trace
from .profile import Profile


def open_profile(
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    max_bytes: int | None = None,
    **options: object,
) -> Profile:
    """Read a trace file and make a Profile of it.

    Parameters
    ----------
    path : path
        A file in any of the formats in `notebook_prof.list_formats`, recognised by its content, not its name.
    format : str, optional
        Name of the format, to skip the recognition.
    max_bytes : int, optional
        Limit on the size of a decompressed file. By default 8 GiB, 300 times its size (at least 256 MiB) or
        the free memory, whichever is least.
    **options
        Options for the format's reader, as for `read_trace`.

    Returns
    -------
    Profile
        With the same analyses and views as a profiled cell.

    Raises
    ------
    FormatError
        If no reader recognises the content, the named one cannot read it, or it exceeds `max_bytes`.
    FileNotFoundError
        If the file does not exist.

    Examples
    --------
    >>> import json, tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "run.json"
    >>> event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5, "dur": 2}
    >>> _ = file.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [event]}))
    >>> open_profile(file).operators()["total_ns"].tolist()
    [2000]
    """
    return Profile(read_trace(path, format=format, max_bytes=max_bytes, **options))
