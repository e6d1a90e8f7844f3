"""What of a Trace changes when it is written and read again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from notebook_prof.trace import TABLES, Trace

from .frames import differences


def changes(before: Trace, after: Trace) -> list[str]:
    """Everything that differs, in words; nothing where all is the same.

    Metadata is compared by what JSON can say of it, but for the name of the file, which is that of the file
    that was read. Categories of tables in the metadata may have another order.
    """
    messages = [
        table.name for table in TABLES if _differ(getattr(before, table.name), getattr(after, table.name))
    ]
    metadata = _metadata(after) if "source" in before.metadata else {**_metadata(after), "source": None}
    messages += [
        f"metadata {key}" for key in ({"source": None} | _metadata(before)).items() ^ metadata.items()
    ]
    tables = [trace.metadata.get("tables") or {} for trace in (before, after)]
    if list(tables[0]) != list(tables[1]):
        return [*messages, f"tables {list(tables[0])} become {list(tables[1])}"]
    messages += [f"table {name}" for name, table in tables[0].items() if not _same(table, tables[1][name])]
    messages += ["report"] if list(before.report) != list(after.report) else []
    return messages + (["span"] if before.span != after.span else [])


def _differ(left: pd.DataFrame, right: pd.DataFrame) -> bool:
    return len(left) != len(right) or not differences(left, right).empty


def _same(left: Any, right: Any) -> bool:
    if not isinstance(left, pd.DataFrame):
        return bool(left == right)
    frames = [left.reset_index(drop=True), right]
    words = [name for name in left if isinstance(left[name].dtype, pd.CategoricalDtype)]
    if any(not isinstance(right[name].dtype, pd.CategoricalDtype) for name in words if name in right):
        return False
    try:
        pd.testing.assert_frame_equal(*(frame.astype(dict.fromkeys(words, object)) for frame in frames))
    except (AssertionError, KeyError):
        return False
    return True


def _metadata(trace: Trace) -> dict[str, str]:
    metadata = {key: value for key, value in trace.metadata.items() if key not in ("file", "tables")}
    return {key: repr(_sayable(value)) for key, value in metadata.items()}


def _sayable(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _sayable(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_sayable(part) for part in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, str | int | float):
        return None if isinstance(value, float) and not np.isfinite(value) else value
    return str(value)
