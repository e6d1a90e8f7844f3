"""Copies between host and devices: amount, rate, pinned memory, and the link's limit."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import pandas as pd

from ...errors import OptionError
from ...trace import Trace, length, union
from ...trace.schema import Table
from ..busy_time import device_of
from ..scope import Numbers, Scope, Texts, WindowLike, on_device
from .busy import device_attributes

_NAME: Final = re.compile(
    r"(?:Memcpy|memcpy) ?(?P<to>[HDAP]to[HDAP]|P2P|DtoD|HtoD|DtoH|HtoH|PtoP)?"
    r"(?:.*\((?P<source>[\w ]+?) *-> *(?P<target>[\w ]+?)\))?.*"
)
_OVER_LINK: Final = ("HtoD", "DtoH")
_COLUMNS: Final = Table.of(
    "copies",
    "device:int64 direction:str source:str target:str pinned:boolean count:int64 total_ns:int64 "
    "union_ns:int64 share:float64 bytes:Int64 bytes_per_s:float64 link_bytes_per_s:float64 "
    "link_share:float64",
)


def copies(
    trace: Trace,
    *,
    window: WindowLike = None,
    step: Numbers = None,
    phase: Texts = None,
    link_bytes_per_s: float | None = None,
) -> pd.DataFrame:
    """Sum up copies by device, direction and kinds of memory, with their rate.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns: copies that begin in it. They are not cut, since bytes cannot be.
    step : int or iterable of int, optional
        Keep only copies launched by these steps.
    phase : str or iterable of str, optional
        Keep these.
    link_bytes_per_s : float, optional
        Rate of the link between host and device in one direction. Default: the rate of the PCIe link as found
        by the `nvml` collector.

    Returns
    -------
    DataFrame
        By `total_ns`, longest first; no rows without copies.

        - ``device`` int64, -1 where not known; ``direction`` str: ``HtoD DtoH DtoD PtoP …``; ``source``,
          ``target`` str: ``Pageable Pinned Device Managed …``; all three are empty if not recorded;
        - ``pinned`` boolean: whether the host's side is page-locked memory; missing without a host side, or
          if not recorded. Only pinned copies run in parallel with the host, at the link's rate;
        - ``count`` int64; ``total_ns`` int64: sum of durations; ``union_ns`` int64: time with at least one
          running; ``share`` float64: of the summed durations of all copies;
        - ``bytes`` Int64; ``bytes_per_s`` float64: over `total_ns`; missing where bytes were not recorded,
          or not of every copy;
        - ``link_bytes_per_s``, ``link_share`` float64: of copies between host and device, if the link is
          known.

    Raises
    ------
    OptionError
        If `link_bytes_per_s` is not positive.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw("stream 7: [Memcpy HtoD (Pageable -> Device)]",
    ...     categories={"Memcpy HtoD (Pageable -> Device)": "memcpy"})
    >>> copies(trace)[["direction", "source", "pinned", "count"]].values.tolist()
    [['HtoD', 'Pageable', False, 1]]
    """
    if link_bytes_per_s is not None and not link_bytes_per_s > 0:
        raise OptionError(
            f"link_bytes_per_s={link_bytes_per_s} must be above 0: bytes a second in one direction"
        )
    work = on_device(trace, window).where(step=step, phase=phase, category="memcpy")
    if not len(work.rows):
        return _COLUMNS.empty()
    device = device_of(trace, work)
    kinds = [_kind(str(name)) for name in work.slices["name"].cat.categories]
    distinct = sorted(set(kinds))
    kind_code = np.array([distinct.index(kind) for kind in kinds], np.int64)[work.codes("name")]
    group = (device + 1) * len(distinct) + kind_code
    bytes_of_copy = _bytes(trace, work)
    rows = [
        _row(
            trace,
            work,
            bytes_of_copy,
            group == code,
            int(device[group == code][0]),
            distinct[kind_code[group == code][0]],
            link_bytes_per_s,
        )
        for code in np.unique(group)
    ]
    table = pd.DataFrame(rows)
    table["share"] = table["total_ns"] / max(int(table["total_ns"].sum()), 1)
    table = _COLUMNS.frame({name: table[name] for name in _COLUMNS.names})
    return table.sort_values("total_ns", ascending=False, kind="stable", ignore_index=True)


def _kind(name: str) -> tuple[str, str, str]:
    """Return the direction, source and target, from a copy's name."""
    match = _NAME.fullmatch(name)
    if match is None:
        return "", "", ""
    parts = match.groupdict(default="")
    return ("PtoP" if parts["to"] == "P2P" else parts["to"]), parts["source"], parts["target"]


def _bytes(trace: Trace, work: Scope) -> Any:
    attributes = device_attributes(trace, work)
    if attributes is None or "bytes" not in attributes:
        return np.full(len(work.rows), np.nan)
    return attributes["bytes"].astype("float64").to_numpy()


def _row(
    trace: Trace,
    work: Scope,
    bytes_of_copy: Any,
    here: Any,
    device: int,
    kind: tuple[str, str, str],
    link: float | None,
) -> dict[str, Any]:
    direction, source, target = kind
    # take whole copies: a window cuts times, but bytes cannot be cut
    ts = trace.slices["ts"].to_numpy()[work.rows[here]]
    dur = trace.slices["dur"].to_numpy()[work.rows[here]]
    total = int(dur.sum())
    own = bytes_of_copy[here]
    all_sized = not np.isnan(own).any()
    rate = float(own.sum()) * 1e9 / total if all_sized and total else float("nan")
    link = (link or _link(trace, device)) if direction in _OVER_LINK else None
    return {
        "device": device,
        "direction": direction,
        "source": source,
        "target": target,
        "pinned": _pinned(direction, source, target),
        "count": len(ts),
        "total_ns": total,
        "union_ns": length(union(ts, ts + dur)),
        "bytes": int(own.sum()) if all_sized else pd.NA,
        "bytes_per_s": rate,
        "link_bytes_per_s": float("nan") if link is None else link,
        "link_share": float("nan") if link is None else rate / link,
    }


def _pinned(direction: str, source: str, target: str) -> Any:
    host = {"H": source, "": ""}.get(direction[:1], target if direction.endswith("H") else "")
    return host == "Pinned" if host in ("Pinned", "Pageable") else pd.NA


def _link(trace: Trace, device: int) -> float | None:
    """Return the rate of a device's PCIe link in bytes per second, as found by the `nvml` collector."""
    links = trace.metadata.get("pcie_links")
    for link in links if isinstance(links, list | tuple) else ():
        if isinstance(link, dict) and link.get("device") == device:
            rate = link.get("bytes_per_s")
            return float(rate) if isinstance(rate, int | float) and rate > 0 else None
    return None
