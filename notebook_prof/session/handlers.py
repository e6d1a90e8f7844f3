"""Handlers for ``on_trace_ready`` that name their files like those of PyTorch and Paddle."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from ..errors import OptionError
from ..profiles.profile import Profile

TraceHandler = Callable[[Profile], None]


def tensorboard_trace_handler(
    dir_name: str | os.PathLike[str], worker_name: str | None = None, use_gzip: bool = False
) -> TraceHandler:
    """Make an ``on_trace_ready`` that writes each cycle like PyTorch's handler of this name.

    Parameters
    ----------
    dir_name : path
        Folder for the files; created if missing.
    worker_name : str, optional
        Start of the file names; ``<host>_<pid>`` by default.
    use_gzip : bool
        Compress the files.

    Returns
    -------
    callable
        Takes a Profile and writes ``<worker>.<time in ns>.pt.trace.json``, with ``.gz`` if compressed: a
        Chrome trace in PyTorch's dialect, which TensorBoard, Perfetto and `open_profile` open.

    Raises
    ------
    OptionError
        If the folder cannot be created, or `worker_name` is not a plain name.

    Examples
    --------
    >>> import tempfile
    >>> from notebook_prof import profile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with profile("python", on_trace_ready=tensorboard_trace_handler(folder, "worker0")):
    ...     total = sum(range(10))
    >>> [file.name.split(".")[0] for file in folder.glob("*.pt.trace.json")]
    ['worker0']
    """
    ending = ".pt.trace.json.gz" if use_gzip else ".pt.trace.json"
    return _writer(dir_name, worker_name, "{host}_{pid}", lambda worker: f"{worker}.{time.time_ns()}{ending}")


def export_chrome_tracing(dir_name: str | os.PathLike[str], worker_name: str | None = None) -> TraceHandler:
    """Make an ``on_trace_ready`` that writes each cycle, with Paddle's file names.

    Parameters
    ----------
    dir_name : path
        Folder for the files; created if missing.
    worker_name : str, optional
        Start of the file names; Paddle's ``host_<host>pid_<pid>`` by default.

    Returns
    -------
    callable
        Takes a Profile and writes ``<worker>_time_<YYYY_MM_DD_HH_MM_SS_ffffff>.paddle_trace.json``. The name
        is Paddle's; the content is the Chrome trace of ``trace.to_chrome``, for Perfetto and `open_profile`,
        not the Paddle dialect that VisualDL reads.

    Raises
    ------
    OptionError
        If the folder cannot be created, or `worker_name` is not a plain name.

    Notes
    -----
    After ``paddle.profiler.export_chrome_tracing``
    (https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/profiler/export_chrome_tracing_en.html).

    Examples
    --------
    >>> import tempfile
    >>> from notebook_prof import profile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with profile("python", on_trace_ready=export_chrome_tracing(folder, "worker0")):
    ...     total = sum(range(10))
    >>> [file.name[:13] for file in folder.glob("*.paddle_trace.json")]
    ['worker0_time_']
    """

    def name(worker: str) -> str:
        return f"{worker}_time_{datetime.now():%Y_%m_%d_%H_%M_%S_%f}.paddle_trace.json"

    return _writer(dir_name, worker_name, "host_{host}pid_{pid}", name)


def _writer(
    dir_name: str | os.PathLike[str], worker_name: str | None, otherwise: str, name: Callable[[str], str]
) -> TraceHandler:
    """Return a function that writes Profiles into a folder; `name` makes a file's name from the worker's."""
    folder, worker = Path(dir_name), worker_name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(
            f"the folder {str(folder)!r} for traces cannot be made: {error.strerror}"
        ) from error
    if worker is not None and (not worker or worker != os.path.basename(worker) or worker in (".", "..")):
        raise OptionError(f"{worker_name=}: it must be the start of a file name, without a folder")

    def write(profile: Profile) -> None:
        # made here, since a fork has another process id
        start = worker or otherwise.format(host=socket.gethostname(), pid=os.getpid())
        path = folder / name(start)
        while path.exists():  # two cycles may end within one tick of the clock
            path = folder / name(start)
        profile.trace.to_chrome(path)

    return write
