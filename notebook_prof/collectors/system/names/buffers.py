"""The buffers that a walk found, each once, with the first name that leads to it and the other names."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

HOST: Final = -1
LEAST_OBJECTS_BYTES: Final = 65_536
"""Names that hold fewer bytes of Python objects are not listed."""
MOST_OTHER_NAMES: Final = 4
NEW, EARLIER, NOT_COMPARED = 0, 1, -1

BUFFER_COLUMNS: Final = ("address", "bytes", "device", "name", "kind", "type", "kept_by")


class Buffer(NamedTuple):
    """Memory that a name leads to."""

    address: int  # 0 for Python objects, which are summed by name
    bytes: int
    device: int  # -1 is the host
    name: str
    kind: str
    type: str
    others: list[str]  # further names that lead to it


class BufferLog:
    """Collects buffers by address, and sizes of Python objects by name."""

    def __init__(self) -> None:
        self._buffers: dict[tuple[int, int], Buffer] = {}
        self._objects: dict[str, list[int]] = {}
        self._of_object: dict[int, tuple[int, int]] = {}
        self.looking_at = 0
        """Number of the object being visited."""

    def add(
        self,
        address: int,
        size: int,
        name: str,
        kind: str,
        *,
        device: int = HOST,
        text: str = "",
    ) -> None:
        """Add a buffer or, if it is already listed, another name for it. `text` is its type, such as
        ``float32[32, 64]``."""
        if not address or not size:
            return
        self._of_object[self.looking_at] = device, address
        listed = self._buffers.get((device, address))
        if listed is None:
            self._buffers[device, address] = Buffer(address, size, device, name, kind, text, [])
            return
        if size > listed.bytes:
            self._buffers[device, address] = listed._replace(bytes=size)
        add_name(listed, name)

    def again(self, number: int, name: str) -> None:
        """Add another name for an object that was visited before."""
        if (key := self._of_object.get(number)) is not None:
            add_name(self._buffers[key], name)

    def objects(self, name: str, size: int) -> None:
        """Add the bytes of Python objects that a name leads to."""
        total = self._objects.get(name)
        if total is None:
            self._objects[name] = [size, 1]
        else:
            total[0] += size
            total[1] += 1

    def table(self) -> pd.DataFrame:
        """Return one row per buffer, with `BUFFER_COLUMNS`, by device and address. Nested buffers are merged
        into the outer one."""
        rows: list[Buffer] = sorted(_without_inner(list(self._buffers.values())))
        rows += [
            Buffer(0, size, HOST, name, "objects", _counted(count), [])
            for name, (size, count) in sorted(self._objects.items())
            if size >= LEAST_OBJECTS_BYTES
        ]
        columns: dict[str, Any] = (
            dict(zip(BUFFER_COLUMNS, zip(*rows, strict=True), strict=True)) if rows else {}
        )
        table = pd.DataFrame({name: list(columns.get(name, ())) for name in BUFFER_COLUMNS})
        table["kept_by"] = [", ".join(one.others) for one in rows]
        numbers = dict.fromkeys(("address", "bytes", "device"), "int64")
        return table.astype(numbers | dict.fromkeys(("name", "kind", "type", "kept_by"), "str"))


def add_name(buffer: Buffer, name: str) -> None:
    """Add another name that leads to a buffer."""
    if name != buffer.name and len(buffer.others) < MOST_OTHER_NAMES and name not in buffer.others:
        buffer.others.append(name)


def _counted(count: int) -> str:
    return "Python object" if count == 1 else f"{count:,} Python objects"


def _without_inner(buffers: list[Buffer]) -> list[Buffer]:
    """Drop buffers that are inside another one, which gets their names."""
    if not buffers:
        return buffers
    device = np.array([one.device for one in buffers])
    address = np.array([one.address for one in buffers], dtype=np.int64)
    size = np.array([one.bytes for one in buffers], dtype=np.int64)
    order = np.lexsort((-size, address, device))
    kept: list[Buffer] = []
    last_end, last_device = 0, None
    for row, end in zip(order.tolist(), (address + size)[order].tolist(), strict=True):
        one = buffers[row]
        if kept and one.device == last_device and end <= last_end:
            for name in (one.name, *one.others):
                add_name(kept[-1], name)
            continue
        kept.append(one)
        last_end, last_device = end, one.device
    return kept
