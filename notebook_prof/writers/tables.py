"""Writes any table of a Trace, or of an analysis, as a file for other tools."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

import pandas as pd

from ..atomic_files import atomic_file
from ..errors import OptionError

_NESTED: Final = (dict, list, tuple)


def write_table(frame: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """Write a table as CSV, or as Parquet if `path` ends in ``.parquet``.

    Parameters
    ----------
    frame : DataFrame
        Such as ``trace.slices`` or the result of an analysis; its index is written unless it only counts the
        rows. Lists and dicts in cells become JSON.
    path : path
        ``.csv``, ``.csv.gz``, ``.tsv`` or ``.tsv.gz``: UTF-8 with a header; ``.parquet``: with all dtypes. An
        existing file is replaced.

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
    target, frame = Path(path), _with_texts(frame)
    name = target.name.lower()
    index = not (isinstance(frame.index, pd.RangeIndex) and frame.index.names == [None])
    if name.endswith(".parquet"):
        with atomic_file(target) as file:
            frame.to_parquet(file, index=index, engine="pyarrow")
    elif name.endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz")):
        separator = "\t" if name.endswith((".tsv", ".tsv.gz")) else ","
        packed: Any = {"method": "gzip", "mtime": 0} if name.endswith(".gz") else None
        with atomic_file(target) as file:
            frame.to_csv(file, index=index, sep=separator, lineterminator="\n", compression=packed)
    else:
        raise OptionError(f"{target.name}: a table is written as .csv, .csv.gz, .tsv, .tsv.gz or .parquet")


def _with_texts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with JSON in cells that neither format has a type for."""
    texts = {}
    for i in [i for i, dtype in enumerate(frame.dtypes) if pd.api.types.is_object_dtype(dtype)]:
        cells = frame.iloc[:, i].tolist()
        if any(isinstance(cell, _NESTED) for cell in cells):
            texts_of_cells = [
                json.dumps(cell, default=str) if isinstance(cell, _NESTED) else cell for cell in cells
            ]
            texts[i] = pd.Series(texts_of_cells, index=frame.index, dtype=object)
    if not texts:
        return frame
    columns = [texts.get(i, frame.iloc[:, i]) for i in range(frame.shape[1])]
    return pd.concat(columns, axis=1).set_axis(frame.columns, axis=1)
