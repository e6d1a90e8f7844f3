"""Unreliable parts of a recording, and what to do about them."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from ...trace import Trace
from ..scope import WindowLike
from .device import device_findings
from .finding import TRUST, Finding
from .run import run_findings

_COVERED_ELSEWHERE = frozenset({"device-work-without-launch", "partial-step", "no-warmup"})
_ORDER = {"error": 0, "loss": 1, "info": 2}


def trust(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """List the unreliable parts of this recording.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns: judge only this part. Findings about the recording as a whole are always listed.

    Returns
    -------
    DataFrame
        A row a finding: ``code severity count device_share effect advice example``; errors first, then
        losses, then information; empty if nothing was found. `device_share` (0–1) is the affected share of
        the summed time of device work, NaN if that does not apply.

        - Device: ``no-device-work``, ``kernels-lost-at-start``, ``kernels-lost-at-end``,
          ``kernels-lost-between``: launches without a kernel, by where they are; their time is estimated from
          the mean of the recorded ones. ``kernels-before-launch``, ``launch-not-recorded``,
          ``operator-unknown``, ``graph-launch-wrong``, ``clock-shift``, ``stream-overlap``.
        - Run: ``partial-first-step``, ``partial-last-step``, ``compilation-inside``, ``slow-first-step``,
          ``throttled``, ``card-shared``, ``counters-missing``, ``cores-taken``, ``few-samples``,
          ``costly-recording``.
        - Everything in ``trace.report`` that is a loss or an error, under its own code.

    Notes
    -----
    Launches are calls of the runtime that start a kernel or a graph: those of a known name, and those of a
    name most of whose calls started a kernel in this recording. Calls during a graph's capture do not count.
    Copies and fills are not checked: with zero bytes they start nothing. A finding is a loss if its share is
    at least 1 %.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main:     [cudaLaunchKernel][cuLaunchKernel]
    ... stream 7:      [gemm       ]
    ... ''', categories={"cudaLaunchKernel": "launch", "cuLaunchKernel": "launch"},
    ...     launches=[("cudaLaunchKernel", "gemm")])
    >>> trust(trace)[["code", "count", "device_share"]].values.tolist()
    [['kernels-lost-at-end', 1, 0.5], ['operator-unknown', 1, 1.0]]
    """
    findings = [*device_findings(trace, window), *run_findings(trace, window), *_reported(trace)]
    findings.sort(key=lambda finding: _ORDER[finding.severity])
    return TRUST.frame({name: [getattr(finding, name) for finding in findings] for name in TRUST.names})


def _reported(trace: Trace) -> Iterator[Finding]:
    """Yield the losses and errors reported by the recording or the import itself."""
    for issue in trace.report:
        if issue.severity != "info" and issue.code not in _COVERED_ELSEWHERE:
            yield Finding(
                issue.code,
                issue.severity,
                issue.count,
                effect=issue.effect,
                advice=issue.advice,
                example=issue.example,
            )
