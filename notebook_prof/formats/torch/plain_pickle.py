"""Pickles that hold nothing but lists, dicts, tuples of numbers, text and numbers."""

from __future__ import annotations

import copyreg
import io
import pickle
import pickletools
import re
from typing import Any, Final, NoReturn

from ...errors import FormatError

_LONG1: Final = rb"\x8a(?:" + b"|".join(rb"%c.{%d}" % (n, n) for n in range(1, 10)) + rb"|\x00)"
_SCALAR: Final = rb"(?:K.|M..|J....|N|\x88|\x89|" + _LONG1 + rb")"
_TUPLE: Final = (
    _SCALAR + rb"(?:\x85|" + _SCALAR + rb"(?:\x86|" + _SCALAR + rb"\x87))|\(" + _SCALAR + rb"{0,64}t"
)
_PLAIN: Final = rb"[}\])suaeN(\x88\x89\x94]|[Kqh].|M..|[Jj]....|G.{8}|" + _LONG1
_RUN: Final = re.compile(rb"(?:" + _TUPLE + rb"|" + _PLAIN + rb"){1,4000}", re.DOTALL)
"""A run of opcodes that build plain data and have a fixed size; tuples of numbers only, since the hash of
nested tuples takes time that doubles with each level."""

_LENGTHS: Final = {0x8C: 1, 0x58: 4, 0x8D: 8}
"""Opcodes of texts, and the number of bytes that hold the length."""

_FRAME: Final = 0x95
_LONG_BINPUT: Final = 0x72
_STOP: Final = 0x2E
_PROTOCOLS: Final = range(2, 6)
_FAILURES: Final = (
    pickle.UnpicklingError,
    EOFError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    OverflowError,
    MemoryError,
    RecursionError,
)


def load_plain(data: bytes) -> Any:
    """Unpickle data that consists of lists, dicts, tuples of numbers, str, int, float, bool and None."""
    # Two walls: all opcodes are looked at before the first is executed, and only those that build plain data
    # may be there, with lengths that fit into the file; then `pickle.Unpickler` runs with a `find_class` and
    # a `persistent_load` that refuse everything.
    end = _checked_end(data)
    # classes that a program registered there would not be asked for through find_class
    copyreg.clear_extension_cache()
    try:
        return _Plain(io.BytesIO(data[:end])).load()
    except _FAILURES as error:
        raise FormatError(f"the pickle cannot be read: {error}") from error


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, and nothing is imported for a file")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError("it refers to something outside of the file")


def _checked_end(data: bytes) -> int:
    """Return where the pickle ends, after a look at every opcode."""
    if len(data) < 2 or data[0] != 0x80 or data[1] not in _PROTOCOLS:
        raise FormatError(f"this is not a pickle of protocol 2 to 5: it starts with {data[:8]!r}")
    at = 2
    try:
        while True:
            if at >= len(data):
                raise IndexError
            if match := _RUN.match(data, at):
                at = match.end()
            opcode = data[at]
            if opcode == _STOP:
                return at + 1
            if opcode in _LENGTHS:
                width = _LENGTHS[opcode]
                at += 1 + width + int.from_bytes(data[at + 1 : at + 1 + width], "little")
            elif opcode == _FRAME:
                at += 9
            elif opcode == _LONG_BINPUT and int.from_bytes(data[at + 1 : at + 5], "little") <= at:
                # a larger number would make the unpickler reserve memory for all numbers below
                at += 5
            elif match is None:
                raise FormatError(_refusal(data, at))
    except IndexError:
        raise FormatError("the pickle is cut off: copy the file again") from None


def _refusal(data: bytes, at: int) -> str:
    # the opcode before may be part of what is refused, as in a tuple of tuples
    opcode_names = {ord(code.code): code.name for code in pickletools.opcodes}
    name = opcode_names.get(data[at], hex(data[at]))
    if len(data) - at < 16 and data[at] not in (0x93, 0x52, 0x63):
        return f"the pickle is cut off or damaged at byte {at:,} ({name}): copy the file again"
    return (
        f"the pickle would do {name!r} at byte {at:,}, which a memory snapshot never does, so it is not "
        "opened: only lists, dicts, text and numbers are read"
    )
