"""Table rows affected by a loss or an error in the trust report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...trace import Trace
from ...trace.arrays import IntArray, positions
from ...trace.report import Statement
from ..device.kernel_launches import launching_rows, owning_rows
from ..grouping import Groups, group, inclusive
from ..scope import Scope, WindowLike, ints, on_device, on_host, once, sharing
from .device import device_findings
from .trust import card_findings, step_findings

COLUMN: Final = "doubt"
"""Name of the column with codes of the trust report, which tables have only if there are any."""
LEAST: Final = 0.01
"""Minimum affected share for which a row is marked."""

_OF_DEVICE: Final = ("stream-overlap", "throttled", "card-shared")
"""Findings about device work with wrong times."""
_OF_LAUNCHES: Final = (*(f"kernels-lost-{x}" for x in ("at-start", "between", "at-end")), "no-device-work")
"""Findings about calls that lost their device work."""


def kernel_doubts(trace: Trace, work: Scope, code: IntArray, n: int, window: WindowLike = None) -> list[str]:
    """Return, per group of device work, comma-separated codes of doubts; none that affects less than 1 %."""
    spent = (work.end - work.ts).astype(np.float64)
    total = np.bincount(code, spent, minlength=n)
    parts = []
    for finding in _serious(trace, window, _OF_DEVICE):
        hit = np.isin(work.rows, finding.rows)
        parts.append((finding.code, np.bincount(code[hit], spent[hit], minlength=n) / np.maximum(total, 1)))
    return _texts(parts, n)


def operator_doubts(
    trace: Trace, host: Scope, work: Scope, groups: Groups, parent: IntArray, window: WindowLike = None
) -> list[str]:
    """Return the doubts about operators' device times, one text per group, like `kernel_doubts`."""
    # Calls that lost their kernels are counted as a share of all calls that started some; work with wrong
    # times is weighted by its time.
    n = len(groups.keys)
    launcher = launching_rows(trace)[work.rows]
    spent = (work.end - work.ts).astype(np.float64)
    parts = []
    for finding in _serious(trace, window, (*_OF_DEVICE, *_OF_LAUNCHES)):
        if finding.code in _OF_LAUNCHES:
            lost = owning_rows(trace, finding.rows[np.isin(finding.rows, host.rows)])
            affected, _ = inclusive(groups, parent, lost, np.ones(len(lost)))
            recorded, _ = inclusive(groups, parent, launcher, np.ones(len(launcher)))
            whole = recorded + affected
        else:
            hit = np.isin(work.rows, finding.rows)
            affected, _ = inclusive(groups, parent, launcher[hit], spent[hit])
            whole, _ = inclusive(groups, parent, launcher, spent)
        parts.append((finding.code, affected / np.maximum(whole, 1)))
    return _texts(parts, n)


def step_doubts(trace: Trace, steps: IntArray, window: WindowLike = None) -> list[str]:
    """Return the doubts about steps, one text each, like `kernel_doubts`; codes about the step come first."""
    # Lost kernels are counted as a share of all work in the step.
    n = len(steps)
    host, work = on_host(trace, window), on_device(trace, window)
    parts = [
        (finding.code, (steps == finding.step).astype(np.float64)) for finding in step_findings(trace, window)
    ]
    every = ints(trace.slices["step"])
    spent = (work.end - work.ts).astype(np.float64)
    for finding in _serious(trace, window, (*_OF_DEVICE, *_OF_LAUNCHES)):
        if finding.code in _OF_LAUNCHES:
            lost = finding.rows[np.isin(finding.rows, host.rows)]
            affected = _by_step(steps, every[lost], np.ones(len(lost)))
            whole = affected + _by_step(steps, every[work.rows], np.ones(len(work.rows)))
        else:
            hit = np.isin(work.rows, finding.rows)
            affected = _by_step(steps, every[work.rows[hit]], spent[hit])
            whole = _by_step(steps, every[work.rows], spent)
        parts.append((finding.code, affected / np.maximum(whole, 1)))
    return _texts(parts, n)


def _by_step(steps: IntArray, own: IntArray, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the sum of weights for each step."""
    at = positions(steps, own)
    return np.bincount(at[at >= 0], weights[at >= 0], minlength=len(steps)).astype(np.float64)


@sharing
def doubts_by_name(trace: Trace) -> dict[str, dict[str, str]]:
    """Return, for ``device`` and ``host``, name → codes of the names that `kernels` or `operators` mark."""
    if not any(_serious(trace, None, (*_OF_DEVICE, *_OF_LAUNCHES))):
        return {}
    host, work = on_host(trace), on_device(trace)
    groups = group(trace.slices, "name")
    n = len(groups.keys)
    texts_of_side = {
        "device": kernel_doubts(trace, work, groups.code[work.rows], n),
        "host": operator_doubts(trace, host, work, groups, ints(trace.slices["parent"])),
    }
    names = groups.keys["name"].tolist()
    return {
        side: marked
        for side, texts in texts_of_side.items()
        if (marked := {str(name): text for name, text in zip(names, texts, strict=True) if text})
    }


def mark(table: pd.DataFrame, texts: list[str]) -> None:
    """Add the doubt column to a table, in place, if any text is not empty."""
    if any(texts):
        table[COLUMN] = pd.Series(texts, index=table.index, dtype="str")


def _serious(trace: Trace, window: WindowLike, codes: Iterable[str]) -> Iterator[Statement]:
    chosen = frozenset(codes)
    cut = None if window is None else (int(window[0]), int(window[1]))
    for finding in once(
        trace, ("doubts", cut), lambda: (*device_findings(trace, cut), *card_findings(trace, cut))
    ):
        if finding.severity != "info" and finding.code in chosen and len(finding.rows):
            yield finding


def _texts(parts: list[tuple[str, npt.NDArray[np.float64]]], n: int) -> list[str]:
    texts = [""] * n
    for code, share in parts:
        for at in np.flatnonzero(share >= LEAST).tolist():
            texts[at] = f"{texts[at]}, {code}" if texts[at] else code
    return texts
