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
from functools import partial
from pathlib import Path
from typing import Any, Final

import pandas as pd
from pandas.api.types import infer_dtype, is_object_dtype

from ..atomic_files import atomic_file, cannot_write
from ..errors import OptionError
from ..trace.arrays import FIRST, FORMAT, LAST, SCHEMA, TABLE_SUFFIX
from ..trace.schema import TABLES
from ..trace.trace import Trace
from .values import ValueEncoder


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
_ISSUE: Final = ("code", "severity", "count", "example", "effect", "advice")


def write_native(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a Trace in our own format: a file if `path` ends in ``.zip``, else a folder."""
    # ``format.json`` comes first, then a Parquet file for each table and each DataFrame of the metadata, and
    # ``metadata.json`` last: it has the schema's version, the metadata, the report, and size and checksum of
    # every other file. Columns are compressed with LZ4. Metadata that is neither a number, text, a container
    # nor a table is kept as text, and the reopened report says so (``metadata-as-text``).
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
    metadata, report = frames.values.encode(dict(trace.metadata)), trace.report.copy()
    lost, effect = frames.values.lost, "kept as text in the saved file"
    report.add("metadata-as-text", "info", len(lost), (lost or [""])[0], effect)
    content: dict[str, Any] = {
        "format": FORMAT,
        "schema": SCHEMA,
        "span": [int(trace.span.start), int(trace.span.end)],
        "metadata": metadata,
        "report": [{name: getattr(issue, name) for name in _ISSUE} for issue in report],
        "columns": frames.columns,
        "files": dict(frames.files),
    }
    frames.put_json(LAST, content)


class _FrameWriter:
    """Writes DataFrames as Parquet files and records what Parquet does not keep."""

    def __init__(self, put: Callable[[str, memoryview], object]) -> None:
        self._put = put
        self.values = ValueEncoder(self.extra)
        self.files: dict[str, dict[str, int]] = {}  # sizes and checksums
        self.columns: dict[str, dict[str, Any]] = {}  # by table and column; see `ColumnDecoder`
        self._extras = 0

    def put_json(self, name: str, content: dict[str, Any]) -> None:
        self._put_bytes(name, json.dumps(content).encode("ascii"))

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
        import pyarrow as pa
        import pyarrow.parquet as pq

        stored, changed = frame.copy(deep=False), dict[str, Any]()
        for label, column in frame.items():
            dtype, key = column.dtype, str(label)
            if isinstance(dtype, pd.CategoricalDtype):
                words = dtype.categories
                if not column.notna().any() or not _is_text(words):  # an unused dictionary is not written
                    stored[label] = column.cat.codes
                    changed[key] = {
                        "categories": [self.values.encode(word) for word in words],
                        "dtype": str(words.dtype),
                        "ordered": bool(dtype.ordered),
                    }
                elif is_object_dtype(words.dtype):
                    changed[key] = "object"
            elif is_object_dtype(dtype) or isinstance(dtype, pd.StringDtype):
                if not _is_text(column):
                    texts = [json.dumps(self.values.encode(value, f"column {label!r}")) for value in column]
                    stored[label] = pd.Series(texts, index=column.index, dtype=object)
                    changed[key] = "json"
                elif is_object_dtype(dtype):
                    changed[key] = "object"
        if changed:
            self.columns[name] = changed
        table = pa.Table.from_pandas(stored)
        sink = pa.BufferOutputStream()
        # one row group without a limit: a categorical's dictionary is then written completely, and once
        pq.write_table(
            table,
            sink,
            compression="lz4",
            row_group_size=max(1, table.num_rows),
            use_dictionary=[field.name for field in table.schema if not pa.types.is_primitive(field.type)],
            dictionary_pagesize_limit=_DICTIONARY_BYTES,
            write_statistics=False,
        )
        self._put_bytes(name + TABLE_SUFFIX, sink.getvalue())


def _is_text(values: Any) -> bool:
    """Return whether all values are texts of valid Unicode, or missing."""
    import pyarrow as pa

    if infer_dtype(values, skipna=True) not in ("string", "empty"):
        return False
    try:
        pa.array(values, type=pa.string(), from_pandas=True)
    except (UnicodeEncodeError, pa.ArrowException):
        return False
    return True
