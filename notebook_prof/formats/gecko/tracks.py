"""Which thread of which process a part of a Firefox profile belongs to."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...trace.builder import TraceBuilder

_LARGEST = 2**62


class GeckoThread(NamedTuple):
    """A thread of a profile.

    Attributes
    ----------
    track : int
    name : str
        No two of a profile are alike.
    pid : int or None
        None where the profile has made one up.
    """

    track: int
    name: str
    pid: int | None

    @property
    def markers(self) -> str:
        """Name of the track of its markers."""
        return f"{self.name} · markers"


class GeckoTracks:
    """Makes a track of each thread, also of those that have no numbers, or the same ones.

    Parameters
    ----------
    builder : TraceBuilder
        Gets ``metadata["processes"]``, names by process id, where they are told.
    """

    def __init__(self, builder: TraceBuilder) -> None:
        self._builder = builder
        self._names: set[tuple[int | None, str]] = set()
        self._ids: set[tuple[int, int]] = set()
        self._processes: dict[str, str] = {}

    def add(self, name: Any, pid: Any, tid: Any, process: Any) -> GeckoThread:
        """Return the track of a thread, always a new one."""
        number, thread = process_id(pid), process_id(tid)
        if number is not None and isinstance(process, str) and process:
            self._processes.setdefault(str(number), process)
            self._builder.metadata["processes"] = self._processes
        label = name if isinstance(name, str) and name else "thread"
        if number is None and isinstance(pid, str) and pid:
            label = f"{label} of {pid}"
        label = self.unique(label, number)
        if number is None or thread is None or (number, thread) in self._ids:
            return GeckoThread(self._builder.track(label, pid=number), label, number)
        self._ids.add((number, thread))
        return GeckoThread(self._builder.track(label, pid=number, tid=thread), label, number)

    def unique(self, name: str, pid: int | None) -> str:
        """Return a name that nothing else of this process has."""
        count, unique = 1, name
        while (pid, unique) in self._names:
            count += 1
            unique = f"{name} {count}"
        self._names.add((pid, unique))
        return unique


def process_id(value: Any) -> int | None:
    """Return a number of a process or thread; None for names such as ``"Unknown Process 1"``.

    Examples
    --------
    >>> process_id("5127"), process_id(12), process_id("5127.1"), process_id(None)
    (5127, 12, None, None)
    """
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 19:
        return int(value)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value < _LARGEST else None
