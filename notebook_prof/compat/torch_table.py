"""The text of PyTorch's ``key_averages().table()``."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from ..errors import OptionError, nearest
from ..trace.trace import Trace
from .key_averages import key_averages

_KEYS: Final = {
    "self_cpu_time_total": "self_cpu_time_ns",
    "cpu_time_total": "cpu_time_total_ns",
    "cpu_time": "cpu_time_ns",
    "self_device_time_total": "self_device_time_ns",
    "device_time_total": "device_time_total_ns",
    "device_time": "device_time_ns",
    "count": "count",
}
_UNITS: Final = {"s": 1e9, "ms": 1e6, "us": 1e3}
_NAME: Final = 55
_COLUMN: Final = 12


def torch_text(
    trace: Trace, *, sort_by: str | None = None, row_limit: int = 100, time_unit: str | None = None
) -> str:
    """Write a table as ``torch.autograd.profiler_util`` does.

    Parameters
    ----------
    trace : Trace
    sort_by : str, optional
        One of PyTorch's keys; ``cuda`` and ``xpu`` stand for ``device``.
    row_limit : int
        -1 for all.
    time_unit : str, optional
        ``s ms us``.

    Raises
    ------
    OptionError
        If there is no such key or unit.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> torch_text(TraceBuilder().seal())
    ''
    """
    if time_unit is not None and time_unit not in _UNITS:
        raise OptionError(f"there is no time unit {time_unit!r}: {nearest(time_unit, _UNITS)}")
    table = key_averages(trace)
    calls = table["count"].clip(lower=1)
    table["cpu_time_ns"] = table["cpu_time_total_ns"] / calls
    table["device_time_ns"] = table["device_time_total_ns"] / calls
    if sort_by is not None:
        word = sort_by.replace("cuda", "device").replace("xpu", "device")
        if word not in _KEYS:
            raise OptionError(f"there is no sort key {sort_by!r}: {nearest(sort_by, _KEYS)}")
        table = table.sort_values(_KEYS[word], ascending=False, kind="stable")
    if table.empty:
        return ""
    return "\n".join(_lines(table, row_limit, time_unit)) + "\n"


def _lines(table: pd.DataFrame, row_limit: int, unit: str | None) -> list[str]:
    on_device = bool((table["self_device_time_ns"] > 0).any())
    heads = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
    if on_device:
        heads += ["Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg"]
    heads.append("# of Calls")
    widths = [min(max(len(name) for name in table["name"]) + 4, _NAME), *[_COLUMN] * (len(heads) - 1)]
    rule = "".join("-" * width + "  " for width in widths)
    cpu = int(table["self_cpu_time_ns"].sum())
    device = int(table.loc[table["on_device"], "self_device_time_ns"].sum())
    shown = table if row_limit < 0 else table.head(row_limit)
    lines = [rule, _line(heads, widths), rule]
    for row in shown.to_dict("records"):
        name = row["name"] if len(row["name"]) < _NAME - 3 else row["name"][: _NAME - 3] + "..."
        cells = [name, *_times(row, "cpu", cpu, unit)]
        if on_device:
            share, own, _, whole, mean = _times(row, "device", device, unit)
            cells += [own, share, whole, mean]
        lines.append(_line([*cells, str(row["count"])], widths))
    lines += [rule, f"Self CPU time total: {_time(cpu, unit)}"]
    return [*lines, f"Self CUDA time total: {_time(device, unit)}"] if on_device else lines


def _times(row: dict[Any, Any], place: str, whole: int, unit: str | None) -> list[str]:
    own, total = row[f"self_{place}_time_ns"], row[f"{place}_time_total_ns"]
    mean = _time(row[f"{place}_time_ns"], unit)
    return [_share(own, whole), _time(own, unit), _share(total, whole), _time(total, unit), mean]


def _line(cells: list[str], widths: list[int]) -> str:
    return "".join(f"{cell:>{width}}  " for cell, width in zip(cells, widths, strict=True))


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f}%" if whole else "NaN"


def _time(ns: float, unit: str | None) -> str:
    """In microseconds, milliseconds from 1 ms on, seconds from 1 s on."""
    fitting = unit or ("s" if ns >= 1e9 else "ms" if ns >= 1e6 else "us")
    return f"{ns / _UNITS[fitting]:.3f}{fitting}"
