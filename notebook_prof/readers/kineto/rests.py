"""What is left of the arguments without running numbers: each distinct text is decoded once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from .coding import CALL, CONCRETE, DEVICE, EXTRAS, OPERATOR, UNKNOWN, Numbers
from .collect import Collector
from .columns import Ints
from .heads import Coding
from .identifiers import identifiers, integers
from .rows import UNDECODABLE, AllArguments, OldArguments, extra_of
from .stretches import numbered

RUNNING: Final = {
    "sequence": "Sequence number",
    "fwd_thread": "Fwd thread id",
    "correlation": "correlation",
    "device": "device",
    "stream": "stream",
}
"""Numbers that are another one in each event, and their keys."""

OF_FLAGS: Final = {
    "sequence": OPERATOR | UNKNOWN,
    "fwd_thread": OPERATOR | UNKNOWN,
    "correlation": CALL | DEVICE | UNKNOWN,
    "device": DEVICE | UNKNOWN,
    "stream": DEVICE | UNKNOWN,
    "dims": OPERATOR | UNKNOWN,
    "old_dims": OPERATOR | UNKNOWN,
    "dtypes": OPERATOR | UNKNOWN,
    "stack": OPERATOR | UNKNOWN,
    "path": OPERATOR | UNKNOWN,
    "concrete": CONCRETE,
    "extra": EXTRAS,
}
"""Events that can have a column."""

_DECODER: Final = msgspec.json.Decoder(AllArguments)
_READ: Final[dict[str, Callable[[AllArguments], Any]]] = {
    "dims": lambda args: bytes(args.dims),
    "dtypes": lambda args: bytes(args.types),
    "concrete": lambda args: bytes(args.concrete),
    "extra": extra_of,
    "old_dims": lambda args: bytes(args.old_dims),
    "stack": lambda args: args.call_stack,
    "path": lambda args: args.hierarchy,
}
_OLD: Final = ("old_dims", "stack", "path")


class Rests:
    """Texts of arguments.

    Parameters
    ----------
    collector : Collector
        Its numbers are given to what is kept.

    Attributes
    ----------
    good : ndarray of bool
        Whether the text could be decoded.
    """

    def __init__(self, collector: Collector) -> None:
        self._texts = Numbers()
        self._args: list[AllArguments] = []
        self.good = np.empty(0, bool)
        self._told = {name: np.empty(0, bool) for name in RUNNING}
        self._values = {name: np.empty(0, np.int64) for name in RUNNING}
        numbers = {
            "dims": collector.dims,
            "dtypes": collector.dtypes,
            "concrete": collector.concrete,
            "extra": collector.extras,
            "old_dims": collector.dims,
            "stack": collector.stacks,
            "path": collector.paths,
        }
        old = issubclass(collector.small, OldArguments)
        self.coded = {name: Coding(each) for name, each in numbers.items() if old or name not in _OLD}

        self._learn([b""])
        self._texts[b""]

    def of(self, text: bytes, start: Ints, end: Ints) -> npt.NDArray[np.int32]:
        """Numbers of the texts; 0 is the empty one."""
        before = len(self._texts)
        rests = numbered(text, start, end, self._texts)
        if len(self._texts) > before:
            self._learn(list(islice(self._texts, before, None)))
        return rests

    def _learn(self, fresh: list[bytes]) -> None:
        if fresh:
            found = [_decoded(rest) for rest in fresh]
            args = [each if each is not None else AllArguments() for each in found]
            self._args += args
            self.good = np.append(self.good, [each is not None for each in found])
            for name, key in RUNNING.items():
                told = [f'"{key}":'.encode() in rest for rest in fresh]
                read = integers if name not in ("device", "stream") else identifiers
                values = [read([getattr(each, name)])[0] for each in args]
                self._told[name] = np.append(self._told[name], told)
                self._values[name] = np.append(self._values[name], np.array(values, np.int64))

    def __len__(self) -> int:
        return len(self._texts)

    def column(self, name: str, rests: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Numbers of one part of the arguments."""
        read = _READ[name]
        return self.coded[name].column(rests, lambda rest: read(self._args[rest]))

    def running(self, name: str, rests: npt.NDArray[np.int32], values: Ints) -> Ints:
        """`values`, or what the texts themselves tell in their place."""
        told = self._told[name][rests]
        return np.where(told, self._values[name][rests], values) if told.any() else values


def _decoded(rest: bytes) -> AllArguments | None:
    """Of the empty text too: nothing is left there."""
    if rest and not rest.lstrip().startswith(b'"'):
        return None
    try:
        return _DECODER.decode(b"{" + rest + b"}")
    except UNDECODABLE:
        return None
