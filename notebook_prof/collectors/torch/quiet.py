"""Keep Kineto's own messages off the user's stderr, and everybody else's on it."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Final

_LOG_LEVEL: Final = "KINETO_LOG_LEVEL"
_SILENT: Final = "6"
_NOISE: Final = re.compile(
    rb"USDT:|STAGE:|Memory block of unknown size|ActivityProfiler|[Kk]ineto|CUPTI|profiler_(start|stop)"
)
_WARNS_EVERY: Final = 1000
"""The allocator warns of every thousandth free of a block that it does not know."""
_REHEARSALS: Final = 4
"""At most so many: blocks at addresses of those that outlived a recording before are known to it, once."""

_primed = False


@contextmanager
def quiet_stderr() -> Iterator[IO[bytes] | None]:
    """Hold back what is written to file descriptor 2; afterwards write on what is not Kineto's.

    Python's own `sys.stderr` is not touched; in a notebook it does not end in descriptor 2.

    Yields
    ------
    file or None
        Where the bytes go meanwhile; None where descriptor 2 is closed.
    """
    try:
        saved = os.dup(2)
    except OSError:
        yield None
        return
    with tempfile.TemporaryFile() as sink:
        os.dup2(sink.fileno(), 2)
        try:
            yield sink
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            sink.seek(0)
            for line in sink:
                if not _NOISE.search(line):
                    os.write(2, line)


def prime(torch: Any, *, memory: bool) -> None:
    """Make Kineto's first-time and thousandth-time messages come now, where nobody sees them.

    Kineto reads its log level when the process first profiles; the variable is set for that moment
    only. The memory profiler warns of the first and of every thousandth free of a block that it does
    not know: with `memory`, such blocks are freed here until it warns, so that the next 999 are quiet.

    Parameters
    ----------
    torch : module
    memory : bool
        The recording will watch allocations.
    """
    global _primed
    if _primed and not memory:
        return
    ours = _LOG_LEVEL not in os.environ
    if ours:
        os.environ[_LOG_LEVEL] = _SILENT
    try:
        with quiet_stderr() as sink:
            for _ in range(_REHEARSALS):
                if _rehearse(torch, sink, memory):
                    break
    finally:
        if ours:
            os.environ.pop(_LOG_LEVEL, None)
    _primed = True


def _rehearse(torch: Any, sink: IO[bytes] | None, memory: bool) -> bool:
    """Record nothing; gives whether the allocator has warned, where it was to."""
    blocks = [torch.empty(16) for _ in range(_WARNS_EVERY)] if memory else []
    rehearsal = torch.autograd.profiler.profile(use_kineto=True, profile_memory=memory)
    rehearsal._prepare_trace()
    rehearsal._start_trace()
    try:
        before = _size(sink)
        while blocks and _size(sink) == before:
            blocks.pop()
        return not memory or sink is None or _size(sink) > before
    finally:
        rehearsal.__exit__(None, None, None)


def _size(sink: IO[bytes] | None) -> int:
    return os.fstat(sink.fileno()).st_size if sink is not None else 0
