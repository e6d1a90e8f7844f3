"""The outcome of each job, and the archive with all outcomes and small recordings."""

from __future__ import annotations

import json
import signal
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

MOST_BYTES: Final = 15 << 20
ROWS: Final = "ROWS "
"""Marks the line on which a job prints its rows as JSON."""
LACKS: Final = "LACKS "
"""Marks the line on which a job says why it cannot run here."""
FACTS: Final = "machine/facts"
"""The job that describes the machine."""
WORK: Final = "device work"
"""The column with the number of kernels and copies that a job recorded."""
_WITHOUT_WORK: Final = ("machine/", "nvml/")
_TAIL: Final = 6_000
_OUTCOMES: Final = "outcomes.json"
_RECORDINGS: Final = "recordings/"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a job, done only if it is ``ok``; `reason` is one line, `log` the end of the output."""

    name: str
    outcome: str
    seconds: float
    reason: str = ""
    rows: list[dict[str, Any]] = field(default_factory=list)
    log: str = ""


def judge(name: str, code: int | None, seconds: float, out: str, err: str) -> Outcome:
    """Make an outcome from an exit status (None: killed at its limit) and output."""
    lines = out.splitlines()
    rows: list[dict[str, Any]] = []
    for line in lines:
        if line.startswith(ROWS):
            with suppress(ValueError):  # the job was killed while it printed
                rows += json.loads(line.removeprefix(ROWS))
    if code is None:
        outcome, reason = "timed out", f"killed after {seconds:.0f} s; {_last(err)}"
    elif code < 0:
        outcome, reason = "crashed", f"signal {signal.strsignal(-code)}"
    elif code:
        errors = [line for line in lines if line.startswith(("E  ", "FAILED", "ERROR"))]
        outcome, reason = "failed", (errors[0] if errors else _last(err) or _last(out)).strip()
    else:
        outcome, reason = _outcome(name, lines, rows)
    log = "" if outcome in ("ok", "skipped") else f"{out[-_TAIL:]}\n{err[-_TAIL:]}".strip()
    return Outcome(name, outcome, round(seconds, 1), reason, rows, log)


def _outcome(name: str, lines: Sequence[str], rows: Sequence[dict[str, Any]]) -> tuple[str, str]:
    """Return the outcome and the reason of a job that ended normally."""
    for word in (LACKS, "SKIPPED"):
        if (lacks := next((line for line in lines if line.startswith(word)), None)) is not None:
            return "skipped", lacks.removeprefix(LACKS)
    if name.startswith("test/"):
        return ("ok", "") if any(" passed" in line for line in lines[-3:]) else ("failed", "no test ran")
    if not rows:
        return "failed", "it printed no rows"
    works = [row[WORK] for row in rows if WORK in row]
    if name.startswith(_WITHOUT_WORK) or (works and all(works)):
        return "ok", ""
    empty = next((row for row in rows if not row.get(WORK)), rows[0])
    reported = "; ".join(f"{one}: {empty[one]}" for one in ("trust", "report") if one in empty)
    return "no device work", f"a recording has no work of a device; {reported}"


def figures(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """Return the measured rows, grouped by their columns."""
    rows = [row for one in outcomes for row in one.rows if one.name != FACTS and one.outcome == "ok"]
    first = {tuple(row): at for at, row in reversed(list(enumerate(rows)))}
    return sorted(rows, key=lambda row: first[tuple(row)])


def read(path: Path) -> tuple[dict[str, Outcome], dict[str, bytes]]:
    """Return the outcomes by job and the files by name from an archive; empty if it does not exist."""
    if not path.is_file():
        return {}, {}
    with zipfile.ZipFile(path) as file:
        outcomes = [Outcome(**one) for one in json.loads(file.read(_OUTCOMES))]
        names = [name for name in file.namelist() if name.startswith(_RECORDINGS)]
        return {one.name: one for one in outcomes}, {Path(name).name: file.read(name) for name in names}


def write(path: Path, outcomes: Iterable[Outcome], files: Mapping[str, bytes]) -> list[str]:
    """Replace an archive atomically, earlier files first; return the files that did not fit."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    left_out = []
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(_OUTCOMES, json.dumps([asdict(one) for one in outcomes], indent=1, ensure_ascii=False))
        room = MOST_BYTES - file.getinfo(_OUTCOMES).compress_size
        for name, content in files.items():
            if len(content) > room:
                left_out.append(name)
                continue
            file.writestr(_RECORDINGS + name, content, zipfile.ZIP_STORED)  # already compressed
            room -= len(content)
    part.replace(path)
    return left_out


def _last(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]
