"""Filter, aggregate and rank calls of operators, as MegEngine's ``profile_analyze`` does."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from ...analysis.time.operators import calls
from ...errors import OptionError, nearest
from ...trace import Trace

AGGREGATES: Final = ("max", "min", "sum", "mean")
ORDERS: Final = ("time", "computation", "memory", "flops", "bandwidth", "in_shapes", "out_shapes")
_SECOND: Final = 1e9


def ranked_calls(
    trace: Trace | pd.DataFrame,
    *,
    on: str | None = None,
    end_key: str = "end",
    top: int = 3,
    types: Sequence[str] | None = None,
    name: str | None = None,
    input_dtype: str | None = None,
    aggregate: str | None = None,
    aggregate_by: str | None = None,
    order_by: str = "time",
    min_time_s: float = -np.inf,
    max_time_s: float = np.inf,
) -> pd.DataFrame:
    """Rank calls of operators by time, work or rate, as MegEngine's ``profile_analyze`` does.

    Parameters
    ----------
    trace : Trace or DataFrame
        A recording, or its calls as returned by `calls`.
    on : str, optional
        ``device`` or ``host``. By default ``device``, or ``host`` if no call ran on a device.
    end_key : str
        ``end``: time until the work ended; ``kern``: until the call to the kernel returned.
    top : int
        Number of rows; 0 for all.
    types : sequence of str, optional
        Keep only operators of exactly these types.
    name : str, optional
        Keep only operators whose name matches this regular expression from the start.
    input_dtype : str, optional
        Keep only operators that have an input of this type. Operators with unknown types are left out.
    aggregate : str, optional
        ``max min sum mean``, over all calls that are kept or, with `aggregate_by`, over each type.
    aggregate_by : str, optional
        ``type``. `aggregate` is then ``sum`` by default.
    order_by : str
        ``time computation memory flops bandwidth in_shapes out_shapes``: largest first, or smallest first
        with a leading ``+``. Unknown values count as the largest.
    min_time_s, max_time_s : float
        Keep only calls (before aggregation) with a time between these two, inclusive.

    Returns
    -------
    DataFrame
        ``name type id`` str, ``count`` int64, ``time_s cumulative_s`` float64, ``share cumulative_share``
        float64 (of the time of *all* calls, kept or not), ``computation`` FLOP, ``flops_per_s``,
        ``memory_bytes``, ``bytes_per_s`` float64, NaN where unknown and infinite for a time of 0; ``in_shapes
        out_shapes in_layouts`` as in `calls`. Ties stay in order of execution.

    Raises
    ------
    OptionError
        For an unknown order or aggregate, or a regular expression that is none.

    Notes
    -----
    The rules are those of ``megengine.tools.profile_analyze``: missing numbers count as 0 in ``mean`` and
    ``sum``, and the rates of an aggregate are quotients of its sums. Where that tool fails because of its
    placeholder for missing numbers, this does what it was meant to do.

    Examples
    --------
    >>> from notebook_prof import Profile
    >>> from notebook_prof.testing import draw
    >>> p = Profile(draw("main: [mm     ][add]"))
    >>> p.compat.megengine(top=1)[["name", "count"]].values.tolist()
    [['mm', 1]]
    """
    table = trace if isinstance(trace, pd.DataFrame) else calls(trace)
    if on is None:
        on = "device" if table["device_ns"].notna().any() else "host"
    column = f"{on}_ns" if end_key == "end" else f"{on}_kern_ns"
    total = float(table[f"{on}_ns"].sum()) / _SECOND
    ran = table[table[column].notna()]
    time_s = ran[column].astype("float64") / _SECOND
    in_time = (time_s >= min_time_s) & (time_s <= max_time_s)
    kept = ran[_mask(ran, types, name, input_dtype) & in_time]
    if aggregate or aggregate_by:
        how = _checked(aggregate or "sum", AGGREGATES, "aggregate")
        ranked = _groups(kept, column, how, aggregate_by)
    else:
        facts = kept[["name", "type", "id", "in_shapes", "out_shapes", "in_layouts"]].assign(count=1)
        ranked = pd.concat([facts, _values(kept, column)], axis=1)
    for rate, work in (("flops_per_s", "computation"), ("bytes_per_s", "memory_bytes")):
        with np.errstate(divide="ignore", invalid="ignore"):
            ranked[rate] = ranked[work].to_numpy() / ranked["time_s"].to_numpy()
    ranked = _ordered(ranked, order_by)
    ranked = ranked.head(top) if top > 0 else ranked
    ranked["cumulative_s"] = ranked["time_s"].cumsum()
    for share, time in (("share", "time_s"), ("cumulative_share", "cumulative_s")):
        ranked[share] = ranked[time] / total if total else 0.0
    return ranked.reset_index(drop=True)


def _mask(
    ran: pd.DataFrame, types: Sequence[str] | None, name: str | None, input_dtype: str | None
) -> pd.Series[bool]:
    keep = pd.Series(True, index=ran.index)
    if types:
        keep &= ran["type"].isin(list(types))
    if name is not None:
        try:
            pattern = re.compile(name)
        except re.error as error:
            raise OptionError(f"{name!r} is not a regular expression: {error}") from error
        keep &= ran["name"].map(lambda text: pattern.match(text) is not None).astype(bool)
    if input_dtype is not None:
        has = [isinstance(dtypes, list) and input_dtype in dtypes for dtypes in ran["in_dtypes"]]
        keep &= np.array(has, bool)
    return keep


def _values(kept: pd.DataFrame, column: str) -> pd.DataFrame:
    values = kept[[column, "flops", "bytes"]].astype("float64")
    values.columns = ["time_s", "computation", "memory_bytes"]
    return values.assign(time_s=values["time_s"] / _SECOND)


def _groups(kept: pd.DataFrame, column: str, aggregate: str, by: str | None) -> pd.DataFrame:
    if by not in (None, "type"):
        raise OptionError(f"calls cannot be aggregated by {by!r}: choose type")
    key = (kept["type"] if by else pd.Series("all", index=kept.index)).to_numpy()
    values = _values(kept, column)
    groups = values.fillna(0.0).groupby(key, sort=False)
    unknown = values.isna().groupby(key, sort=False).all()
    table = groups.agg(aggregate).mask(unknown).reset_index(names="type")
    shapes = dict.fromkeys(("in_shapes", "out_shapes", "in_layouts"))
    return table.assign(count=groups.size().to_numpy(), name="", id="N/A", **shapes)


def _ordered(table: pd.DataFrame, order_by: str) -> pd.DataFrame:
    ascending = order_by.startswith("+")
    word = _checked(order_by.lstrip("+-"), ORDERS, "order")
    column = {"time": "time_s", "memory": "memory_bytes", "flops": "flops_per_s", "bandwidth": "bytes_per_s"}
    values: Any = table[column.get(word, word)]
    if word.endswith("shapes"):
        values = values.map(_sizes)
        ranked = sorted(range(len(table)), key=values.tolist().__getitem__, reverse=not ascending)
        return table.iloc[ranked].copy()
    order = np.argsort(values.fillna(np.inf).to_numpy() * (1 if ascending else -1), kind="stable")
    return table.iloc[order].copy()


def _sizes(shapes: Any) -> list[list[int]]:
    try:
        sizes = json.loads(shapes) if isinstance(shapes, str) else []
    except json.JSONDecodeError:
        return []
    return [entry for entry in sizes if all(isinstance(size, int) for size in entry)]


def _checked(word: str, words: Sequence[str], what: str) -> str:
    if word not in words:
        raise OptionError(f"there is no {what} {word!r}: {nearest(word, words)}")
    return word
