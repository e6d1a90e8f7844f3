"""Profiles of files that other runs and other profilers left behind."""

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
        A file in any format that `notebook_prof.list_formats` lists; told by its content, not its name.
    format : str, optional
        Name of the format, to skip the guessing.
    max_bytes : int, optional
        How large a compressed file may become. When not given: 8 GiB, 300 times its size (or 256 MiB) or the
        free memory, whichever is least.
    **options
        What the format's reader takes, as for `read_trace`.

    Returns
    -------
    Profile
        With the same analyses and views as a profiled cell.

    Raises
    ------
    FormatError
        If no reader knows the content, the named one cannot read it, or it becomes larger than `max_bytes`.
    FileNotFoundError
        If there is no such file.

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
