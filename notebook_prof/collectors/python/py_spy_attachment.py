"""py-spy, attached to this process: it samples from outside and need not wait for the interpreter.

One process of py-spy serves one recording, since it writes its file when it ends. It takes tens of
milliseconds to attach, so a notebook keeps a *warm* one (`keep_warm`), which is started by ``%load_ext`` and
after every recorded cell, and stopped when nothing was recorded for `IDLE_S`. Without a warm one, a recording
first starts one and waits for at most `PATIENCE_S`.

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
from collections.abc import Callable
from typing import IO, Final

from ... import own_processes
from ..machine import is_free_threaded
from .py_spy_file import Heartbeat
from .thread_stacks import walk

RATES_HZ: Final = (100, 400)
"""The lowest and the highest initial sampling rate."""

FRAMES_PER_S: Final = 16_000
"""The rate is chosen so that this many frames are read per second, since that determines the cost of py-spy.
A notebook's kernel has ten threads with eighty idle frames. At this rate, py-spy takes 0.3 to 0.4 of a core
where a system call takes microseconds, and less elsewhere.
"""

FRAMES_OF_A_THREAD: Final = 6

PATIENCE_S: Final = 0.15
"""How long a recording waits for py-spy before it begins without it."""

IDLE_S: Final = 5.0
"""Time after which an unused warm py-spy is stopped, since it samples all the time, and starting one takes
only 40 ms."""

THREAD: Final = "notebook_prof py-spy"
_PR_GET_DUMPABLE: Final = 3
_CAP_SYS_PTRACE: Final = 19
_PR_SET_PTRACER: Final = 0x59616D61
_LONGEST_START_S: Final = 30.0
_LONGEST_END_S: Final = 10.0
_POLL_S: Final = 0.003
_NICE: Final = -5

_refused = ""
_warm: Attachment | None = None
_keeps_warm = False
_alive: list[Attachment] = []


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
    """A py-spy process and the thread that watches it."""

    def __init__(self, rate_hz: int = 0) -> None:
        self.rate_hz = rate_hz = rate_hz or first_rate_hz()
        self.heartbeat = Heartbeat(1 / rate_hz)
        self.banner_ns = 0
        self._settled = threading.Event()
        self._wake = threading.Event()
        self._quit = threading.Event()
        self._watching: Callable[[], object] | None = None
        self._died: Callable[[], object] | None = None
        self._owner = os.getpid()
        self._result: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed by kill)
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._process: own_processes.Process | None = None
        self._lock = threading.Lock()
        self._starting = True
        self._thread = threading.Thread(target=self._run, name=THREAD, daemon=True)

    @classmethod
    def launch(cls, rate_hz: int = 0) -> Attachment:
        """Start a py-spy process without waiting for it."""
        own_processes.at_exit(_end_all)
        one = cls(rate_hz)
        _alive.append(one)
        try:
            one._thread.start()
        except RuntimeError as error:  # no thread can start while the interpreter shuts down
            one.kill()
            raise OSError(str(error)) from error
        return one

    @property
    def pid(self) -> int:
        """Id of the py-spy process; 0 before it is started."""
        return self._process.pid if self._process is not None else 0

    @property
    def thread_ids(self) -> tuple[int, int]:
        """The watching thread's number in the operating system, and its identifier in Python."""
        return self._thread.native_id or 0, self._thread.ident or 0

    @property
    def interval_ns(self) -> int:
        """Time between two samples."""
        return round(1e9 / self.rate_hz)

    def ready(self, patience_s: float = 0.0) -> bool:
        """Return whether py-spy is sampling already. Waits up to `patience_s`."""
        self._settled.wait(patience_s)
        return self.banner_ns > 0 and self.is_running()

    def is_running(self) -> bool:
        """Return whether the process is about to start, or has not ended."""
        process = self._process
        return self._thread.is_alive() if process is None else process.is_running()

    def watch(self, each_beat: Callable[[], object], died: Callable[[], object]) -> None:
        """Start a recording, in which the watching thread calls `each_beat` many times a second."""
        # `died` is called if py-spy ends early
        self._watching, self._died = each_beat, died
        self.heartbeat.again()
        self._wake.set()

    def interrupt(self) -> None:
        """Make py-spy write its file and end, without waiting for that. Safe to repeat."""
        self._watching = self._died = None  # otherwise they would keep an old recording alive
        self._quit.set()
        self._wake.set()
        if self._process is not None and self._owner == os.getpid():
            self._process.send_signal(signal.SIGINT)

    def content(self, patience_s: float = 30.0) -> bytes:
        """Wait for the end of py-spy and return its file; empty if it was killed."""
        if self._process is None:
            return b""
        self._process.wait(patience_s)
        self._join()
        self._result.seek(0)
        return self._result.read()

    def kill(self) -> None:
        """End py-spy at once, without a file. Safe in every state, even in a forked child."""
        self._quit.set()
        self._wake.set()
        if self in _alive:
            _alive.remove(self)
        if self._owner != os.getpid():
            return
        with self._lock:
            if self._starting and self._thread.is_alive():
                return  # its thread ends it, since starting takes a while, and this must not block
            process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait(_LONGEST_END_S)
            process.close()
        self._join()
        self._result.close()
        self._log.close()

    def _start(self) -> bool:
        """Start the process, in the watching thread. Returns whether it was started and is still needed."""
        command = [binary() or "py-spy", "record", "--format", "chrometrace", "--rate", str(self.rate_hz)]
        command += ["--nonblocking", "--threads", "--idle", "--subprocesses", "--full-filenames"]
        command += ["--output", "/dev/fd/4", "--pid", str(self._owner)]
        log = self._log.fileno()
        process: own_processes.Process | None = None
        try:
            process = own_processes.start(command, log, log, self._result.fileno(), _allow)
            with contextlib.suppress(OSError, AttributeError):
                os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
        except OSError as error:
            _refuse(f"py-spy could not be started: {error}")
        with self._lock:
            self._process, self._starting = process, False
            return process is not None and not self._quit.is_set()

    def _join(self) -> None:
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(_LONGEST_END_S)  # called by garbage collection too, so it must not block

    def _run(self) -> None:
        try:
            if not self._start():
                self.kill()
                return
            if not self._attach():
                return
            while not self._quit.is_set() and (self._watching is not None or self.heartbeat.quick):
                if not self._beat():
                    return
            while not self._wake.wait(IDLE_S):
                if self._watching is None:
                    _let_go(self)
                    return
            while not self._quit.is_set() and self._beat():
                pass
        finally:
            self._settled.set()

    def _attach(self) -> bool:
        """Wait for py-spy's banner. If py-spy ends without one, remember why, and never use it again."""
        until = time.monotonic() + _LONGEST_START_S
        while not self._quit.is_set() and time.monotonic() < until:
            if "Sampling process" in self._log_text():
                self.banner_ns = time.perf_counter_ns()
                self._settled.set()
                return True
            if not self.is_running():
                if not self._quit.is_set():
                    _refuse(f"py-spy cannot look at this process: {_reason(self._log_text())}")
                return False
            self._quit.wait(_POLL_S)
        return False

    def _log_text(self) -> str:
        return os.pread(self._log.fileno(), 1 << 16, 0).decode("utf-8", "replace")

    def _beat(self) -> bool:
        """Make one beat. Returns whether to continue."""
        self.heartbeat.wait(self._quit)
        watching, died = self._watching, self._died
        if self._quit.is_set():
            return False
        if watching is not None:
            watching()
        if self._quit.is_set() or self.is_running():
            return not self._quit.is_set()
        if died is not None:
            died()
        return False


def keep_warm() -> None:
    """Keep a warm py-spy from now on. Called by the notebook extension."""
    global _keeps_warm
    _keeps_warm = True
    prepare()


def prepare() -> None:
    """Start a warm py-spy if one should be kept and there is none. Never raises and never waits."""
    global _warm
    if not _keeps_warm or refusal() or (_warm is not None and _warm.is_running()):
        return
    ended, _warm = _warm, None
    try:
        if ended is not None:
            ended.kill()  # nothing else would release its files and its watching thread
        _warm = Attachment.launch()
    except OSError as error:
        _refuse(f"py-spy could not be started: {error}")


def let_cool() -> None:
    """Stop keeping a warm py-spy, and end it. Safe in every state."""
    global _keeps_warm, _warm
    _keeps_warm = False
    one, _warm = _warm, None
    if one is not None:
        one.kill()


def take() -> Attachment | None:
    """Return the warm py-spy, otherwise a new one; None if py-spy is unusable or too slow."""
    # a py-spy that is too slow to start becomes the warm one for the next recording
    global _warm
    one, _warm = _warm, None
    if refusal():
        return None
    if one is not None and not (one.is_running() and one._owner == os.getpid()):
        one.kill()
        one = None
    try:
        one = one if one is not None else Attachment.launch()
    except OSError as error:
        _refuse(f"py-spy could not be started: {error}")
        return None
    try:
        if one.ready(PATIENCE_S):
            return one
    except BaseException:
        one.kill()
        raise
    if _keeps_warm and one.is_running():
        _warm = one
    else:
        one.kill()
    return None


def _let_go(one: Attachment) -> None:
    """End an unused py-spy. Called in its watching thread."""
    global _warm
    if _warm is one:
        _warm = None
    one.kill()


def _refuse(why: str) -> None:
    global _refused
    _refused = why


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
            return "no process may look at this one: it is not dumpable, and there is no CAP_SYS_PTRACE"
    except (OSError, ValueError, KeyError, AttributeError):
        return ""
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", encoding="ascii") as stream:
            scope = int(stream.read())
    except (OSError, ValueError):
        return ""
    return f"kernel.yama.ptrace_scope is {scope}: no process may look at this one" if scope > 1 else ""


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
    global _warm
    _warm = None
    _alive.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
