"""Starts the watcher, keeps one ready, and takes what it saw."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from .. import own_processes
from . import watcher
from .watcher import END, RECORD

START_S: Final = 0.1
"""How long a recording waits for a watcher that has to be started."""
_END_S: Final = 10.0
_SCRIPT: Final = Path(watcher.__file__)


class Connection:
    """A watcher process of this process, and the socket to it.

    Its process is no child of ours: ``os.wait()`` of the user's code does not meet it.
    """

    def __init__(self, root: str = "/proc") -> None:
        ours, theirs = socket.socketpair()
        ours.settimeout(None)
        self.socket = ours
        self.pid = os.getpid()
        command = [sys.executable, "-I", "-S", "-E", str(_SCRIPT), str(self.pid), root]
        try:
            with theirs:
                self._between = subprocess.Popen(
                    command,
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            own_processes.add(self._between.pid)
            with suppress(subprocess.TimeoutExpired):
                self.settle(START_S)
        except BaseException:
            ours.close()
            raise

    def settle(self, timeout: float) -> None:
        """Wait until the process between us and the watcher has gone."""
        if own_processes.reap(self._between, timeout):
            raise OSError(f"the watcher could not start: status {self._between.returncode}")

    def tell(self, command: bytes) -> None:
        """Send ``s`` or ``e``; OSError if nobody is there any more."""
        self.socket.send(command, getattr(socket, "MSG_NOSIGNAL", 0))

    def close(self) -> None:
        """Let the watcher end; safe to repeat."""
        self.socket.close()


class Spare:
    """At most one connection that waits for the next recording."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spare: Connection | None = None

    def prepare(self) -> None:
        """Start a watcher unless one waits; does nothing where that is impossible."""
        if self._spare is not None and self._alive(self._spare):
            return
        with suppress(OSError, ValueError, subprocess.SubprocessError):
            self.give(self._start())

    def take(self) -> Connection:
        """Return a connection for one recording.

        Raises
        ------
        OSError, ValueError, subprocess.SubprocessError
            If none can be started here.
        """
        with self._lock:
            kept, self._spare = self._spare, None
        if kept is not None:
            if self._alive(kept):
                return kept
            kept.close()
        return self._start()

    def give(self, connection: Connection) -> None:
        """Keep a connection that has done its work."""
        with self._lock:
            before, self._spare = self._spare, connection
        if before is not None:
            before.close()

    def drop(self) -> None:
        """Let the one that waits end."""
        with self._lock:
            kept, self._spare = self._spare, None
        if kept is not None:
            kept.close()

    def forget(self) -> None:
        """Forget, in a forked child, the one that waits: it belongs to our parent."""
        self._lock = threading.Lock()
        kept, self._spare = self._spare, None
        if kept is not None:
            kept.close()

    @staticmethod
    def _start() -> Connection:
        if not sys.executable or not os.path.isfile("/proc/self/statm"):
            raise OSError("this system has no /proc, or Python does not know its own program")
        return Connection()

    @staticmethod
    def _alive(connection: Connection) -> bool:
        if connection.pid != os.getpid():
            return False  # after a fork: it watches our parent
        try:
            return bool(connection.socket.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK))
        except BlockingIOError:
            return True
        except OSError:
            return False


spare: Final = Spare()
"""Of this process."""


class Recorded(threading.Thread):
    """Takes the records of one recording as they come; sleeps in between.

    Parameters
    ----------
    connection : Connection
    on_news : callable
        Called when a thread or child of the process was seen for the first time.
    on_loss : callable
        Called in this thread if the watcher has died before its end.
    """

    def __init__(
        self, connection: Connection, on_news: Callable[[], object], on_loss: Callable[[], object]
    ) -> None:
        super().__init__(name="notebook_prof system", daemon=True)
        self._connection, self._on_news, self._on_loss = connection, on_news, on_loss
        self.data = bytearray()
        self.lost = False
        self._end_requested = False

    def begin(self) -> None:
        """Tell the watcher to start."""
        self._connection.tell(b"s")
        self.start()

    def end(self) -> None:
        """Tell the watcher to end; the thread ends when all has come."""
        self._end_requested = True
        with suppress(OSError):
            self._connection.tell(b"e")

    def run(self) -> None:
        """Receive until the last record."""
        checked_to, size = 0, RECORD.size
        with suppress(OSError, subprocess.SubprocessError):
            self._connection.settle(_END_S)
        while True:
            try:
                part = self._connection.socket.recv(2**18)
            except OSError:
                part = b""
            if not part:
                break
            self.data += part
            whole = len(self.data) // size * size
            kinds = {self.data[at] for at in range(checked_to, whole, size)}
            checked_to = whole
            if watcher.NAME in kinds:
                self._on_news()
            if END in kinds:
                spare.give(self._connection)
                return
        self.lost = True
        self._connection.close()
        if not self._end_requested:
            self._on_loss()

    def wait(self) -> None:
        """Wait until all has come, for two seconds at most."""
        if self.ident is None:
            self._connection.close()
            return
        self.join(_END_S)
        if self.is_alive():  # it hangs: a closed socket ends both
            with suppress(OSError):
                self._connection.socket.shutdown(socket.SHUT_RDWR)
            self.join(_END_S)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=spare.forget)
