"""Reads MegEngine's ``memory_flow.svg``, which draws the lifetime of each tensor."""

from __future__ import annotations

import re
from html import unescape
from typing import Any, Final

import numpy as np
import pandas as pd

from ...errors import FormatError, bounded_repr
from ...trace.builder import TraceBuilder
from ...trace.report import ImportReport

_RECT: Final = re.compile(r"<rect\b([^<>]*)>")
_TAG: Final = re.compile(r'tag:(\w+)="([^"]*)"')
_PART: Final = re.compile(r"(\d{1,18})\s*([A-Za-z]+)")
_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{1,16}|\d{1,19}")
_LAYOUT: Final = re.compile(r"\{(.*?)\s*([A-Za-z]\w*)?\}$")
_DIMENSION: Final = re.compile(r"(\d+)\(-?\d+\)")
_S: Final = 10**9
_NS: Final = {"ns": 1, "us": 10**3, "ms": 10**6, "s": _S, "m": 60 * _S, "min": 60 * _S, "h": 3600 * _S}
_BYTES: Final = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
_LIMIT: Final = 1 << 62
_NAMES: Final = ("name", "layout", "dtype", "addr", "bytes", "born_ns", "freed_ns", "group")


def read_memory_flow(data: bytes, builder: TraceBuilder) -> None:
    """Read a drawing in which each rectangle is one tensor, from when it is made to when it is erased."""
    # Times count from the start of the profile; the file names neither a clock nor a device (-1).
    rectangles = [dict(_TAG.findall(rect)) for rect in _RECT.findall(data.decode(errors="replace"))]
    tagged = [tags for tags in rectangles if tags.get("type", "tensor") == "tensor" and "address" in tags]
    if not tagged:
        raise FormatError("there is no tensor in this drawing: it is not a memory_flow.svg of MegEngine")
    if not data.rstrip(b"\x00 \r\n\t").endswith(b"</svg>"):
        example = f"it ends with {data.rstrip()[-40:]!r}"
        builder.report.truncated(example, "the last tensors are missing")
    # `operator` and `module` are parts of the tensor's name; `group` is the id of the operator that made it
    tensors = _tensors(tagged, builder.report)
    builder.metadata.setdefault("tables", {})["tensors"] = tensors
    born, freed = tensors["born_ns"].to_numpy(), tensors["freed_ns"].to_numpy()
    size, addr = tensors["bytes"].to_numpy(), tensors["addr"].to_numpy()
    n = len(tensors)
    ts = np.concatenate([born, freed])
    # at the same instant, an address is freed before it is allocated again
    late = np.concatenate([np.ones(n, np.int64), np.where(born == freed, 2, 0)])
    order = np.lexsort((late, ts))
    change = np.concatenate([size, -size])[order]
    addr, total = np.concatenate([addr, addr])[order], np.cumsum(change)
    builder.allocations(ts=ts[order], addr=addr, bytes=change, device=-1, allocated=total, reserved=0)


def quantity(text: str, units: dict[str, int]) -> int | None:
    """Return a sum of numbers with units; None for other text."""
    parts = _PART.findall(text)
    if not parts or any(unit not in units for _, unit in parts):
        return None
    total = sum(int(number) * units[unit] for number, unit in parts)
    return total if total < _LIMIT else None


def _tensors(tagged: list[dict[str, str]], report: ImportReport) -> pd.DataFrame:
    made = [_tensor(tags) for tags in tagged]
    broken = np.array([row is None for row in made])
    report.broken_rows(broken, lambda i: bounded_repr(tagged[i]), "these tensors are left out")
    rows = [row for row in made if row is not None]
    if not rows:
        raise FormatError("no tensor of this drawing has an address, a size and times")
    table = pd.DataFrame(rows, columns=list(_NAMES)).sort_values("born_ns", kind="stable", ignore_index=True)
    table["addr"] = table["addr"].astype("uint64")
    table["group"] = table["group"].astype("Int64")
    path = table["name"].str.rpartition(":")[0].where(table["name"].str.contains(":"), table["name"])
    table["operator"] = path.str.rpartition(".")[2]
    table["module"] = path.str.rpartition(".")[0]
    table["shape"] = [f"[{', '.join(_DIMENSION.findall(text))}]" for text in table["layout"]]
    return table


def _tensor(tags: dict[str, str]) -> tuple[Any, ...] | None:
    address, size = tags["address"], quantity(tags.get("size", ""), _BYTES)
    born, freed = (quantity(tags.get(key, ""), _NS) for key in ("produced", "erased"))
    if size is None or born is None or freed is None or not _ADDRESS.fullmatch(address):
        return None
    layout = unescape(tags.get("layout", ""))
    match = _LAYOUT.search(layout)
    dtype = (match[2] or "") if match else ""
    group = tags.get("group", "")
    number = int(group) if group.isdecimal() and len(group) < 19 else None
    name = unescape(tags.get("name", ""))
    return name, layout, dtype, int(address, 0), size, born, max(born, freed), number
