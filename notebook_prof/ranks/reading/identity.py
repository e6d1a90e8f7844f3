"""What the beginning of a file tells about its rank, without reading the rest."""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from pathlib import Path
from typing import Any, Final

from ...trace.layout import LAST

_HEAD: Final = 64 * 1024
_GZIP: Final = b"\x1f\x8b"
_ZIP: Final = b"PK\x03\x04"
_GZIP_WINDOW: Final = 31
_DISTRIBUTED: Final = re.compile(r'"distributedInfo"\s*:\s*\{')
_VERSION: Final = re.compile(
    r'"((?:\w+_)?version|schemaVersion|schema_version)"\s*:\s*"?([\w.+-]+)"?', re.IGNORECASE
)
_HOST: Final = re.compile(r'"host_name"\s*:\s*"([^"]*)"')
_IN_NAME: Final = re.compile(r"(?:rank|worker|(?<![a-z])r)[-_ ]?(\d+)(?!\d)", re.IGNORECASE)


def facts_of(path: Path) -> dict[str, Any]:
    """Rank, number of ranks, host and versions, as far as the head of a file tells.

    Parameters
    ----------
    path : Path
        A file, compressed with gzip or not, or a recording of our own.

    Returns
    -------
    dict
        ``rank`` and ``world_size`` (int), ``host`` (str), ``versions`` (dict of str); those that are known.
        Empty for a file that cannot be read: reading it as a whole will say why.
    """
    try:
        if path.is_dir():
            return _native((path / LAST).read_bytes()) if (path / LAST).is_file() else {}
        with path.open("rb") as file:
            head = file.read(_HEAD)
        if head.startswith(_ZIP):
            with zipfile.ZipFile(path) as archive:
                return _native(archive.read(LAST))
        if head.startswith(_GZIP):
            head = zlib.decompressobj(_GZIP_WINDOW).decompress(head, _HEAD)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, zlib.error):
        return {}
    return _kineto(head.decode(errors="replace"))


def rank_in_name(path: str) -> int | None:
    """The rank that a file's name, or else that of a folder around it, tells.

    Examples
    --------
    >>> rank_in_name("run/worker3_step_12.json.gz"), rank_in_name("rank_7/trace.json"), rank_in_name("a.json")
    (3, 7, None)
    """
    for part in reversed(Path(path).parts):
        if found := _IN_NAME.search(part):
            return int(found[1])
    return None


def _native(text: bytes) -> dict[str, Any]:
    content = json.loads(text)
    metadata = content.get("metadata") or {}
    facts = {key: metadata[key] for key in ("rank", "world_size") if isinstance(metadata.get(key), int)}
    if isinstance(metadata.get("host"), str):
        facts["host"] = metadata["host"]
    return facts


def _kineto(head: str) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if found := _DISTRIBUTED.search(head):
        try:
            told, _ = json.JSONDecoder().raw_decode(head, found.end() - 1)
        except ValueError:
            told = {}
        facts = {key: told[key] for key in ("rank", "world_size") if isinstance(told.get(key), int)}
    top = head.partition('"traceEvents"')[0]
    if host := _HOST.search(top):
        facts["host"] = host[1]
    if versions := dict(_VERSION.findall(top)):
        facts["versions"] = versions
    return facts
