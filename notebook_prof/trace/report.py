"""The import report: problems of a recording or an import, and what to do about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from ..errors import OptionError
from ..units import format_count
from .taxonomy import group_of_word

if TYPE_CHECKING:
    import pandas as pd

_NOTHING: Final = "nothing needs to be done"
_REPEATED: Final = "if it happens again, report it to notebook_prof with the example"

ADVICE: Final = group_of_word(
    {
        "export the snapshot instead, which has addresses": "addresses-matched",
        "look at them in the file": "arguments-not-kept",
        "record from before it begins until after it ends": (
            "async-end-without-begin cut-at-window end-without-begin flow-without-slice "
            "flow-without-source outside-window unclosed-async unclosed-begin"
        ),
        "export the timeline as .raw.json.gz": "blocks-not-told",
        "look at the example in the file; if the file is sound, report it to notebook_prof": (
            "broken-cell broken-profile broken-row broken-samples sample-without-stack "
            "sample-without-time sample-without-weight unknown-action unknown-profile"
        ),
        "copy the file again, or check for a full disk where it was written": (
            "broken-file broken-message rank-unreadable truncated-file"
        ),
        "record the part without it in a cell of its own": "calls-gave-way heap-gave-way",
        "open it on its own": "child-trace-elsewhere child-trace-unread",
        "record collectives that all ranks take part in: clocks are aligned by these": "clock-not-aligned",
        "use parents and self times, which hold for any overlap": "crossed-ranges",
        "open the file in the tool that wrote it to see the inner frames": "deep-stacks-cut",
        "record from before the work is launched, or leave out the first step": "device-work-without-launch",
        "check the profiler that wrote the file": "duration-missing",
        _NOTHING: "empty-step metadata-not-used redundant-file unsorted-events",
        "open it on its own if it is a recording": "file-not-used",
        "copy the file into the folder": "link-outside",
        "record fewer steps": "loader-batches-overwritten ranges-dropped",
        "check whether the profiler was running": "no-events",
        "record with a tracing profiler where the order of calls matters": "no-time-line",
        "look at p.memory.live() and p.memory.peak()": "out-of-memory",
        "add its file if it was recorded": "rank-missing",
        "look at the example; open the file in Perfetto to see them": "row-not-used",
        "open each job on its own": "runs-mixed",
        "record with shapes": "shapes-missing",
        "report the category to notebook_prof": "unknown-category",
        "check its permissions, or copy the folder again": "unreadable-file",
    }
)
"""Advice by issue code."""


def advice_on(code: str, severity: str) -> str:
    """Return the remedy for an entry with this code."""
    return ADVICE.get(code) or (_NOTHING if severity == "info" else _REPEATED)


Severity = Literal["info", "loss", "error"]
SEVERITIES: Final[tuple[str, ...]] = get_args(Severity)
_MOST_SHOWN: Final = 120
_MARK = {"info": "·", "loss": "!", "error": "✗"}


@dataclass(frozen=True, slots=True)
class Statement:
    """What an import report, the trust report or advice says: what was found, its effect and what to do."""

    # A stable name, like ``truncated-file``.
    code: str
    # What was found, in words. If its numbers are cells of public tables, it is a `Sentence` with claims.
    text: str = ""
    advice: str = ""
    # `info`: information. `loss`: something is missing from the numbers. `error`: a part failed.
    severity: Severity = "info"
    count: int = 1
    # The effect on the numbers.
    effect: str = ""
    # The first occurrence, or the worst one.
    example: str = ""
    # Selects what it is about: ``p.selection.update(**statement.select)``.
    select: Mapping[str, Any] = field(default_factory=dict)
    # Rows of the slices that it is about.
    rows: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64), compare=False)
    # Share of the device's time that is affected; NaN if that does not apply.
    # Not compared: NaN does not equal itself, so from Python 3.13 on no copy would equal its original.
    device_share: float = field(default=float("nan"), compare=False)
    # The step that it is about, or -1.
    step: int = -1

    @property
    def finding(self) -> str:
        """The text; without one, the code in words and how often it occurred."""
        times = "" if self.count == 1 else f", {format_count(self.count)} times"
        return self.text or self.code.replace("-", " ") + times

    def __str__(self) -> str:
        times = f" ×{self.count:,}" if self.count != 1 else ""
        parts = [part for part in (self.example, self.effect, self.advice) if part]
        return f"{_MARK[self.severity]} {self.code}{times}" + (": " + " — ".join(parts) if parts else "")


class ImportReport:
    """Issues in order of first appearance. Repeated codes are counted.

    Examples
    --------
    >>> report = ImportReport()
    >>> report.add("negative-duration", "loss", count=2, example="aten::mm -3 ns")
    >>> len(report), report["negative-duration"].count
    (1, 2)
    """

    def __init__(self) -> None:
        self._issues: dict[str, Statement] = {}

    def add(
        self,
        code: str,
        severity: Severity,
        count: int = 1,
        example: str = "",
        effect: str = "",
        advice: str = "",
    ) -> None:
        """Add `count` occurrences of `code`. The first example, effect and advice are kept.

        By default, `advice` is the known advice for the code.

        Raises
        ------
        OptionError
            If `severity` is not one of ``info loss error``.
        """
        if severity not in SEVERITIES:
            raise OptionError(f"severity {severity!r} of {code!r} is not one of {', '.join(SEVERITIES)}")
        if count <= 0:
            return
        if (issue := self._issues.get(code)) is not None:
            self._issues[code] = replace(issue, count=issue.count + count)
        else:
            advice = advice or advice_on(code, severity)
            self._issues[code] = Statement(code, "", advice, severity, count, effect, example)

    def add_where(
        self,
        code: str,
        severity: Severity,
        wrong: npt.NDArray[np.bool_] | npt.NDArray[np.int64],
        show: Callable[[int], object],
        effect: str = "",
        advice: str = "",
    ) -> None:
        """Count the rows in `wrong`, a mask or row numbers. `show` returns an example for the first row.

        Examples
        --------
        >>> report = ImportReport()
        >>> report.add_where("broken-row", "loss", np.array([False, True, True]), "abc".__getitem__)
        >>> report["broken-row"].count, report["broken-row"].example
        (2, 'b')
        """
        rows = np.flatnonzero(wrong) if wrong.dtype == bool else wrong
        if len(rows):
            self.add(code, severity, len(rows), str(show(int(rows[0])))[:_MOST_SHOWN], effect, advice)

    def failed(
        self, code: str, severity: Severity, error: BaseException, effect: str = "", advice: str = ""
    ) -> None:
        """Note that a part failed, with the type and text of the error."""
        self.add(code, severity, 1, f"{type(error).__name__}: {error}", effect, advice)

    def unlaunched(self, count: int) -> None:
        """Count kernels and copies whose launch was not recorded."""
        effect = "kernels and copies whose call was not recorded have no step or phase from it"
        self.add("device-work-without-launch", "info", count, effect=effect)

    def broken_rows(
        self,
        wrong: int | npt.NDArray[np.bool_] | npt.NDArray[np.int64],
        example: str | Callable[[int], object] = "",
        effect: str = "these rows are left out",
        advice: str = "",
    ) -> None:
        """Count rows that cannot be read (``broken-row``): their number and an example, or as `add_where`."""
        if callable(example):
            self.add_where("broken-row", "loss", np.asarray(wrong), example, effect, advice)
        else:
            self.add("broken-row", "loss", int(wrong), example, effect, advice)

    def truncated(self, example: str, effect: str = "what follows is missing", advice: str = "") -> None:
        """Note that a file ends before its content does (``truncated-file``)."""
        self.add("truncated-file", "loss", 1, example, effect, advice)

    def extend(self, other: ImportReport) -> None:
        """Add the counts of `other`."""
        for issue in other:
            self.add(issue.code, issue.severity, issue.count, issue.example, issue.effect, issue.advice)

    def copy(self) -> ImportReport:
        """Return an independent report with the same issues."""
        twin = ImportReport()
        twin._issues = dict(self._issues)
        return twin

    def __iter__(self) -> Iterator[Statement]:
        return iter(tuple(self._issues.values()))

    def __getitem__(self, code: str) -> Statement:
        return self._issues[code]

    def __contains__(self, code: object) -> bool:
        return code in self._issues

    def __len__(self) -> int:
        return len(self._issues)

    def __bool__(self) -> bool:
        return bool(self._issues)

    def to_frame(self) -> pd.DataFrame:
        """Return a table of the issues in order of appearance: ``code severity count example effect
        advice``."""
        import pandas as pd

        names = ["code", "severity", "count", "example", "effect", "advice"]
        rows = [[getattr(issue, name) for name in names] for issue in self]
        return pd.DataFrame(rows, columns=names).astype({"count": "int64"})

    def __repr__(self) -> str:
        return "\n".join(map(str, self)) if self else "nothing to report"
