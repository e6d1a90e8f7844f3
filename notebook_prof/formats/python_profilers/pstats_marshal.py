"""Read what marshal writes, as far as statistics need it: no code, no classes, bounded.

``marshal.loads`` may crash the interpreter on damaged data, and builds code objects.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from ...errors import FormatError

_REF: Final = 0x80
_DEPTH: Final = 12
_NULL: Final = object()
_CONSTANTS: Final = {ord("N"): None, ord("T"): True, ord("F"): False, ord("0"): _NULL}
_LONG_DIGITS: Final = 8  # of 15 bits: more than any count or time


def loads(data: bytes) -> Any:
    """Return the value that `data` holds.

    Parameters
    ----------
    data : bytes
        Of marshal's versions 0 to 5.

    Returns
    -------
    object
        Made of dict, tuple, list, str, bytes, int, float, bool and None. Keys of dicts are texts,
        numbers, or tuples of these.

    Raises
    ------
    FormatError
        If it ends too early, holds anything else, or is nested more than 12 deep.

    Examples
    --------
    >>> import marshal
    >>> loads(marshal.dumps({("a.py", 1, "f"): (1, 2.5, {})}))
    {('a.py', 1, 'f'): (1, 2.5, {})}
    """
    return _Source(data).value(0)


class _Source:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.refs: list[Any] = []

    def take(self, count: int) -> bytes:
        end = self.at + count
        if count < 0 or end > len(self.data):
            raise FormatError(f"the marshalled data breaks off at byte {len(self.data):,}")
        part = self.data[self.at : end]
        self.at = end
        return part

    def count(self, wide: bool) -> int:
        return int.from_bytes(self.take(4), "little", signed=True) if wide else self.take(1)[0]

    def value(self, depth: int) -> Any:
        if depth > _DEPTH:
            raise FormatError("the marshalled data is nested too deeply for statistics")
        mark = self.take(1)[0]
        kind = mark & ~_REF
        slot = -1
        if mark & _REF:
            slot = len(self.refs)
            self.refs.append(_NULL)
        result = self._of_kind(kind, depth)
        if slot >= 0:
            self.refs[slot] = result
        return result

    def _of_kind(self, kind: int, depth: int) -> Any:
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        if kind in b"ilIgf":
            return self._number(kind)
        if kind in b"zZaAutsR":
            return self._text(kind)
        if kind in b"()[":
            size = self.count(kind != ord(")"))
            if not 0 <= size <= len(self.data) - self.at:
                raise FormatError(f"a tuple of {size:,} values cannot be in the rest of the data")
            items = [self._item(depth) for _ in range(size)]
            return items if kind == ord("[") else tuple(items)
        if kind == ord("{"):
            return self._dict(depth)
        if kind == ord("r"):
            return self._reference()
        raise FormatError(f"the marshalled data holds a value of type {chr(kind)!r}, which statistics do not")

    def _item(self, depth: int) -> Any:
        item = self.value(depth + 1)
        if item is _NULL:
            raise FormatError("the marshalled data has an end where a value should be")
        return item

    def _dict(self, depth: int) -> dict[Any, Any]:
        items: dict[Any, Any] = {}
        while (key := self.value(depth + 1)) is not _NULL:
            parts = key if isinstance(key, tuple) else (key,)
            # flat keys only: hashing tuples that share tuples can take for ever
            if len(parts) > 8 or not all(isinstance(part, str | bytes | int | float) for part in parts):
                raise FormatError(
                    "a key of the marshalled data is neither text, a number, nor a tuple of them"
                )
            items[key] = self._item(depth)
        return items

    def _reference(self) -> Any:
        number = self.count(True)
        if not 0 <= number < len(self.refs) or self.refs[number] is _NULL:
            raise FormatError("the marshalled data refers to a value that it does not have")
        return self.refs[number]

    def _text(self, kind: int) -> Any:
        if kind == ord("R"):
            raise FormatError(
                "the statistics were written by Python 2: read them there and save them as JSON"
            )
        raw = self.take(self.count(kind not in b"zZ"))
        if kind == ord("s"):
            return raw
        return raw.decode("utf-8", "replace") if kind in b"ut" else raw.decode("latin-1")

    def _number(self, kind: int) -> int | float:
        if kind == ord("i"):
            return int.from_bytes(self.take(4), "little", signed=True)
        if kind == ord("I"):
            return int.from_bytes(self.take(8), "little", signed=True)
        if kind == ord("g"):
            return float(struct.unpack("<d", self.take(8))[0])
        if kind == ord("f"):
            try:
                return float(self.take(self.count(False)))
            except ValueError as error:
                raise FormatError(f"the marshalled data has a number that is none ({error})") from error
        size = self.count(True)
        if abs(size) > _LONG_DIGITS:
            raise FormatError("the marshalled data has a number that is too large for statistics")
        digits = struct.unpack(f"<{abs(size)}H", self.take(2 * abs(size)))
        total: int = sum(digit << (15 * i) for i, digit in enumerate(digits))
        return int(-total if size < 0 else total)
