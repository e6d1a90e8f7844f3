"""Table rows affected by a loss or an error in the trust report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...trace import Trace
from ...trace.arrays import FloatArray, IntArray, positions
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

_Sums: TypeAlias = Callable[[IntArray, FloatArray], npt.NDArray[Any]]


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
    def of_calls(calls: IntArray, weights: FloatArray) -> IntArray:
        return inclusive(groups, parent, owning_rows(trace, calls), weights)[0]

    def of_work(rows: IntArray, weights: FloatArray) -> IntArray:
        return inclusive(groups, parent, launching_rows(trace)[rows], weights)[0]

    return _texts(_shares(trace, window, host, work, of_calls, of_work), len(groups.keys))


def step_doubts(trace: Trace, steps: IntArray, window: WindowLike = None) -> list[str]:
    """Return the doubts about steps, one text each, like `kernel_doubts`; codes about the step come first."""
    # Lost kernels are counted as a share of all work in the step.
    every = ints(trace.slices["step"])

    def by_step(rows: IntArray, weights: FloatArray) -> FloatArray:
        at = positions(steps, every[rows])
        return np.bincount(at[at >= 0], weights[at >= 0], minlength=len(steps)).astype(np.float64)

    host, work = on_host(trace, window), on_device(trace, window)
    of_steps = [(found.code, steps == found.step) for found in step_findings(trace, window)]
    return _texts([*of_steps, *_shares(trace, window, host, work, by_step, by_step)], len(steps))


def _shares(
    trace: Trace, window: WindowLike, host: Scope, work: Scope, of_calls: _Sums, of_work: _Sums
) -> Iterator[tuple[str, FloatArray]]:
    """Yield the code of each finding, and its share of each group."""
    # `of_calls` and `of_work` sum the weights of calls and of device work by group.
    spent = (work.end - work.ts).astype(np.float64)
    for finding in _serious(trace, window, (*_OF_DEVICE, *_OF_LAUNCHES)):
        if finding.code in _OF_LAUNCHES:
            lost = finding.rows[np.isin(finding.rows, host.rows)]
            affected = of_calls(lost, np.ones(len(lost)))
            whole = affected + of_work(work.rows, np.ones(len(work.rows)))
        else:
            hit = np.isin(work.rows, finding.rows)
            affected, whole = of_work(work.rows[hit], spent[hit]), of_work(work.rows, spent)
        yield finding.code, affected / np.maximum(whole, 1)


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


def _texts(parts: Iterable[tuple[str, npt.NDArray[Any]]], n: int) -> list[str]:
    texts = [""] * n
    for code, share in parts:
        for at in np.flatnonzero(share >= LEAST).tolist():
            texts[at] = f"{texts[at]}, {code}" if texts[at] else code
    return texts
