"""The bounded store of activity buffers, and the two callbacks through which CUPTI uses it."""

from __future__ import annotations

import _thread
import signal
import threading
from typing import Any, Final

import numpy as np

from .library import CompleteCallback, RequestCallback
from .walk import WORD, Words

BUFFER_BYTES: Final = 4 << 20
"""NVIDIA advises 1 to 10 MB: fewer calls back; pages that stay empty take no memory."""
MOST_BYTES: Final = 1 << 30
"""About seven million records."""

AGAIN_S: Final = 0.02
"""After which an interrupt that arrived inside a callback is raised again: the callback is over then."""


class Buffers:
    """Hands out empty buffers until a bound, and keeps what comes back.

    CUPTI calls from the program's threads and from its own; both calls only touch a few Python objects
    under one lock, and nothing of CUPTI's or CUDA's is called while it is held.

    Parameters
    ----------
    buffer_bytes, most_bytes : int

    Attributes
    ----------
    refused : int
        Requests that met the bound; CUPTI drops records then, and counts them.
    failed : int
        Callbacks that ended in an exception, which may not leave them.
    """

    def __init__(self, buffer_bytes: int = BUFFER_BYTES, most_bytes: int = MOST_BYTES) -> None:
        self._words = buffer_bytes // WORD
        self._left = most_bytes // buffer_bytes
        self._lock = threading.RLock()  # a signal handler may launch work inside of it
        self._out: dict[int, Words] = {}
        self._back: list[Words] = []
        self.refused = 0
        self.failed = 0

    def request(self) -> tuple[int, int]:
        """Address and bytes of an empty buffer; (0, 0) at the bound."""
        with self._lock:
            if self._left <= 0:
                self.refused += 1
                return 0, 0
            self._left -= 1
        buffer = np.empty(self._words, np.uint64)
        address = int(buffer.ctypes.data)
        with self._lock:
            self._out[address] = buffer
        return address, self._words * WORD

    def complete(self, address: int, valid_bytes: int) -> None:
        """Take a buffer back; one that holds nothing can be handed out again."""
        with self._lock:
            buffer = self._out.pop(address, None)
            if buffer is None:
                return
            if valid_bytes:
                self._back.append(buffer[: valid_bytes // WORD])
            else:
                self._left += 1

    def take(self) -> list[Words]:
        """Everything that came back, in order of arrival; nothing stays here."""
        with self._lock:
            back, self._back = self._back, []
        return back

    @property
    def outstanding(self) -> int:
        """Buffers that CUPTI still has."""
        with self._lock:
            return len(self._out)


class Desk:
    """The two C callbacks, made once a process and never freed: CUPTI keeps their addresses.

    Between recordings `buffers` is None, and requests are declined. Exceptions end here: one that left a
    callback would be printed into the user's cell.
    """

    def __init__(self) -> None:
        self.buffers: Buffers | None = None
        self.request = RequestCallback(self._request)
        self.complete = CompleteCallback(self._complete)

    def _request(self, buffer: Any, size: Any, most: Any) -> None:
        address, room = 0, 0
        buffers = self.buffers
        try:
            if buffers is not None:
                address, room = buffers.request()
        except BaseException as error:
            _keep(error, buffers)
        buffer[0], size[0], most[0] = address or None, room, 0

    def _complete(self, context: Any, stream: int, buffer: Any, size: int, valid: int) -> None:
        buffers = self.buffers
        try:
            if buffers is not None and buffer:
                buffers.complete(buffer, valid)
        except BaseException as error:
            _keep(error, buffers)


def _keep(error: BaseException, buffers: Buffers | None) -> None:
    """Count what may not leave a callback; an interrupt is the user's, and comes again outside."""
    if buffers is not None:
        buffers.failed += 1
    if isinstance(error, KeyboardInterrupt):
        again = threading.Timer(AGAIN_S, _interrupt)
        again.daemon = True
        again.start()


def _interrupt() -> None:
    """A real signal, which also ends waiting."""
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, signal.SIGINT)
    else:
        _thread.interrupt_main()


DESK: Final = Desk()
