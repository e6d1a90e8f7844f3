"""Reads and checks the files of a recording in a folder or a zip."""

from __future__ import annotations

import json
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ...errors import FormatError
from ...trace.arrays import FIRST, FORMAT, LAST, OLDEST_SCHEMA, SCHEMA
from ...units import format_bytes
from ..codec.compression import MAX_BYTES

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
            return any(_says_so(_start(path / name)) for name in (FIRST, LAST) if (path / name).is_file())
        head = _start(path)
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


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_START)


def _says_so(start: bytes) -> bool:
    return f'"format": "{FORMAT}"'.encode() in start
