"""Our own format: lossless, and opens at once."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from ..atomic_files import atomic_file, cannot_write
from ..errors import OptionError
from ..trace.arrays import FIRST, FORMAT, LAST, SCHEMA, TABLE_SUFFIX
from ..trace.report import ImportReport
from ..trace.schema import TABLES
from ..trace.trace import Trace
from .values import ValueEncoder

# Columns of a DataFrame as Arrow arrays, with the information to rebuild them exactly.

_MASKED: Final = frozenset(
    [*(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)), "Float32", "Float64", "boolean"]
)
_TEXT: Final = ("object", "str", "string")


@dataclass(frozen=True, slots=True)
class Encoded:
    """One column; `how` has ``kind``, ``dtype`` and details of the kind, for ``metadata.json``."""

    array: Any
    how: dict[str, Any]


def encode_column(column: pd.Series[Any], values: ValueEncoder) -> Encoded:
    """Encode a column as what is stored and how it is described."""
    # Of the kinds, `words` is a categorical of text, a dictionary with all categories in order, also unused
    # ones; `codes` is any other categorical, with the categories in the description; `masked` and `text` are
    # null where missing; `ticks` are dates and durations as int64; `values` is JSON for each value.
    import pyarrow as pa

    dtype = column.dtype
    how: dict[str, Any] = {"kind": "plain", "dtype": str(dtype)}
    if isinstance(dtype, pd.CategoricalDtype):
        return _categorical(column, how, values)
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf" and dtype.itemsize <= 8:
        stored = column.to_numpy()
        # Parquet has no half floats in older versions
        return Encoded(pa.array(stored.astype(np.float32) if dtype == np.float16 else stored), how)
    if isinstance(dtype, np.dtype) and dtype.kind in "mM":
        return Encoded(pa.array(column.to_numpy().view(np.int64)), {**how, "kind": "ticks"})
    inner = getattr(dtype, "numpy_dtype", None)
    if how["dtype"] in _MASKED and isinstance(inner, np.dtype):
        missing = column.isna().to_numpy()
        plain = column.array.to_numpy(dtype=inner, na_value=inner.type(0))
        return Encoded(pa.array(plain, mask=missing), {**how, "kind": "masked"})
    if how["dtype"].startswith(_TEXT) and (array := _text(column)) is not None:
        return Encoded(array, {**how, "kind": "text"})
    texts = [json.dumps(values.encode(value, f"column {column.name!r}")) for value in column.array]
    return Encoded(pa.array(texts, type=pa.string()), {**how, "kind": "values"})


def _categorical(column: pd.Series[Any], how: dict[str, Any], values: ValueEncoder) -> Encoded:
    import pyarrow as pa

    categories = column.cat.categories
    codes = column.cat.codes.to_numpy().astype(np.int32)
    how |= {"kind": "words", "ordered": bool(column.cat.ordered), "index_dtype": str(categories.dtype)}
    how["categories"] = len(categories)
    # an unused dictionary would not be written
    words = _text(categories.to_series()) if (codes >= 0).any() else None
    if words is not None and not words.null_count:
        return Encoded(pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), words), how)
    listed = [values.encode(value, f"column {column.name!r}") for value in categories]
    return Encoded(pa.array(codes), {**how, "kind": "codes", "categories": listed})


def _text(column: pd.Series[Any]) -> Any:
    """Return the strings, or None if some are not strings, not valid Unicode, or missing in another way."""
    import pyarrow as pa

    strings = column.astype(object).to_numpy(copy=True)
    if any(type(value) is not str for value in strings):
        missing = column.isna().to_numpy()
        unlike = [value for value in strings[missing] if value is not None] if column.dtype == object else []
        if unlike or any(type(value) is not str for value in strings[~missing]):
            return None
        strings[missing] = None
    try:
        array = pa.array(strings, type=pa.string())
    except (UnicodeEncodeError, pa.ArrowException):
        return None
    return array if isinstance(array, pa.Array) else None


@contextmanager
def _atomic_folder(target: Path) -> Iterator[Path]:
    """Make a folder under a temporary name, which replaces `target` when the block ends without an error."""
    # Leftovers of a killed process lack their last file and are recognised by that.
    part = target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")
    try:
        part.mkdir(mode=0o700)
        yield part
        _replace(part, target)
    except OSError as error:
        raise cannot_write(target, error) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _replace(part: Path, target: Path) -> None:
    if not target.exists():
        os.replace(part, target)
        return
    # a folder cannot be replaced atomically
    old = part.with_suffix(".old")
    os.replace(target, old)
    try:
        os.replace(part, target)
    except BaseException:
        os.replace(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _write_file(folder: Path, name: str, content: memoryview) -> None:
    with (folder / name).open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _check_target(path: Path, is_zip: bool) -> None:
    if not path.parent.is_dir():
        raise OptionError(f"{path.name!r} cannot be written: there is no folder {str(path.parent)!r}")
    if not path.exists():
        return
    ours = (path / FIRST).is_file() or not any(path.iterdir()) if path.is_dir() else False
    if is_zip and path.is_dir():
        raise OptionError(f"{path.name!r} is a folder, but a zip archive of that name was requested")
    if not is_zip and not ours:
        what = "a folder with other files" if path.is_dir() else "a file"
        raise OptionError(
            f"{path.name!r} is {what}, and is not overwritten with a recording, which is a folder: "
            "choose another name, or one that ends in .zip"
        )


_DICTIONARY_BYTES: Final = 1 << 30


def write_native(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a Trace in our own format: a file if `path` ends in ``.zip``, else a folder."""
    # ``format.json`` comes first, then a Parquet file for each table and each DataFrame of the metadata, and
    # ``metadata.json`` last: it has the schema's version, the columns' dtypes, the metadata, the report, and
    # size and checksum of every other file. Columns are compressed with LZ4. Metadata that is neither a
    # number, text, a container, an array nor a table is kept as text, and the reopened report says so
    # (``metadata-as-text``).
    target = Path(path)
    is_zip = target.name.endswith(".zip")
    _check_target(target, is_zip)
    if is_zip:
        with atomic_file(target, private=True) as file, zipfile.ZipFile(file, "w") as archive:
            _write(trace, archive.writestr)
    else:
        with _atomic_folder(target) as folder:
            _write(trace, partial(_write_file, folder))


def _write(trace: Trace, put: Callable[[str, memoryview], object]) -> None:
    frames = _FrameWriter(put)
    frames.put_json(FIRST, {"format": FORMAT, "schema": SCHEMA})
    for table in TABLES:
        frames.put(table.name, getattr(trace, table.name))
    metadata = frames.values.encode(dict(trace.metadata))
    content: dict[str, Any] = {
        "format": FORMAT,
        "schema": SCHEMA,
        "span": [int(trace.span.start), int(trace.span.end)],
        "metadata": metadata,
        "report": [_issue_fields(issue) for issue in _with_losses(trace.report, frames.values)],
        "frames": frames.described,
        "files": dict(frames.files),
    }
    frames.put_json(LAST, content)


class _FrameWriter:
    """Writes DataFrames as Parquet files and records how to rebuild them."""

    def __init__(self, put: Callable[[str, memoryview], object]) -> None:
        self._put = put
        self.values = ValueEncoder(self.extra)
        self.files: dict[str, dict[str, int]] = {}  # sizes and checksums
        self.described: dict[str, dict[str, Any]] = {}
        self._extras = 0

    def put_json(self, name: str, content: dict[str, Any]) -> None:
        """Write a file of JSON."""
        self._put_bytes(name, json.dumps(content, allow_nan=False).encode("ascii"))

    def _put_bytes(self, name: str, content: Any) -> None:
        view = memoryview(content)
        self.files[name] = {"bytes": len(view), "crc32": zlib.crc32(view)}
        self._put(name, view)

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
        sink = pa.BufferOutputStream()
        # one row group without a limit: a categorical's dictionary is then written completely, and once
        pq.write_table(
            table,
            sink,
            compression="lz4",
            row_group_size=max(1, table.num_rows),
            use_dictionary=words,
            dictionary_pagesize_limit=_DICTIONARY_BYTES,
            write_statistics=False,
        )
        self._put_bytes(name, sink.getvalue())


def _is_default(index: pd.Index[Any]) -> bool:
    return isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1 and index.names == [None]


def _with_losses(report: ImportReport, values: ValueEncoder) -> ImportReport:
    with_losses = report.copy()
    first, effect = (values.lost or [""])[0], "kept as text in the saved file"
    with_losses.add("metadata-as-text", "info", len(values.lost), first, effect)
    return with_losses


def _issue_fields(issue: Any) -> dict[str, Any]:
    names = ("code", "severity", "count", "example", "effect", "advice")
    return {name: getattr(issue, name) for name in names}
