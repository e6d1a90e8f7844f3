"""Reads and checks the files of a recording in a folder or a zip."""

from __future__ import annotations

import base64
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from ...errors import FormatError
from ...trace.arrays import FIRST, FORMAT, LAST, MAX_NESTING, OLDEST_SCHEMA, SCHEMA, TAG
from ...units import format_bytes
from ..codec.compression import MAX_BYTES

DTYPE: Final = re.compile(r"[<>|=]?([biuf]\d|[mM]8\[\w{1,2}\])")
_FLOATS: Final = ("nan", "inf", "-inf")
_MADE_OF_TEXT: Final[dict[str, Callable[[Any], Any]]] = {
    "text": str, "bytes": base64.b64decode, "Timestamp": pd.Timestamp, "Timedelta": pd.Timedelta,
}  # fmt: skip


class ValueDecoder:
    """Reverses `writers.values.ValueEncoder`; `frame` reads the DataFrame with a given name."""

    def __init__(self, frame: Callable[[str], pd.DataFrame]) -> None:
        self._frame = frame

    def decode(self, value: Any, depth: int = 0) -> Any:
        """Decode a value; FormatError for a tag or content that the writer never writes."""
        if depth > 4 * MAX_NESTING:
            raise FormatError("the metadata is nested too deeply")
        if isinstance(value, list):
            return [self.decode(part, depth + 1) for part in value]
        if not isinstance(value, dict):
            return value
        if TAG not in value:
            return {key: self.decode(part, depth + 1) for key, part in value.items()}
        try:
            return self._tagged(value[TAG], value.get("v"), value, depth + 1)
        except (TypeError, ValueError, KeyError, OverflowError, AttributeError) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(f"the metadata is damaged: {str(value)[:80]} ({error})") from error

    def _tagged(self, kind: Any, v: Any, value: dict[str, Any], depth: int) -> Any:
        if kind in ("tuple", "set", "frozenset"):
            parts = [self.decode(part, depth) for part in v]
            return {"tuple": tuple, "set": set, "frozenset": frozenset}[kind](parts)
        if kind == "dict":
            return {self.decode(key, depth): self.decode(part, depth) for key, part in v}
        if kind == "int":
            return int(v, 16)
        if kind == "float" and v in _FLOATS:
            return float(v)
        if (make := _MADE_OF_TEXT.get(kind)) is not None:
            return make(v)
        if kind == "numpy":
            return dtype_of(value["dtype"]).type(self.decode(v, depth))
        if kind == "missing":
            return pd.NaT if v == "NaT" else pd.NA
        if kind == "frame":
            return self._frame(v)
        if kind == "series":
            series = self._frame(v)["values"]
            series.name = self.decode(value["name"], depth)
            return series
        if kind == "array":
            return self._frame(v)["values"].to_numpy().reshape(value["shape"])
        raise FormatError(f"the metadata has a value of the unknown kind {kind!r}")


def dtype_of(text: Any) -> np.dtype[Any]:
    """Return the numpy dtype with this name. Only numbers and times are allowed."""
    if not isinstance(text, str) or not DTYPE.fullmatch(text):
        raise FormatError(f"no column has the dtype {str(text)[:40]!r}")
    return np.dtype(text)


_MASKED: Final = re.compile(r"U?Int(?:8|16|32|64)|Float(?:32|64)|boolean")
_PLAIN: Final = frozenset(
    ["bool", "float16", "float32", "float64", *(f"{s}int{b}" for s in ("", "u") for b in (8, 16, 32, 64))]
)
_TEXT: Final = ("object", "str", "string")


def decode_column(array: Any, how: dict[str, Any], values: ValueDecoder) -> Any:
    """Return a column as a numpy or pandas array; FormatError if it does not match its description."""
    # `how` is the description by `writers.native.encode_column`.
    kind, dtype = how.get("kind"), str(how.get("dtype"))
    try:
        if kind == "plain" and dtype in _PLAIN:
            return array.to_numpy().astype(dtype, copy=False)
        if kind == "masked" and _MASKED.fullmatch(dtype):
            return pd.api.types.pandas_dtype(dtype).__from_arrow__(array)
        if kind == "ticks":
            return array.to_numpy().astype(np.int64, copy=False).view(_time(dtype))
        if kind in ("words", "codes"):
            return _categorical(array, how, values)
        if kind == "text" and dtype.startswith(_TEXT):
            return _text(array, dtype)
        if kind == "values":
            decoded = [values.decode(json.loads(text)) for text in array.to_pylist()]
            return _object(decoded) if dtype == "object" else pd.array(decoded, dtype=dtype)
    except (TypeError, ValueError, KeyError, RecursionError, OverflowError, AttributeError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"the column {how.get('field')!r} is damaged: {error}") from error
    raise FormatError(f"the column {how.get('field')!r} is a {kind!r} of {dtype!r}, which is unknown")


def _categorical(array: Any, how: dict[str, Any], values: ValueDecoder) -> pd.Categorical:
    ordered = bool(how.get("ordered"))
    if how["kind"] == "codes":
        words = [values.decode(value) for value in how["categories"]]
        index = pd.Index(words) if how["index_dtype"] != "object" else pd.Index(words, dtype=object)
        if how["index_dtype"] != str(index.dtype):
            index = index.astype(how["index_dtype"])
        return pd.Categorical.from_codes(array.to_numpy(), categories=index, ordered=ordered)
    whole = array.unify_dictionaries().combine_chunks()
    dictionary = whole.dictionary
    if len(dictionary) != how["categories"]:
        raise FormatError(
            f"the column {how['field']!r} is damaged: {len(dictionary)} categories instead of "
            f"{how['categories']}"
        )
    codes = whole.indices.fill_null(-1).to_numpy()
    words = pd.Index(dictionary.to_pylist(), dtype=text_dtype(how["index_dtype"]))
    return pd.Categorical.from_codes(codes, categories=words, ordered=ordered)


def _text(array: Any, dtype: str) -> Any:
    words = array.to_pylist()
    return _object(words) if dtype == "object" else pd.array(words, dtype=text_dtype(dtype))


def text_dtype(dtype: Any) -> Any:
    """Return the text dtype with this name; ``object`` if there is none."""
    return dtype if isinstance(dtype, str) and dtype.startswith(_TEXT) and len(dtype) < 30 else "object"


def _object(items: list[Any]) -> Any:
    """Return a one-dimensional array of objects, even if they are lists of equal length."""
    out = np.empty(len(items), dtype=object)
    out[:] = items if not items or not isinstance(items[0], list | tuple | np.ndarray) else None
    for i, item in enumerate(items if len(items) and out[0] is None else ()):
        out[i] = item
    return out


def _time(dtype: str) -> np.dtype[Any]:
    if not dtype.startswith(("datetime64[", "timedelta64[")) or len(dtype) >= 20:
        raise FormatError(f"no column has the dtype {dtype[:40]!r}")
    return np.dtype(dtype)


_NAME: Final = re.compile(r"[A-Za-z0-9_-]+\.(parquet|json)")
_NAME_AT: Final = 30  # in a zip: after the fixed part of the first local header
_ZIP: Final = b"PK\x03\x04"
_START: Final = 512
_UNFINISHED: Final = (
    f"the recording was not written to its end ({LAST!r} is missing), so nothing in it is trusted: "
    "save it again where it was made"
)


def is_ours(path: Path) -> bool:
    """Return whether a folder or a zip is marked as a recording in our format, even if it is incomplete."""
    try:
        if path.is_dir():
            return any(
                _says_so((path / name).read_bytes()) for name in (FIRST, LAST) if _is_small_file(path / name)
            )
        with path.open("rb") as file:
            head = file.read(_START)
        if not head.startswith(_ZIP):
            return False
        if starts_like_ours(head):
            return True
        with zipfile.ZipFile(path) as archive:
            return _says_so(archive.open(FIRST).read(_START))
    except (OSError, KeyError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error):
        return False


def starts_like_ours(head: bytes) -> bool:
    """Return whether the first bytes are those of a zip made by our writer."""
    name = FIRST.encode()
    return (
        head.startswith(_ZIP)
        and head[_NAME_AT : _NAME_AT + len(name)] == name
        and FORMAT.encode() in head[:_START]
    )


class Storage:
    """Reads the files of a recording, and checks each against its size and checksum in ``metadata.json``."""

    # FormatError if the recording is incomplete or has an unsupported version.

    def __init__(self, path: Path, max_bytes: int | None = None) -> None:
        self._path = path
        # bytes of unpacked data still allowed
        self.room = MAX_BYTES if max_bytes is None else max_bytes
        self._members: dict[str, zipfile.ZipInfo] = {}
        if not path.is_dir():
            self._list_members()
        first = self._json(FIRST) if self._has_file(FIRST) else {}
        check_version(first or {"schema": SCHEMA})
        if not self._has_file(LAST):
            raise FormatError(_UNFINISHED)
        self.content = self._json(LAST)
        check_version(self.content)
        files = self.content.get("files")
        if self.content.get("format") != FORMAT or not isinstance(files, Mapping):
            raise FormatError(f"{LAST!r} is not that of a recording: {str(self.content)[:80]}")
        self._files: Mapping[str, Any] = files

    def buffer(self, name: str) -> Any:
        """Return a file's content as a pyarrow Buffer; FormatError if it is missing or was changed."""
        entry = self._files.get(name)
        if not isinstance(entry, Mapping):
            raise FormatError(f"{LAST!r} does not list the file {name!r}")
        if not self._has_file(name):
            raise FormatError(f"the file {name!r} is missing: copy the recording again")
        data = self._raw_bytes(name)
        if data.size != entry.get("bytes") or (zlib.crc32(data) if data.size else 0) != entry.get("crc32"):
            raise FormatError(
                f"{name!r} is damaged: it has {data.size:,} bytes, or other bytes, than the "
                f"{entry.get('bytes')} that were written. Copy the recording again"
            )
        return data

    def take(self, size: int) -> None:
        """Count unpacked bytes, and refuse more than the limit."""
        self.room -= size
        if self.room < 0:
            raise FormatError(
                f"it becomes larger than allowed (by {format_bytes(-self.room)}); if the recording is "
                "trusted, give a higher limit with max_bytes="
            )

    def _json(self, name: str) -> dict[str, Any]:
        data = self._raw_bytes(name).to_pybytes()
        try:
            content = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{name!r} is damaged: {error}") from error
        if not isinstance(content, dict):
            raise FormatError(f"{name!r} is damaged: it holds a {type(content).__name__}")
        return content

    def _has_file(self, name: str) -> bool:
        if not _NAME.fullmatch(name):
            raise FormatError(f"{name!r} is not the name of a file of a recording")
        if self._path.is_dir():
            return (self._path / name).is_file()
        return name in self._members

    def _raw_bytes(self, name: str) -> Any:
        import pyarrow as pa

        try:
            if not self._path.is_dir():
                return self._member(self._members[name])
            target = (self._path / name).resolve()
            if not target.is_relative_to(self._path.resolve()):
                raise FormatError(f"{name!r} is a link out of the folder")
            if not target.stat().st_size:
                return pa.py_buffer(b"")
            return pa.OSFile(str(target)).read_buffer()
        except OSError as error:
            raise FormatError(f"{name!r} cannot be read: {error}") from error

    def _list_members(self) -> None:
        try:
            with zipfile.ZipFile(self._path) as archive:
                self._members = {Path(info.filename).name: info for info in archive.infolist()}
        except zipfile.BadZipFile as error:
            # a zip ends with the list of its files
            raise FormatError(f"{_UNFINISHED} ({error})") from error
        except (ValueError, OSError, NotImplementedError, struct.error) as error:
            raise FormatError(f"it is a zip archive that cannot be read ({error})") from error

    def _member(self, info: zipfile.ZipInfo) -> Any:
        """Return the bytes of a file in the zip, which somebody may have compressed."""
        # not mapped, since truncating a mapped file while it is read would kill the process (SIGBUS)
        import pyarrow as pa

        if info.compress_type != zipfile.ZIP_STORED:
            self.take(info.file_size)
        try:
            with zipfile.ZipFile(self._path) as archive, archive.open(info) as file:
                return pa.py_buffer(file.read(info.file_size))
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as error:
            raise FormatError(f"{info.filename!r} is damaged: {error}") from error


def check_version(content: Mapping[str, Any]) -> None:
    """Raise FormatError unless this version of notebook_prof can read the schema."""
    schema = content.get("schema")
    if type(schema) is not int:
        raise FormatError(f"the version of the recording cannot be read: {str(schema)[:40]!r}")
    if schema > SCHEMA:
        raise FormatError(
            f"the recording was saved by a newer notebook_prof: its schema is {schema}, and this one reads "
            f"up to {SCHEMA}. Update with: pip install --upgrade notebook-prof"
        )
    if schema < OLDEST_SCHEMA:
        raise FormatError(
            f"the recording was saved by an older notebook_prof: its schema is {schema}, and this one reads "
            f"from {OLDEST_SCHEMA} on. Open it with that version, or record again"
        )


def _is_small_file(path: Path) -> bool:
    return path.is_file() and path.stat().st_size < 1 << 30


def _says_so(start: bytes) -> bool:
    return f'"format": "{FORMAT}"'.encode() in start[:_START]
