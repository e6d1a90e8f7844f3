"""What became of each job, and how it is told."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

_TAIL: Final = 6_000
ROWS: Final = "ROWS "
"""Begins the line on which a job gives its rows as JSON."""
FACTS: Final = "machine/facts"
"""The job that tells what the machine is; no figures."""
LACKS: Final = "LACKS "
"""Begins the line on which a job says what it cannot do without."""
WORK: Final = "device work"
"""The column that says how much work of a device a job has recorded."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a job.

    Attributes
    ----------
    name : str
    outcome : str
        ``ok``, ``no device work``, ``failed``, ``crashed``, ``timed out``, ``skipped``, ``not started`` or
        ``rehearsed``. Only what is ok is done.
    seconds : float
    reason : str
        In one line; empty for ``ok``.
    rows : list of dict
    log : str
        The end of what it printed, where it is not ok.
    """

    name: str
    outcome: str
    seconds: float
    reason: str = ""
    rows: list[dict[str, Any]] = field(default_factory=list)
    log: str = ""


def judge(name: str, code: int | None, seconds: float, out: str, err: str) -> Outcome:
    """From exit status (None: killed at its limit) and output to an outcome."""
    lines = out.splitlines()
    rows = [row for line in lines if line.startswith(ROWS) for row in json.loads(line[len(ROWS) :])]
    log = f"{out[-_TAIL:]}\n{err[-_TAIL:]}".strip()
    lacking = next((line[len(LACKS) :] for line in lines if line.startswith(LACKS)), "")
    took = round(seconds, 1)
    if code is None:
        return Outcome(name, "timed out", took, f"killed after {took:g} s; {_last(err)}", rows, log)
    if code < 0:
        return Outcome(name, "crashed", took, _signal(-code), rows, log)
    if lacking:
        return Outcome(name, "skipped", took, lacking)
    if code:
        errors = [line for line in lines if line.startswith(("E  ", "FAILED", "ERROR"))]
        reason = (errors[0] if errors else _last(err) or _last(out)).strip()
        return Outcome(name, "failed", took, reason, rows, log)
    if name.startswith("test/"):
        if any(" passed" in line for line in lines[-3:]):
            return Outcome(name, "ok", took)
        skips = [line for line in lines if line.startswith("SKIPPED")]
        return Outcome(name, "skipped", took, skips[0] if skips else _last(out))
    if not rows:
        return Outcome(name, "failed", took, "it gave no rows", rows, log)
    if any(row.get(WORK) == 0 for row in rows):
        empty = next(row for row in rows if row.get(WORK) == 0)
        reason = " ".join(str(empty[one]) for one in ("trust", "report") if one in empty)
        return Outcome(name, "no device work", took, reason, rows, log)
    return Outcome(name, "ok", took, "", rows)


def table(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """One row a job."""
    return [
        {
            "job": one.name,
            "outcome": one.outcome,
            "s": one.seconds,
            "reason": one.reason.replace("|", "/")[:300],
        }
        for one in outcomes
    ]


def figures(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """The rows that were measured, those of one kind together."""
    rows = [row for one in outcomes for row in one.rows if one.name != FACTS and one.outcome == "ok"]
    kinds = {tuple(row): at for at, row in reversed(list(enumerate(rows)))}
    return sorted(rows, key=lambda row: kinds[tuple(row)])


def _last(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


def _signal(number: int) -> str:
    try:
        return f"signal {signal.Signals(number).name}"
    except ValueError:
        return f"signal {number}"
