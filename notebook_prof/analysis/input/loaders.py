"""How the DataLoaders of a recording were made."""

from __future__ import annotations

from typing import Final

import pandas as pd

from ...trace import Trace
from ...trace.schema import Column, Table

LOADERS: Final = Table(
    "loaders",
    (
        Column("dataset", "str", "", "class of the dataset; of a Subset, what it takes its items from"),
        Column("method", "str", "", "`__getitem__` or `__iter__`"),
        Column("file", "str", "", "where that method is defined; empty where it is not Python"),
        Column("line", "int64", "", "its first line; -1 where it is not known"),
        Column("in_memory", "bool", "", "a TensorDataset"),
        Column("batched", "bool", "", "the dataset gives whole batches"),
        Column("batch_size", "int64", "", "0 where it is not known"),
        Column("num_workers", "int64", "", "processes that make batches; 0: the loop's own thread"),
        Column("prefetch_factor", "int64", "", "batches that a worker makes ahead"),
        Column("pin_memory", "bool", "", ""),
        Column("persistent_workers", "bool", "", ""),
        Column("iterators", "int64", "", "how often it was begun: epochs"),
    ),
)


def loaders(trace: Trace) -> pd.DataFrame:
    """List the DataLoaders of which an iterator was made while the recording ran.

    Parameters
    ----------
    trace : Trace

    Returns
    -------
    DataFrame
        A row a setting, in order of first use; no rows where none was seen, as in files of other profilers.

        - ``dataset method file line``: where items are made;
        - ``in_memory``, ``batched`` bool; ``batch_size``, ``num_workers``, ``prefetch_factor`` int64;
          ``pin_memory``, ``persistent_workers`` bool: as the loader was made;
        - ``iterators`` int64: how many were begun.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> loaders(TraceBuilder().seal()).empty
    True
    """
    rows = trace.metadata.get("loaders")
    usable = [row for row in rows if set(LOADERS.names) <= set(row)] if isinstance(rows, list) else []
    return LOADERS.frame({name: [row[name] for row in usable] for name in LOADERS.names})
