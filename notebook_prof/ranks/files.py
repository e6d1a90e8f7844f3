"""The files of a run's ranks, and the facts in their headers."""

from __future__ import annotations

import glob
import json
import os
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from ..errors import FormatError, OptionError
from ..readers.codec.compression import first_bytes
from ..trace import ImportReport
from ..trace.arrays import LAST

_HEAD: Final = 64 * 1024
_ZIP: Final = b"PK\x03\x04"
_DISTRIBUTED: Final = re.compile(r'"distributedInfo"\s*:\s*\{')
_VERSION: Final = re.compile(
    r'"((?:\w+_)?version|schemaVersion|schema_version)"\s*:\s*"?([\w.+-]+)"?', re.IGNORECASE
)
_HOST: Final = re.compile(r'"host_name"\s*:\s*"([^"]*)"')
_IN_NAME: Final = re.compile(r"(?:rank|worker|(?<![a-z])r)[-_ ]?(\d+)(?!\d)", re.IGNORECASE)


def facts_of(path: Path) -> dict[str, Any]:
    """Return ``rank world_size host versions`` as far as a file's header has them; empty if unreadable."""
    # Reading the whole file will report why it is unreadable.
    try:
        if path.is_dir():
            return _native((path / LAST).read_bytes()) if (path / LAST).is_file() else {}
        with path.open("rb") as file:
            head = file.read(_HEAD)
        if head.startswith(_ZIP):
            with zipfile.ZipFile(path) as archive:
                return _native(archive.read(LAST))
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, zlib.error):
        return {}
    return _kineto(first_bytes(head).decode(errors="replace"))


def rank_in_name(path: str) -> int | None:
    """Return the rank in a file's name, or else in the name of a folder around it."""
    for part in reversed(Path(path).parts):
        if match := _IN_NAME.search(part):
            return int(match[1])
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
    if match := _DISTRIBUTED.search(head):
        try:
            values, _ = json.JSONDecoder().raw_decode(head, match.end() - 1)
        except ValueError:
            values = {}
        facts = {key: values[key] for key in ("rank", "world_size") if isinstance(values.get(key), int)}
    top = head.partition('"traceEvents"')[0]
    if host := _HOST.search(top):
        facts["host"] = host[1]
    if versions := dict(_VERSION.findall(top)):
        facts["versions"] = versions
    return facts


Paths: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | Mapping[int, Any]
_NUMBERS: Final = re.compile(r"(\d+)")
_SHOWN: Final = 8
_NO_TRACES: Final = (
    ".csv", ".txt", ".md", ".log", ".html", ".png", ".svg", ".py", ".ipynb", ".yaml", ".yml", ".out",
)  # fmt: skip
"""Files beside traces that are read as traces only if named explicitly."""


@dataclass(frozen=True, slots=True)
class RankFile:
    """One rank's recording, not yet read."""

    rank: int
    path: str
    # Origin of the rank: "file", "name", "order" or "given".
    source: str = "file"
    # Size of the stored file; 0 for a folder.
    bytes: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    # Addresses of the cluster's workers that see the file; empty if all do.
    workers: tuple[str, ...] = ()


def listed(paths: Paths) -> list[str]:
    """Return the files of patterns and paths in numeric order."""
    if isinstance(paths, Mapping):
        return [os.fspath(path) for path in paths.values()]
    entries = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    # patterns and folders skip tables, texts and pictures
    files: list[str] = []
    for one in [os.fspath(path) for path in entries]:
        path = Path(one)
        if path.is_dir() and not (path / "metadata.json").exists():
            inside = [os.fspath(inner) for inner in path.iterdir() if not inner.name.startswith(".")]
            files += [name for name in inside if not name.lower().endswith(_NO_TRACES)]
        elif glob.has_magic(one) and not path.exists():
            files += [
                name for name in glob.glob(one, recursive=True) if not name.lower().endswith(_NO_TRACES)
            ]
        else:
            files.append(one)
    return sorted(dict.fromkeys(files), key=_natural)


def inspected(path: str) -> RankFile:
    """Return a file with the facts in its header; rank -1 if neither these nor the name give one."""
    facts = facts_of(Path(path))
    try:
        size = os.path.getsize(path) if os.path.isfile(path) else 0
    except OSError:
        size = 0
    found = {"file": facts.get("rank"), "name": rank_in_name(path), "order": -1}
    source, rank = next((source, rank) for source, rank in found.items() if rank is not None)
    return RankFile(rank, path, source, size, facts)


def arranged(files: Sequence[RankFile], report: ImportReport) -> dict[int, RankFile]:
    """Return one file per rank, by rank; doubts go to the report. FormatError if there are no files."""
    if not files:
        raise FormatError('no file matches: give a pattern ("run/*.json.gz"), a folder, or a list of files')
    chosen: dict[int, RankFile] = {}
    unknown = [file for file in files if file.rank < 0]
    for file in files:
        if file.rank < 0:
            continue
        if (first := chosen.get(file.rank)) is not None:
            example = f"rank {file.rank} is in {_name(first)} and in {_name(file)}"
            effect = f"only {_name(first)} is shown"
            advice = "give one file per rank"
            report.add("rank-duplicated", "loss", example=example, effect=effect, advice=advice)
            continue
        chosen[file.rank] = file
    free = iter(number for number in range(len(files) + len(chosen) + 1) if number not in chosen)
    for file in unknown:
        number = next(free)
        chosen[number] = replace(file, rank=number)
    _tell(chosen, unknown, report)
    return dict(sorted(chosen.items()))


def numbered(paths: Mapping[int, Any]) -> list[RankFile]:
    """Return files with ranks given by the user; OptionError unless the ranks are whole numbers from 0."""
    files = []
    for rank, path in paths.items():
        if not isinstance(rank, int) or rank < 0:
            raise OptionError(f"{rank!r} is not a rank: give a mapping of whole numbers from 0 to files")
        files.append(replace(inspected(os.fspath(path)), rank=rank, source="given"))
    return files


def _tell(chosen: Mapping[int, RankFile], unknown: Sequence[RankFile], report: ImportReport) -> None:
    example = ", ".join(_name(file) for file in unknown[:3])
    effect = "neither the file nor its name gives the rank: numbered in order"
    report.add("rank-by-order", "info", len(unknown), example, effect, "give a mapping of ranks to files")
    sizes = Counter(file.facts["world_size"] for file in chosen.values() if "world_size" in file.facts)
    if len(sizes) > 1:
        sizes_in_words = ", ".join(f"{count} of {size}" for size, count in sorted(sizes.items()))
        example = f"ranks of jobs of different sizes: {sizes_in_words}"
        report.add("runs-mixed", "loss", example=example, effect="figures across ranks may mix jobs")
    if sizes:
        world = max(sizes)
        missing = [rank for rank in range(world) if rank not in chosen]
        effect = "a missing rank cannot be seen to arrive late"
        report.add("rank-missing", "loss", len(missing), f"{_ranks(missing)} of {world}", effect)
    _tell_versions(chosen, report)


def _tell_versions(chosen: Mapping[int, RankFile], report: ImportReport) -> None:
    by_key: dict[str, dict[str, list[int]]] = {}
    for rank, file in chosen.items():
        for key, value in file.facts.get("versions", {}).items():
            by_key.setdefault(key, {}).setdefault(str(value), []).append(rank)
    for key, values in by_key.items():
        if len(values) > 1:
            said = "; ".join(f"{value} on {_ranks(ranks)}" for value, ranks in sorted(values.items()))
            effect = "names of operators and kernels may differ between ranks"
            report.add("versions-differ", "info", example=f"{key}: {said}", effect=effect)


def _ranks(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:_SHOWN])) + (" …" if len(ranks) > _SHOWN else "")
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}"


def _name(file: RankFile) -> str:
    return Path(file.path).name


def _natural(path: str) -> list[Any]:
    parts = _NUMBERS.split(path)
    return [int(part) if i % 2 else part for i, part in enumerate(parts)]
