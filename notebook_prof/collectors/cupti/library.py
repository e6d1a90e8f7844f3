"""A typed binding over libcupti: the few calls that recording activity takes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

from ...errors import RecordingError
from .layouts import EITHER, STRUCTS, release, sizes

_ApiCallback: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)
_nothing: Final = _ApiCallback(lambda *arguments: None)
"""The subscriber's callback: no domain is ever enabled, so it is never called."""

RUNTIME_API, DRIVER_API = 2, 1
_NO_MORE_RECORDS: Final = 12
_FORCED: Final = 1
_SYSTEM_THREADS: Final = 1

SENTENCES: Final = {
    15: "CUPTI cannot be initialised: there is no NVIDIA driver that it can use, or its driver is too old",
    27: "this driver or card does not support it",
    33: "the virtual GPU of this machine does not let CUPTI record",
    35: "the driver lets only administrators profile: see https://developer.nvidia.com/CUPTI_ERROR_"
    "INSUFFICIENT_PRIVILEGES, or start the container with --cap-add=SYS_ADMIN",
    39: "another CUPTI client is in this process (Nsight, torch.profiler, jax.profiler): end it first",
    40: "the virtual GPU's host does not let CUPTI record",
    41: "CUPTI does not record in confidential computing mode",
    42: "CUPTI does not record on this mining card",
    43: "CUPTI does not record on this MIG slice",
    44: "CUPTI does not record on SLI",
    45: "CUPTI does not record under WSL with this driver",
    999: "CUPTI fails without saying why: usually there is no NVIDIA driver that it can use",
}
"""What to say for CUPTI's results; source of the numbers: ``cupti_result.h``."""


class CuptiError(RecordingError):
    """A call of CUPTI failed; `code` is its result."""

    def __init__(self, doing: str, code: int, name: str) -> None:
        reason = SENTENCES.get(code, "see the table of results in NVIDIA's documentation of CUPTI")
        super().__init__(f"CUPTI could not {doing} ({name or 'result'} {code}): {reason}")
        self.code = code


class Cupti:
    """One loaded libcupti, whose record layouts are known and were checked against it.

    Parameters
    ----------
    path : str
    load : callable, optional
        From a path to a loaded library; `ctypes.CDLL`, which gives the GIL away during calls.

    Attributes
    ----------
    version : int
    strides : dict of int to int
        Bytes from one record to the next, by kind, as the library itself steps.

    Raises
    ------
    RecordingError
        If it cannot be loaded, tells no version, or steps otherwise than the known layout of its version.
    """

    def __init__(self, path: str, load: Callable[[str], Any] = ctypes.CDLL) -> None:
        try:
            self._library = load(path)
        except OSError as error:
            raise RecordingError(f"{path} cannot be loaded: {error}") from error
        self.path = path
        self._subscriber = ctypes.c_void_p()
        self.version = self._version()
        expected = sizes(self.version)
        self.strides = _strides(self._library)
        for kind, struct in STRUCTS.items():
            if self.strides.get(kind) not in self._allowed(struct, expected[struct]):
                raise RecordingError(
                    f"{path} (version {self.version}) steps {self.strides.get(kind)} bytes over a record of "
                    f"kind {kind}, where the headers of that version say {expected[struct]}: its records are "
                    "not read"
                )

    def _allowed(self, struct: str, size: int) -> tuple[int, ...]:
        also = EITHER.get(release(self.version), {}).get(struct)
        return (size,) if also is None else (size, also)

    def timestamp_ns(self) -> int:
        """Return the time now on the clock of the records; Unix nanoseconds by default."""
        value = ctypes.c_uint64()
        self._call("cuptiGetTimestamp", ctypes.byref(value), doing="read its clock")
        return value.value

    def subscribe(self) -> None:
        """Claim the process's one place for a client, so that two never mix."""
        self._call(
            "cuptiSubscribe", ctypes.byref(self._subscriber), _nothing, None, doing="claim this process"
        )

    def unsubscribe(self) -> None:
        """Give the place back."""
        if self._subscriber:
            self._call("cuptiUnsubscribe", self._subscriber, doing="give its place back")
            self._subscriber = ctypes.c_void_p()

    def register(self, request: int, complete: int) -> None:
        """Name the callbacks for empty and for filled buffers, by their addresses."""
        self._call(
            "cuptiActivityRegisterCallbacks",
            ctypes.c_void_p(request),
            ctypes.c_void_p(complete),
            doing="take buffers",
        )

    def system_threads(self) -> bool:
        """Let records carry the operating system's thread numbers; False where it cannot (before 12.0)."""
        try:
            call = self._library.cuptiSetThreadIdType
        except AttributeError:
            return False
        return int(call(ctypes.c_int(_SYSTEM_THREADS))) == 0

    def enable(self, kind: int) -> None:
        """Record activities of this kind from now on."""
        self._call("cuptiActivityEnable", ctypes.c_int(kind), doing=f"record kind {kind}")

    def disable(self, kind: int) -> None:
        """Record them no more."""
        self._call("cuptiActivityDisable", ctypes.c_int(kind), doing=f"end kind {kind}")

    def flush(self) -> None:
        """Have every buffer given back, full or not."""
        self._call("cuptiActivityFlushAll", ctypes.c_uint32(_FORCED), doing="give its buffers back")

    def dropped(self) -> int:
        """Count the records that CUPTI dropped for want of a buffer, since the last time it was asked."""
        count = ctypes.c_size_t()
        self._call(
            "cuptiActivityGetNumDroppedRecords",
            None,
            ctypes.c_uint32(0),
            ctypes.byref(count),
            doing="count dropped records",
        )
        return count.value

    def api_name(self, domain: int, number: int) -> str:
        """Return the name of a call of the runtime or driver, without ``_v7000``, or ``call N``."""
        name = ctypes.c_char_p()
        code = self._library.cuptiGetCallbackName(
            ctypes.c_int(domain), ctypes.c_uint32(number), ctypes.byref(name)
        )
        if code or not name.value:
            return f"call {number}"
        return name.value.decode(errors="replace").partition("_v")[0]

    def _version(self) -> int:
        version = ctypes.c_uint32()
        self._call("cuptiGetVersion", ctypes.byref(version), doing="tell its version")
        return version.value

    def _call(self, name: str, *arguments: Any, doing: str) -> None:
        code = int(getattr(self._library, name)(*arguments))
        if code:
            text = ctypes.c_char_p()
            self._library.cuptiGetResultString(ctypes.c_int(code), ctypes.byref(text))
            raise CuptiError(doing, code, (text.value or b"").decode(errors="replace"))


def _strides(library: Any) -> dict[int, int]:
    """Return how far the library itself steps over a record of each kind, asked with records drawn for it."""
    step = library.cuptiActivityGetNextRecord
    strides: dict[int, int] = {}
    room = 4096
    for kind in range(1, 64):
        drawn = (ctypes.c_uint64 * (room // 8))(*[kind] * (room // 8))
        at = ctypes.c_void_p()
        where: list[int] = []
        for _ in range(2):
            code = step(ctypes.byref(drawn), ctypes.c_size_t(room), ctypes.byref(at))
            if code or at.value is None:
                break
            where.append(at.value)
        if len(where) == 2 and 0 < (stride := where[1] - where[0]) < room and stride % 8 == 0:
            strides[kind] = stride
    return strides
