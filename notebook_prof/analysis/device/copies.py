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
from ..scope import Numbers, Texts, WindowLike, bounds, on_device
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

        - ``device`` int64, -1 if unknown; ``direction`` str: ``HtoD DtoH DtoD PtoP …``; ``source``,
          ``target`` str: ``Pageable Pinned Device Managed …``; all three are empty if not recorded;
        - ``pinned`` boolean: whether the host's side is page-locked memory; missing without a host side, or
          if not recorded. Only pinned copies run in parallel with the host, at the link's rate;
        - ``count`` int64; ``total_ns`` int64: sum of durations; ``union_ns`` int64: time with at least one
          running; ``share`` float64: of the summed durations of all copies;
        - ``bytes`` Int64; ``bytes_per_s`` float64: over `total_ns`; missing if the bytes of some copies were
          not recorded;
        - ``link_bytes_per_s``, ``link_share`` float64: for copies between host and device, if the link is
          known.

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
            f"link_bytes_per_s={link_bytes_per_s} must be above 0: bytes per second in one direction"
        )
    work = on_device(trace, window).where(step=step, phase=phase, category="memcpy")
    if not len(work.rows):
        return _COLUMNS.empty()
    attributes = device_attributes(trace, work)
    size = None if attributes is None else attributes.get("bytes")
    table = pd.DataFrame(
        {
            "device": device_of(trace, work),
            "name": work.codes("name"),
            # take whole copies: a window cuts times, but bytes cannot be cut
            "ts": trace.slices["ts"].to_numpy()[work.rows],
            "dur": trace.slices["dur"].to_numpy()[work.rows],
            "bytes": np.nan if size is None else size.to_numpy(float, na_value=np.nan),
        }
    )
    kinds = []
    for name in work.slices["name"].cat.categories:
        match = _NAME.fullmatch(str(name))
        to, *ends = match.group("to", "source", "target") if match else ("", "", "")
        kinds.append(("PtoP" if to == "P2P" else to or "", *(end or "" for end in ends)))
    for i, column in enumerate(("direction", "source", "target")):
        table[column] = np.array([kind[i] for kind in kinds], dtype=object)[table["name"]]
    links = trace.metadata.get("pcie_links")
    rates = {  # bytes per second, as found by the `nvml` collector
        link.get("device"): link.get("bytes_per_s")
        for link in reversed(links if isinstance(links, list | tuple) else ())
        if isinstance(link, dict)
    }
    rows = []
    for (device, *kind), own in table.groupby(["device", "direction", "source", "target"]):
        total, moved = int(own["dur"].sum()), own["bytes"].sum(skipna=False)
        rate = moved * 1e9 / total if total else np.nan
        link = (link_bytes_per_s or rates.get(device) or np.nan) if kind[0] in _OVER_LINK else np.nan
        rows.append(
            {
                "device": device,
                **dict(zip(("direction", "source", "target"), kind, strict=True)),
                "pinned": _pinned(*kind),
                "count": len(own),
                "total_ns": total,
                "union_ns": length(union(*bounds(own))),
                "share": total / max(int(table["dur"].sum()), 1),
                "bytes": pd.NA if np.isnan(moved) else int(moved),
                "bytes_per_s": rate,
                "link_bytes_per_s": link,
                "link_share": rate / link,
            }
        )
    return _COLUMNS.of_rows(rows).sort_values("total_ns", ascending=False, kind="stable", ignore_index=True)


def _pinned(direction: str, source: str, target: str) -> Any:
    host = {"H": source, "": ""}.get(direction[:1], target if direction.endswith("H") else "")
    return host == "Pinned" if host in ("Pinned", "Pageable") else pd.NA
