"""Known faults of CUPTI by its version, and what to do about them."""

from __future__ import annotations

from typing import Final, NamedTuple

from ...trace import Trace


class Fault(NamedTuple):
    """A fault of some versions, by the code of the finding in which it shows.

    Attributes
    ----------
    code : str
    since, until : int
        CUPTI's own numbers, the second one not included: 24 is 12.6, 26 12.8, 28 12.9, 130000 13.0.
    advice : str
    """

    code: str
    since: int
    until: int
    advice: str


CUPTI_FAULTS: Final = (
    Fault(
        "kernels-lost-at-start",
        24,
        130_100,
        "known fault of CUPTI 12.6 to 13.0 in later recordings of one process (pytorch#192021): install a "
        "torch for CUDA 13.1 or later, or record a step later (--warmup 2)",
    ),
    Fault(
        "graph-launch-wrong",
        0,
        130_101,
        "known fault of CUPTI before 13.1 Update 1 in later recordings of one process: install a torch for a "
        "later CUDA, or restart the kernel before the recording",
    ),
)
_OTHERWISE: Final = {
    "kernels-lost-at-start": "record a step later (--warmup 2), or restart the kernel",
    "graph-launch-wrong": "restart the kernel before the recording",
}


def fault_advice(code: str, trace: Trace) -> str:
    """Return what to do about a finding, by the version of CUPTI that recorded it.

    Where the version is not known, a fault that the finding may be is told.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> trace = TraceBuilder(metadata={"cupti_version": 130_200}).seal()
    >>> fault_advice("kernels-lost-at-start", trace)
    'record a step later (--warmup 2), or restart the kernel'
    """
    told = trace.metadata.get("cupti_version")
    version = told if isinstance(told, int) else 0
    fitting = [
        fault.advice
        for fault in CUPTI_FAULTS
        if fault.code == code and (not version or fault.since <= version < fault.until)
    ]
    return fitting[0] if fitting else _OTHERWISE[code]
