"""Any table of a Trace, or of an analysis, as a file that every tool reads."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd

from ..errors import OptionError


def write_table(frame: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """Write a table as CSV, or as Parquet if `path` ends in ``.parquet``.

    Parameters
    ----------
    frame : DataFrame
        As in ``trace.slices`` or from an analysis; its index is written only if it does more than count
        the rows.
    path : path
        ``.csv``, ``.csv.gz``, ``.tsv`` or ``.tsv.gz``: UTF-8 with a header; ``.parquet``: with all dtypes.
        An existing file is replaced.

    Raises
    ------
    OptionError
        For another suffix.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "t.csv"
    >>> write_table(pd.DataFrame({"name": ["a"], "total_ns": [3]}), file)
    >>> print(file.read_text(), end="")
    name,total_ns
    a,3
    """
    target = Path(path)
    name = target.name.lower()
    index = not (isinstance(frame.index, pd.RangeIndex) and frame.index.names == [None])
    if name.endswith(".parquet"):
        frame.to_parquet(target, index=index, engine="pyarrow")
    elif name.endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz")):
        separator = "\t" if name.endswith((".tsv", ".tsv.gz")) else ","
        frame.to_csv(target, index=index, sep=separator, lineterminator="\n")
    else:
        raise OptionError(f"{target.name}: a table is written as .csv, .csv.gz, .tsv, .tsv.gz or .parquet")
