"""Whether a run holds what is expected of it: pass, fail, or not decided."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import pandas as pd

from ..analysis.scope import sharing
from ..errors import ExpectationError, OptionError
from ..trace import Trace
from .language import Expectation, value_text
from .quantities import Measured, measured

PASS, FAIL, INCONCLUSIVE = "pass", "fail", "inconclusive"
_COLUMNS: Final = [
    "expectation",
    "outcome",
    "value",
    "low",
    "high",
    "limit",
    "unit",
    "call",
    "reason",
    "parts",
]


class Expectations:
    """What was expected, and what came of it.

    Attributes
    ----------
    table : DataFrame
        A row an expectation, as given: ``expectation``; ``outcome`` (``pass fail inconclusive``); ``value``
        with its interval at 95 % ``low high`` (both the value where it was counted), ``limit`` and their
        ``unit`` (``ns share bytes count``); ``call`` that gives the value again; ``reason``; ``parts``: of
        what did not pass, the rows that moved, or hold most of it, each with its call.
    """

    def __init__(self, table: pd.DataFrame) -> None:
        self.table = table

    @property
    def outcome(self) -> str:
        """``fail`` if one failed, else ``inconclusive`` if one was not decided, else ``pass``."""
        outcomes = set(self.table["outcome"])
        return FAIL if FAIL in outcomes else INCONCLUSIVE if INCONCLUSIVE in outcomes else PASS

    def check(self) -> None:
        """Raise `ExpectationError` unless everything passed."""
        __tracebackhide__ = True  # pytest shows the line that expected it
        if self.outcome != PASS:
            raise ExpectationError(str(self))

    @property
    def lines(self) -> list[str]:
        """What came of each, as text."""
        return list(map(_line, self.table.to_dict("records")))

    def __str__(self) -> str:
        counts = Counter(self.table["outcome"])
        said = {FAIL: "failed", INCONCLUSIVE: "not decided", PASS: "passed"}
        head = ", ".join(f"{counts[one]} {word}" for one, word in said.items() if counts[one])
        return "\n".join([f"expectations: {head}", *self.lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


def expect(trace: Trace, *expectations: str, check: bool = True) -> Expectations:
    """Hold a run to what is expected of it.

    Parameters
    ----------
    trace : Trace
    *expectations : str
        A quantity, an operator and a limit each: ``step p50 < 120ms`` (also ``p90 p95 p99 mean min max``),
        ``steps >= 10``, ``phase data < 5%``, ``device idle < 10%``, ``peak < 8GiB``, ``sync == 0``,
        ``operator aten::copy_ < 2%``, ``kernel NAME == 0``, ``line 12 < 5%``. Shares are those of
        `phases`, `device`, `operators`, `kernels` and `lines`; of several devices the worst counts.
    check : bool
        Whether to raise unless everything passes.

    Returns
    -------
    Expectations

    Raises
    ------
    ExpectationError
        If one failed or was not decided: its interval holds the limit, or nothing was recorded that could
        tell. It is an AssertionError.
    OptionError
        For an expectation that cannot be understood.

    Notes
    -----
    Intervals are at 95 % and of this run: a second run of the same code differs by more (`compare`).
    Quantiles have order statistics', means Student's t over blocks of steps; see `statistics.intervals`.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> print(expect(draw("main: [mm   ][add ]"), "operator mm < 70%", check=False))
    expectations: 1 passed
    PASS          operator mm < 70%: 53.8 % (p.operators())
    """
    result = _judged_together(trace, expectations)
    if check:
        result.check()
    return result


@sharing
def _judged_together(trace: Trace, texts: Sequence[str]) -> Expectations:
    return judge(texts, lambda one: measured(trace, one), check=False)


def judge(texts: Sequence[str], measure: Callable[[Expectation], Measured], check: bool) -> Expectations:
    """Judge expectations, with what measures one."""
    if not texts:
        raise OptionError("nothing is expected: write what, as in expect('step p50 < 120ms')")
    rows = [_judged(one, measure(one)) for one in map(Expectation.parse, texts)]
    result = Expectations(pd.DataFrame(rows, columns=_COLUMNS))
    if check:
        result.check()
    return result


def _judged(one: Expectation, result: Measured) -> dict[str, object]:
    ends = {one.holds(result.low), one.holds(result.high)}
    decided = not math.isnan(result.value) and len(ends) == 1
    outcome = INCONCLUSIVE if not decided else PASS if ends == {True} else FAIL
    reason = result.reason if outcome == INCONCLUSIVE or result.low == result.high else ""
    if outcome == INCONCLUSIVE and not reason:
        reason = "the interval holds the limit"
    numbers = {"value": result.value, "low": result.low, "high": result.high, "limit": one.limit}
    return {
        "expectation": one.text,
        "outcome": outcome,
        **numbers,
        "unit": one.unit,
        "call": result.call,
        "reason": reason,
        "parts": () if outcome == PASS else tuple(result.parts()),
    }


def _line(row: dict[str, object]) -> str:
    value, low, high = (float(row[name]) for name in ("value", "low", "high"))  # type: ignore[arg-type]
    unit, parts = str(row["unit"]), []
    if not math.isnan(value):
        text = value_text(value, unit)
        if low < high:
            text += f" ({value_text(low, unit)} … {value_text(high, unit)})"
        parts.append(f"{text} ({row['call']})")
    if row["reason"]:
        parts.append(str(row["reason"]))
    first = f"{str(row['outcome']).upper():13} {row['expectation']}: {'; '.join(parts)}"
    return "\n".join([first, *(f"{'':13} · {part}" for part in row["parts"])])  # type: ignore[attr-defined]
