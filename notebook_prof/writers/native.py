"""Our own format: lossless, and opens at once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import pandas as pd

from ..trace.layout import FORMAT, LAST, SCHEMA, TABLE_SUFFIX
from ..trace.report import ImportReport
from ..trace.schema import TABLES
from ..trace.trace import Trace
from .columns import Encoded, encode_column
from .container import Container
from .values import ValueEncoder

_DICTIONARY_BYTES: Final = 1 << 30


def write_native(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a Trace in our own format: a file if `path` ends in ``.zip``, else a folder.

    >>> import tempfile
    >>> from notebook_prof import TraceBuilder, read_trace
    >>> b = TraceBuilder(metadata={"note": ("any", 1)})
    >>> _ = b.slices(ts=[0, 2], dur=[9, 3], name=["linear", "mm"], track=b.track("main"))
    >>> folder = Path(tempfile.mkdtemp()) / "run.nbprof"
    >>> write_native(b.seal(), folder)
    >>> read_trace(folder).metadata["note"]
    ('any', 1)
    """
    # ``format.json`` comes first, then a Parquet file for each table and each DataFrame of the metadata, and
    # ``metadata.json`` last: it has the schema's version, the columns' dtypes, the metadata, the report, and
    # size and checksum of every other file. Columns are compressed with LZ4. Metadata that is neither a
    # number, text, a container, an array nor a table is kept as text, and the reopened report says so
    # (``metadata-as-text``).
    with Container(Path(path)) as container:
        frames = _Frames(container)
        values = ValueEncoder(frames.extra)
        frames.values = values
        # one shallow copy of each table: the trace itself does not change
        tables = {table.name: getattr(trace, table.name) for table in TABLES}
        for name, frame in tables.items():
            frames.put(name, frame)
        metadata = values.encode(dict(trace.metadata))
        content: dict[str, Any] = {
            "format": FORMAT,
            "schema": SCHEMA,
            "span": [int(trace.span.start), int(trace.span.end)],
            "metadata": metadata,
            "report": [_issue_fields(issue) for issue in _with_losses(trace.report, values)],
            "frames": frames.described,
            "files": dict(container.files),
        }
        container.put(LAST, content)


class _Frames:
    """Writes DataFrames as Parquet files and records how to rebuild them."""

    values: ValueEncoder

    def __init__(self, container: Container) -> None:
        self._container = container
        self.described: dict[str, dict[str, Any]] = {}
        self._extras = 0

    def extra(self, frame: pd.DataFrame) -> str:
        """Write a DataFrame of the metadata; returns its name."""
        self._extras += 1
        name = f"extra-{self._extras}"
        self.put(name, frame)
        return name

    def put(self, name: str, frame: pd.DataFrame) -> None:
        """Write a DataFrame under this name."""
        described: dict[str, Any] = {"rows": len(frame), "columns": []}
        encoded: dict[str, Encoded] = {}
        for i in range(frame.shape[1]):
            column = encode_column(frame.iloc[:, i], self.values)
            label = frame.columns[i]
            field = label if type(label) is str and label.isidentifier() else f"column {i}"
            field = field if field not in encoded else f"column {i}"
            encoded[field] = column
            how = {"field": field, "label": self.values.encode(label), **column.how}
            described["columns"].append(how)
        if not _is_default(frame.index):
            described["index"] = self._index(frame.index, encoded)
        if frame.columns.nlevels > 1 or frame.columns.names != [None]:
            described["labels"] = [self.values.encode(label) for label in frame.columns.names]
        if frame.attrs:
            described["attrs"] = self.values.encode(dict(frame.attrs))
        self.described[name] = described
        self._write(name + TABLE_SUFFIX, encoded)

    def _index(self, index: pd.Index[Any], encoded: dict[str, Encoded]) -> list[dict[str, Any]]:
        levels = []
        for i in range(index.nlevels):
            level = index.get_level_values(i)
            column = encode_column(pd.Series(level, index=range(len(level))), self.values)
            encoded[f"index {i}"] = column
            levels.append({"field": f"index {i}", "label": self.values.encode(level.name), **column.how})
        return levels

    def _write(self, name: str, encoded: dict[str, Encoded]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        arrays = {field: column.array for field, column in encoded.items()}
        table = pa.table(arrays)
        words = [field for field, column in encoded.items() if column.how["kind"] in ("words", "text")]
        with self._container.open(name) as file:
            # one row group without a limit: a categorical's dictionary is then written completely, and once
            pq.write_table(
                table,
                file,
                compression="lz4",
                row_group_size=max(1, table.num_rows),
                use_dictionary=words,
                dictionary_pagesize_limit=_DICTIONARY_BYTES,
                write_statistics=False,
            )


def _is_default(index: pd.Index[Any]) -> bool:
    return isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1 and index.names == [None]


def _with_losses(report: ImportReport, values: ValueEncoder) -> ImportReport:
    with_losses = report.copy()
    with_losses.add(
        "metadata-as-text",
        "info",
        len(values.lost),
        example=values.lost[0] if values.lost else "",
        effect="kept as text in the saved file",
    )
    return with_losses


def _issue_fields(issue: Any) -> dict[str, Any]:
    names = ("code", "severity", "count", "example", "effect", "advice")
    return {name: getattr(issue, name) for name in names}
