"""py-spy, attached to this process: it samples from outside and need not wait for the interpreter.

One process of py-spy serves one recording, since it writes its file when it ends. It takes tens of
milliseconds to attach, so a notebook keeps a *warm* one (`keep_warm`), which is started by ``%load_ext`` and
after every recorded cell, and stopped when nothing was recorded for `IDLE_S`.

It writes to unnamed files, which the system removes when the last process with an open handle ends. It runs
in its own session, so Ctrl-C in the kernel does not reach it. When the kernel dies, py-spy notices and ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import sys
import sysconfig
import tempfile
import threading
import time
from typing import IO, Final

from ... import own_processes
from ..machine import is_free_threaded
from .thread_stacks import walk

RATES_HZ: Final = (100, 400)
"""The lowest and the highest initial sampling rate."""

FRAMES_PER_S: Final = 16_000
"""The rate is chosen so that this many frames are read per second, since that determines the cost of py-spy.
A notebook's kernel has ten threads with eighty idle frames. At this rate, py-spy takes 0.3 to 0.4 of a core
where a system call takes microseconds, and less elsewhere.
"""

IDLE_S: Final = 5.0
"""Time after which an unused warm py-spy is stopped, since it samples all the time."""

_OLDEST_S: Final = 10.0
"""Age above which a returned py-spy is ended, since its file holds every sample since its start."""

THREAD: Final = "notebook_prof py-spy"
_PR_GET_DUMPABLE: Final = 3
_CAP_SYS_PTRACE: Final = 19
_PR_SET_PTRACER: Final = 0x59616D61
_LONGEST_END_S: Final = 10.0
_NICE: Final = -5

_refused = ""
_alive: list[Attachment] = []
_warm: Attachment | None = None
_keeps_warm = False
_keeper: threading.Thread | None = None
_wake: threading.Event = threading.Event()
_lock: threading.Lock = threading.Lock()


def binary() -> str | None:
    """Return the path of the program; None if it is not installed."""
    script = os.path.join(sysconfig.get_path("scripts"), "py-spy")
    return script if os.access(script, os.X_OK) else shutil.which("py-spy")


def refusal() -> str:
    """Return why py-spy cannot be used in this process; empty if, as far as is known, it can."""
    if sys.platform != "linux":
        return "py-spy is used on Linux only"
    if _refused:
        return _refused
    if binary() is None:
        return "py-spy is not installed"
    if why := own_processes.refusal():
        return f"py-spy cannot be started beside this process: {why}"
    if is_free_threaded():
        return "py-spy cannot read a Python without a GIL"
    return _forbidden()


def first_rate_hz() -> int:
    """Return the first sampling rate, based on the number of frames to read per sample."""
    frames = sum(map(len, walk(time.time_ns).codes))
    return int(min(max(FRAMES_PER_S / max(frames, 1), RATES_HZ[0]), RATES_HZ[1]))


class Attachment:
    """A py-spy process. Making one starts it, in 40 ms; OSError if that fails."""

    def __init__(self, rate_hz: int) -> None:
        self.rate_hz, self.banner_ns, self.begun_s = rate_hz, 0, time.monotonic()
        self._owner = os.getpid()
        self._result: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed by kill)
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._process: own_processes.OwnProcess | None = None
        command = [binary() or "py-spy", "record", "--format", "chrometrace", "--rate", str(rate_hz)]
        command += ["--nonblocking", "--threads", "--idle", "--subprocesses", "--full-filenames"]
        command += ["--output", "/dev/fd/4", "--pid", str(self._owner)]
        own_processes.at_exit(_end_all)
        _alive.append(self)
        try:
            log = self._log.fileno()
            self._process = own_processes.start(command, log, log, self._result.fileno(), _allow)
        except BaseException:
            self.kill()
            raise
        with contextlib.suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _NICE)

    @property
    def pid(self) -> int:
        """Id of the py-spy process; 0 after its end."""
        return self._process.pid if self._process is not None else 0

    @property
    def interval_ns(self) -> int:
        """Time between two samples."""
        return round(1e9 / self.rate_hz)

    def is_sampling(self) -> bool:
        """Return whether py-spy has begun. If it has ended instead, it is never used again."""
        if not self.banner_ns:
            log = os.pread(self._log.fileno(), 1 << 16, 0).decode("utf-8", "replace")
            if "Sampling process" in log:  # the file tells when it was written
                age_ns = time.time_ns() - os.fstat(self._log.fileno()).st_mtime_ns
                self.banner_ns = time.perf_counter_ns() - max(age_ns, 0)
            elif not self.is_running():
                refuse(f"py-spy cannot attach to this process: {_reason(log)}")
        return self.banner_ns > 0

    def is_running(self) -> bool:
        return self._process is not None and self._process.is_running()

    def interrupt(self) -> None:
        """Make py-spy write its file and end, without waiting for that. Safe to repeat."""
        if self._process is not None and self._owner == os.getpid():
            self._process.send_signal(signal.SIGINT)

    def content(self, patience_s: float = 30.0) -> bytes:
        """Wait for the end of py-spy and return its file; empty if it was killed."""
        if self._process is None:
            return b""
        self._process.wait(patience_s)
        self._result.seek(0)
        return self._result.read()

    def kill(self) -> None:
        """End py-spy at once, without a file. Safe in every state, even in a forked child."""
        if self in _alive:
            _alive.remove(self)
        process, self._process = self._process, None
        if self._owner != os.getpid():
            return
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait(_LONGEST_END_S)
            process.close()
        self._result.close()
        self._log.close()


def refuse(why: str) -> None:
    """Stop using py-spy in this process."""
    global _refused
    _refused = why


def keep_warm() -> None:
    """Keep a warm py-spy from now on. Called by the notebook extension."""
    global _keeps_warm
    _keeps_warm = True
    prepare()


def is_kept_warm() -> bool:
    return _keeps_warm


def let_cool() -> None:
    """Stop keeping a warm py-spy, and end it. Safe in every state."""
    global _keeps_warm
    _keeps_warm = False
    _wake.set()
    if (one := take()) is not None:
        one.kill()


def prepare() -> None:
    """Start a warm py-spy if one should be kept and there is none. Never raises and never waits."""
    global _keeper, _wake
    is_kept = _keeper is not None and _keeper.is_alive() and not _wake.is_set()
    if not _keeps_warm or refusal() or is_kept:
        return
    _wake = threading.Event()
    _keeper = threading.Thread(target=_keep, args=(_wake,), name=THREAD, daemon=True)
    with contextlib.suppress(RuntimeError):  # no thread can start while the interpreter shuts down
        _keeper.start()


def take() -> Attachment | None:
    """Return the warm py-spy, which may still be attaching; None if there is none."""
    global _warm
    with _lock:
        one, _warm = _warm, None
        if one is not None:
            _wake.set()
    if one is not None and not one.is_running():
        one.kill()
        return None
    return one


def give_back(one: Attachment) -> bool:
    """Keep an unneeded py-spy warm for the next recording. Returns False if it cannot be kept."""
    global _keeper, _wake, _warm
    is_old = time.monotonic() - one.begun_s > _OLDEST_S
    with _lock:
        if not _keeps_warm or _warm is not None or is_old or not one.is_running():
            return False
        _warm, _wake = one, threading.Event()
        _keeper = threading.Thread(target=_cool, args=(one, _wake), name=THREAD, daemon=True)
    with contextlib.suppress(RuntimeError):
        _keeper.start()
    return True


def _keep(wake: threading.Event) -> None:
    """Start a py-spy, and end it if nobody takes it."""
    global _warm
    try:
        one = Attachment(first_rate_hz())
    except OSError as error:
        refuse(f"py-spy could not be started: {error}")
        return
    with _lock:
        # meanwhile, another thread may have warmed another py-spy
        is_wanted = _keeps_warm and _wake is wake and not wake.is_set()
        if is_wanted:
            _warm = one
    if is_wanted:
        _cool(one, wake)
    else:
        one.kill()


def _cool(one: Attachment, wake: threading.Event) -> None:
    """End a warm py-spy if nobody takes it."""
    global _warm
    wake.wait(IDLE_S)
    with _lock:
        # somebody took it; if it was given back since, another thread waits to end it
        if _warm is not one or _wake is not wake:
            return
        _warm = None
    one.kill()


def _allow(pid: int) -> None:
    """Allow a process to read this one where Yama would forbid that (``ptrace_scope`` 1)."""
    with contextlib.suppress(OSError, AttributeError):
        own_processes.libc().prctl(_PR_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)


def _forbidden() -> str:
    """Return why the system forbids other processes to read this one; empty if it seems to allow that."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as stream:
            status = dict(line.split(":", 1) for line in stream if ":" in line)
        may_have = "CapBnd" if os.geteuid() == 0 else "CapEff"
        if int(status[may_have], 16) >> _CAP_SYS_PTRACE & 1:
            return ""
        if own_processes.libc().prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0) != 1:
            return "no process may attach to this one: it is not dumpable, and there is no CAP_SYS_PTRACE"
    except (OSError, ValueError, KeyError, AttributeError):
        return ""
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", encoding="ascii") as stream:
            scope = int(stream.read())
    except (OSError, ValueError):
        return ""
    return f"kernel.yama.ptrace_scope is {scope}: no process may attach to this one" if scope > 1 else ""


def _reason(log: str) -> str:
    """Return why py-spy gave up, without the colour codes and source file names in its messages."""
    words = log.lower()
    if "denied" in words or "not permitted" in words:
        return "the system does not permit it (ptrace)"
    if "version" in words:
        return "it does not know this version of Python"
    return "it ended before its first sample"


def _end_all() -> None:
    for one in tuple(_alive):
        one.kill()


def _forget() -> None:
    """Forget everything in a forked child, which has neither its parent's threads nor its children."""
    global _lock, _warm
    _warm, _lock = None, threading.Lock()
    _alive.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
