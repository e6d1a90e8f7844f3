"""Processes that are invisible to the user's code: no SIGCHLD, nothing for ``os.wait()`` to return.

They are not children of this process. `pids` separates them from the user's.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import mmap
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

_CLONE_VM: Final = 0x100
_CLONE_VFORK: Final = 0x4000
_WALL: Final = 0x40000000
_STACK_BYTES: Final = 256 << 10
_PR_GET_CHILD_SUBREAPER: Final = 37
_START_S: Final = 30.0

_BEGIN: Final = """
import os, sys, _signal
os.setsid()
_signal.pthread_sigmask(_signal.SIG_SETMASK, ())
for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
    _signal.signal(number, _signal.SIG_DFL)
os.write(3, b".")
if os.read(0, 1):
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for file in os.listdir("/proc/self/fd"):
        if int(file) > 2 and file != "4":
            try:
                os.close(int(file))
            except OSError:
                pass
    os.execvp(sys.argv[1], sys.argv[1:])
"""
# A session of its own keeps the kernel's Ctrl-C away. Descriptors that the user made inheritable are closed.

_pids: deque[int] = deque(maxlen=100)  # older pids may belong to the user's processes by now
_cpu_ns = 0
_at_exit: list[Callable[[], object]] = []


def pids() -> frozenset[int]:
    """Return the pids of the last processes started here; recordings use them after the processes end."""
    return frozenset(_pids)


def reaped_cpu_ns() -> int:
    """Return the CPU time of our processes in ``RUSAGE_CHILDREN``."""
    return _cpu_ns


def at_exit(function: Callable[[], object]) -> None:
    """Call `function` once when this process ends, but not when a forked child does."""
    if function not in _at_exit:
        _at_exit.append(function)
        atexit.register(function)


def _forget_exit() -> None:
    while _at_exit:
        atexit.unregister(_at_exit.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_exit)


class OwnProcess:
    """A process that is not a child of this one, held by a pidfd (OSError before Linux 5.3)."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._file: int | None = os.pidfd_open(pid)

    def is_running(self) -> bool:
        """Return whether it has not ended."""
        return not self.wait(0)

    def wait(self, patience_s: float | None) -> bool:
        """Wait for the process to end. Returns whether it has."""
        return self._file is None or bool(_readable([self._file], patience_s))

    def send_signal(self, number: int) -> None:
        """Send a signal, if it has not ended."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._file, number)

    def fileno(self) -> int:
        """Return the descriptor, which becomes readable when the process ends; -1 when closed."""
        return -1 if self._file is None else self._file

    def close(self) -> None:
        """Close the descriptor; safe to repeat."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def refusal() -> str:
    """Return why no such process can be started here; empty if one can."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return "it needs Linux 5.3"
    if not sys.executable:
        return "Python does not know its own program"
    with contextlib.suppress(ValueError, OSError):
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        if name == "glibc" and tuple(map(int, version.split(".")[:2])) < (2, 29):
            return f"glibc {version} is older than 2.29"
    if os.getpid() == 1 or _is_subreaper():  # processes without a parent become its children
        return "this process adopts orphaned processes"
    return ""


def start(
    command: Sequence[str], output: int, errors: int, fourth: int, allow: Callable[[int], object] = id
) -> OwnProcess:
    """Start a program that is not a child of this process. Raises OSError on failure."""
    # `output`, `errors` and `fourth` become its file descriptors 1, 2 and 4; `allow` is called with its pid
    # before the program starts
    if why := refusal():
        raise OSError(why)
    files = [*os.pipe(), *os.pipe()]
    go, say_go, news, say_news = files
    try:
        here = f"/proc/{os.getpid()}/fd"  # opened there, so that no descriptor has to be inheritable
        begin = shlex.join([sys.executable, "-I", "-S", "-E", "-c", _BEGIN, *command])
        _run_in_shell(
            f"{begin} <{here}/{go} >>{here}/{output} 2>>{here}/{errors} 3>{here}/{say_news} "
            f"4>>{here}/{fourth} & echo $$ $! >{here}/{say_news}"
        )
        process = _wait_until_begun(news)
        try:
            allow(process.pid)
            os.write(say_go, b"g")
        except BaseException:
            process.close()
            raise
        return process
    finally:
        for file in files:
            os.close(file)


def run(command: Sequence[str], seconds: float | None = None) -> tuple[str, str] | None:
    """Return the output and errors of a program; None on a timeout. Raises OSError if it cannot start."""
    if refusal():
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False
            )
            return done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
        return None
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = start(command, output.fileno(), errors.fileno(), errors.fileno())
        try:
            if not process.wait(seconds):
                return None
        finally:
            process.send_signal(signal.SIGKILL)
            process.close()
        return output.read().decode("utf-8", "replace"), errors.read().decode("utf-8", "replace")


@functools.cache  # cached, since a loaded library is a reference cycle
def libc() -> ctypes.CDLL:
    """Return the C library of this process."""
    return ctypes.CDLL(None, use_errno=True)


def _run_in_shell(line: str) -> None:
    """Run a shell in a child that causes no SIGCHLD and that a plain ``wait()`` does not return."""
    # Such a child (`clone` without a signal at its end) becomes an ordinary one when it executes a program.
    # So it does not execute one itself, but calls the C library's ``system``, whose child does. It shares our
    # memory, as after ``vfork``: a signal in it would call this process's handlers, so all signals are
    # blocked.
    library = libc()
    library.clone.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p]
    with mmap.mmap(-1, _STACK_BYTES) as stack:
        bottom = ctypes.c_char.from_buffer(stack)
        top = (ctypes.addressof(bottom) + _STACK_BYTES - 64) & ~63
        try:
            before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                system = ctypes.cast(library.system, ctypes.c_void_p)
                pid = library.clone(system, top, _CLONE_VM | _CLONE_VFORK, line.encode())
                if pid < 0:
                    number = ctypes.get_errno()
                    raise OSError(number, os.strerror(number))
                _reap(pid)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        finally:
            del bottom


def _reap(pid: int) -> None:
    global _cpu_ns
    _pids.append(pid)
    with contextlib.suppress(ChildProcessError):  # another thread has waited for it, with __WALL
        used = os.wait4(pid, _WALL)[2]
        _cpu_ns += round((used.ru_utime + used.ru_stime) * 1e9)


def _wait_until_begun(news: int) -> OwnProcess:
    """Return the process once it has its own session and is waiting for permission."""
    os.set_blocking(news, False)
    said, process = b"", None
    until = time.monotonic() + _START_S
    while process is None or b"." not in said:
        with contextlib.suppress(BlockingIOError):
            said += os.read(news, 100)
        match = re.search(rb"(\d+) (\d+)\n", said)
        if match is None or time.monotonic() > until:
            raise OSError("the shell could not start it")
        if process is None:
            _pids.extend((int(match[1]), int(match[2])))
            process = OwnProcess(int(match[2]))
        if b"." not in said and _readable([news, process.fileno()], _START_S) == [process.fileno()]:
            process.close()
            raise OSError("it ended before the program started")
    return process


def _readable(files: Sequence[int], seconds: float | None) -> list[int]:
    poll = select.poll()  # select() knows no descriptor above 1023
    for file in files:
        poll.register(file, select.POLLIN)
    return [file for file, _ in poll.poll(None if seconds is None else seconds * 1000)]


def _is_subreaper() -> bool:
    answer = ctypes.c_int()
    with contextlib.suppress(OSError, AttributeError):
        libc().prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(answer), 0, 0, 0)
    return bool(answer.value)
