"""What may be written into the filter box of the operator table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from ..errors import OptionError
from ..units import parse_ns

_CONDITION: Final = re.compile(
    r"(self|total|device|count|share)\s*(>=|<=|>|<|=)\s*([\d.]+\s*(?:ns|us|µs|ms|s|min|%)?)(?=\s|$)"
)
_COLUMNS: Final = {
    "self": "self_ns",
    "total": "total_ns",
    "device": "device_ns",
    "count": "count",
}
_COMPARE: Final[dict[str, Any]] = {
    ">": np.greater,
    ">=": np.greater_equal,
    "<": np.less,
    "<=": np.less_equal,
    "=": np.equal,
}


class Quantities(Protocol):
    """Numbers of the rows to filter, each of shape (rows,): ns, counts, and shares from 0 to 1."""

    @property
    def group(self) -> npt.NDArray[np.int64]:
        """Which label a row has."""

    @property
    def share(self) -> npt.NDArray[np.float64]:
        """Of the self time of all rows."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A parsed filter: conditions, and a pattern or words.

    Examples
    --------
    >>> Filter.parse("conv self>1ms")
    Filter(words=('conv',), pattern=None, conditions=(('self', '>', '1ms'),))
    """

    words: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    conditions: tuple[tuple[str, str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Filter:
        """Read ``conv``, ``/mm|conv/``, ``self>1ms``, ``count>=10``, ``share>5%`` and mixtures.

        Raises
        ------
        OptionError
            If the regular expression is not one.
        """
        conditions = tuple((m[1], m[2], m[3].replace(" ", "")) for m in _CONDITION.finditer(text))
        rest = _CONDITION.sub(" ", text).strip()
        if len(rest) > 2 and rest.startswith("/") and rest.endswith("/"):
            try:
                return cls(pattern=re.compile(rest[1:-1], re.IGNORECASE), conditions=conditions)
            except re.error as error:
                raise OptionError(f"{rest} is not a regular expression: {error}") from error
        return cls(words=tuple(rest.casefold().split()), conditions=conditions)

    def keep(self, labels: Sequence[str], details: Sequence[str], rows: Quantities) -> npt.NDArray[np.bool_]:
        """Which rows pass.

        Parameters
        ----------
        labels, details : sequence of str
            Of every group.
        rows : Quantities
            Group and numbers of every row.

        Returns
        -------
        ndarray of bool, shape (rows,)
        """
        keep = np.ones(len(rows.group), bool)
        for column, operator, quantity in self.conditions:
            values = rows.share if column == "share" else getattr(rows, _COLUMNS[column])
            keep &= _COMPARE[operator](values, _limit(column, quantity))
        if self.words or self.pattern is not None:
            asked = np.unique(rows.group[keep])
            found = self.names([f"{labels[k]} {details[k]}".strip() for k in asked.tolist()])
            keep &= np.isin(rows.group, asked[found])
        return keep

    def names(self, names: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Which names the words or the pattern match, shape (names,)."""
        return np.array([self._text(name) for name in names], bool)

    def slices(self, dur: npt.NDArray[np.int64], self_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which slices pass the conditions on ``total`` (their duration) and ``self``, shape (n,).

        Raises
        ------
        OptionError
            For a condition on something that a single slice does not have.
        """
        keep = np.ones(len(dur), bool)
        for column, operator, quantity in self.conditions:
            if column not in ("total", "self"):
                raise OptionError(f"a slice has no {column}: search by name, total>1ms or self>1ms")
            keep &= _COMPARE[operator](dur if column == "total" else self_ns, _limit(column, quantity))
        return keep

    def _text(self, text: str) -> bool:
        if self.pattern is not None:
            return self.pattern.search(text) is not None
        folded = text.casefold()
        return all(word in folded for word in self.words)


def _limit(column: str, quantity: str) -> float:
    if column in ("share", "count"):
        number = float(quantity.rstrip("%nsuµmi"))
        return number / 100 if column == "share" and (quantity.endswith("%") or number > 1) else number
    return float(parse_ns(quantity))
