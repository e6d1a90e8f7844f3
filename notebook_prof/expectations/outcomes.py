"""Whether a run meets its expectations: pass, fail or inconclusive."""

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
    "expectation", "outcome", "value", "low", "high", "limit", "unit", "call", "reason", "parts",
]  # fmt: skip


class Expectations:
    """Expectations and their outcomes.

    Attributes
    ----------
    table : DataFrame
        One row per expectation, in the given order: ``expectation``; ``outcome`` (``pass fail
        inconclusive``); ``value`` with its 95 % interval ``low high`` (both equal to a counted value),
        ``limit`` and their ``unit`` (``ns share bytes count``); ``call`` that returns the value; ``reason``;
        ``parts``: if it did not pass, the rows that changed or have the largest share, each with its call.
    """

    def __init__(self, table: pd.DataFrame) -> None:
        self.table = table

    @property
    def outcome(self) -> str:
        """``fail`` if one failed, else ``inconclusive`` if one was inconclusive, else ``pass``."""
        outcomes = set(self.table["outcome"])
        return FAIL if FAIL in outcomes else INCONCLUSIVE if INCONCLUSIVE in outcomes else PASS

    def check(self) -> None:
        """Raise `ExpectationError` unless everything passed."""
        __tracebackhide__ = True  # pytest shows the line with the expectation
        if self.outcome != PASS:
            raise ExpectationError(str(self))

    @property
    def lines(self) -> list[str]:
        """The outcome of each, as text."""
        return list(map(_line, self.table.to_dict("records")))

    def __str__(self) -> str:
        counts = Counter(self.table["outcome"])
        said = {FAIL: "failed", INCONCLUSIVE: "not decided", PASS: "passed"}
        head = ", ".join(f"{counts[one]} {word}" for one, word in said.items() if counts[one])
        return "\n".join([f"expectations: {head}", *self.lines])

    __repr__ = __str__


def expect(trace: Trace, *expectations: str, check: bool = True) -> Expectations:
    """Check a run against expectations.

    Parameters
    ----------
    *expectations : str
        A quantity, an operator and a limit: ``step p50 < 120ms`` (also ``p90 p95 p99 mean min max``),
        ``steps >= 10``, ``phase data < 5%``, ``device idle < 10%``, ``peak < 8GiB``, ``sync == 0``,
        ``operator aten::copy_ < 2%``, ``kernel NAME == 0``, ``line 12 < 5%``. Shares are those of `phases`,
        `device`, `operators`, `kernels` and `lines`; the worst of several devices counts.
    check : bool
        Whether to raise unless everything passes.

    Returns
    -------
    Expectations

    Raises
    ------
    ExpectationError
        If one failed or is inconclusive: its interval contains the limit, or the necessary data was not
        recorded. It is an AssertionError.
    OptionError
        For an invalid expectation.

    Notes
    -----
    Intervals are at 95 % and for this run: a second run of the same code differs by more (`compare`).
    Intervals of quantiles use order statistics, those of means Student's t over blocks of steps; see
    `statistics`.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> print(expect(draw("main: [mm   ][add ]"), "operator mm < 70%", check=False))
    expectations: 1 passed
    PASS          operator mm < 70%: 53.8 % (p.operators())
    """
    together = sharing(lambda _: judge(expectations, lambda one: measured(trace, one), check=False))
    result = together(trace)
    if check:
        result.check()
    return result


def judge(texts: Sequence[str], measure: Callable[[Expectation], Measured], check: bool) -> Expectations:
    """Judge expectations, given a function that measures one."""
    if not texts:
        raise OptionError("no expectation was given: write one, as in expect('step p50 < 120ms')")
    rows = [_judged(one, measure(one)) for one in map(Expectation.parse, texts)]
    result = Expectations(pd.DataFrame(rows, columns=_COLUMNS))
    if check:
        result.check()
    return result


def _judged(one: Expectation, result: Measured) -> tuple[object, ...]:
    ends = {one.holds(result.low), one.holds(result.high)}
    decided = not math.isnan(result.value) and len(ends) == 1
    outcome = INCONCLUSIVE if not decided else PASS if ends == {True} else FAIL
    reason = result.reason if outcome == INCONCLUSIVE or result.low == result.high else ""
    if outcome == INCONCLUSIVE and not reason:
        reason = "the interval contains the limit"
    numbers = result.value, result.low, result.high, one.limit, one.unit
    parts = () if outcome == PASS else tuple(result.parts())
    return one.text, outcome, *numbers, result.call, reason, parts


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
