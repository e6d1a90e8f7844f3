"""cProfile's statistics, as ``python -m cProfile -o FILE`` and ``pstats`` write them."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import pandas as pd

from ...errors import FormatError
from ...readers.call_tree import Frame
from ...trace.builder import TraceBuilder
from ...trace.strings import Coded
from .pstats_marshal import loads

# a dict (perhaps referred to) whose first key is a tuple of three, or that is empty
_LONGEST_S: Final = 4e9
_FUNCTIONS: Final = ("calls", "primitive_calls", "self_ns", "total_ns")


def read_pstats(data: bytes, builder: TraceBuilder) -> None:
    """Put the file's functions into `builder`."""
    stats = loads(data)
    if not isinstance(stats, dict):
        raise FormatError(f"it holds a {type(stats).__name__}, not the statistics of functions")
    functions, callers, broken = _rows(stats)
    example = f"{len(functions):,} others are sound"
    builder.report.add("broken-row", "loss", broken, example, "these functions are left out")
    if broken and not functions:
        raise FormatError("none of its entries is a function's statistics")
    table = _frame_table(functions, ["name", "file", "line", *_FUNCTIONS])
    table = table.sort_values("self_ns", ascending=False, kind="stable").reset_index(drop=True)
    by_caller = _frame_table(
        callers, ["name", "file", "line", "caller", "caller_file", "caller_line", *_FUNCTIONS]
    )
    builder.metadata.setdefault("tables", {}).update(functions=table, callers=by_caller)
    builder.report.add(
        "no-time-line",
        "info",
        example="sums by function",
        effect="own times are exact; cumulative times and calls are in metadata['tables']['functions']",
    )
    _add(table, builder)


def _add(table: pd.DataFrame, builder: TraceBuilder) -> None:
    frames = [
        Frame(name, file, line)
        for name, file, line in zip(table["name"], table["file"], table["line"], strict=True)
    ]
    dur = table["self_ns"].to_numpy(np.int64)
    builder.slices(
        ts=np.cumsum(dur) - dur,
        dur=dur,
        track=builder.track("main"),
        name=Coded(np.arange(len(frames)), [frame.label() for frame in frames]),
        category="python",
        stack=np.array([builder.stack([f]) for f in frames], np.int64),  # noqa: PD013
    )


def _rows(stats: dict[Any, Any]) -> tuple[list[list[Any]], list[list[Any]], int]:
    functions, callers, broken = [], [], 0
    for key, value in stats.items():
        function = _function(key)
        numbers = _numbers(value[:4]) if isinstance(value, tuple) and len(value) == 5 else None
        if function is None or numbers is None:
            broken += 1
            continue
        functions.append([*function, *numbers])
        for caller, counts in value[4].items() if isinstance(value[4], dict) else ():
            above = _function(caller)
            # before Python 2.5 a caller had a single count
            numbers = _numbers(counts[:4]) if isinstance(counts, tuple) and len(counts) == 4 else None
            if above is not None and numbers is not None:
                callers.append([*function, *above, *numbers])
    return functions, callers, broken


def _function(key: Any) -> tuple[str, str, int] | None:
    if not (isinstance(key, tuple) and len(key) == 3):
        return None
    file, line, name = key
    if not (isinstance(file, str) and isinstance(line, int) and isinstance(name, str)):
        return None
    # built-in functions have the file "~"
    return name, "" if file == "~" else file, line if 0 < line < 2**31 else 0


def _numbers(values: tuple[Any, ...]) -> tuple[int, int, int, int] | None:
    """Return calls, primitive calls, own and cumulative ns, from (primitive, calls, own s, cumulative s)."""
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in values):
        return None
    primitive, calls, own, total = values
    if not (0 <= own < _LONGEST_S and 0 <= total < _LONGEST_S and abs(calls) < 2**62 > abs(primitive)):
        return None
    return int(calls), int(primitive), round(own * 1e9), round(total * 1e9)


def _frame_table(rows: list[list[Any]], columns: list[str]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=columns)
    whole = [name for name in columns if name in _FUNCTIONS or name.endswith("line")]
    return table.astype(dict.fromkeys(whole, "int64"))
