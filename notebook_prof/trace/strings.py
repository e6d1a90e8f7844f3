"""Interned strings: integer codes and distinct values, as in a pandas categorical."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from .arrays import CodeArray

if TYPE_CHECKING:
    import pandas as pd


class Coded(NamedTuple):
    """A column of strings: `values[codes[i]]` is row *i*; code -1 is missing."""

    codes: npt.NDArray[Any]
    values: Sequence[str]

    def named(self, default: str) -> Coded:
        """Return the column with `default` for missing and empty strings."""
        empty = np.array([*(not value for value in self.values), True])[self.codes]
        if not empty.any():
            return self
        return Coded(np.where(empty, len(self.values), self.codes), [*self.values, default])


def by_value(codes: npt.NDArray[Any], values: Sequence[str | None]) -> Coded:
    """Return a column of codes into `values`, which may contain duplicates; None is missing.

    >>> by_value(np.array([0, 1, 2, -1]), ["a", None, "a"])
    Coded(codes=array([ 0, -1,  0, -1]), values=['a'])
    """
    code_of = {value: i for i, value in enumerate(dict.fromkeys(v for v in values if v is not None))}
    lookup = np.array([*(-1 if value is None else code_of[value] for value in values), -1], np.int64)
    return Coded(lookup[codes], list(code_of))


def joined(columns: Sequence[Coded]) -> Coded:
    """Concatenate columns so that equal values share a code.

    >>> joined([Coded(np.array([0, -1]), ["a"]), Coded(np.array([1, 0]), ["a", "b"])])
    Coded(codes=array([ 0, -1,  1,  0]), values=['a', 'b'])
    """
    shifts = np.cumsum([0, *(len(column.values) for column in columns)]).tolist()
    codes = [
        np.where(column.codes < 0, -1, np.asarray(column.codes, np.int64) + shift)
        for column, shift in zip(columns, shifts, strict=False)
    ]
    return by_value(np.concatenate(codes), [value for column in columns for value in column.values])


UNNAMED: Final = "(unnamed)"
"""Stands for a blank name, which a sentence could not show."""


class Interner:
    """Numbers distinct strings by first appearance. With `blank`, it replaces strings of spaces only."""

    def __init__(self, values: Sequence[str] = (), blank: str | None = None) -> None:
        self._codes: dict[str, int] = {}
        self._blank = blank
        for value in values:
            self.code(value)

    def code(self, value: str) -> int:
        """Return the code of `value`, which may be new."""
        if self._blank is not None and not value.strip():
            value = self._blank
        return self._codes.setdefault(value, len(self._codes))

    @property
    def values(self) -> list[str]:
        """The distinct strings, in order of their codes."""
        return list(self._codes)

    def codes(self, column: Any, n: int) -> CodeArray:
        """Return the codes of a column, or of one value repeated `n` times. None and NaN become -1."""
        if column is None:
            return np.full(n, -1, np.int32)
        if isinstance(column, str):
            return np.full(n, self.code(column), np.int32)
        if not isinstance(column, Coded):
            column = _coded(column)
        lookup = np.fromiter((self.code(str(value)) for value in column.values), np.int32, len(column.values))
        codes: CodeArray = np.append(lookup, np.int32(-1))[column.codes]
        return codes

    def cut(self, longest: int) -> list[str]:
        """Cut strings to this many characters. Returns the beginnings of the strings that were cut."""
        # Cut strings end with their length and number, so they stay distinct.
        long = [value for value in self._codes if len(value) > longest]
        if long:
            self._codes = {_shortened(value, longest, code): code for value, code in self._codes.items()}
        return [value[:80] for value in long]

    def categorical(self, codes: CodeArray) -> pd.Categorical:
        """Return the column with these codes."""
        import pandas as pd

        return pd.Categorical.from_codes(codes, categories=pd.Index(self.values, dtype="object"))


def _coded(column: Any) -> Coded:
    import pandas as pd

    if isinstance(column, pd.Series):
        column = column.array
    if isinstance(column, pd.Categorical):
        return Coded(column.codes, [str(value) for value in column.categories])
    codes, values = pd.factorize(np.asarray(column, dtype=object))
    return Coded(codes, [str(value) for value in values])


def _shortened(value: str, longest: int, code: int) -> str:
    if len(value) <= longest:
        return value
    end = f"… ({len(value):,} characters, number {code:,})"
    return value[: longest - len(end)] + end


def readable(name: str) -> str:
    """Replace NUL characters and unpaired surrogates in a name, since files cannot contain them.

    >>> readable("odd\\0name.py") == "odd\N{REPLACEMENT CHARACTER}name.py"
    True
    """
    return name.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def as_text(values: pd.Series) -> pd.Series:
    """Convert values to text. Missing ones stay missing; pandas 2 would write ``None`` and ``nan``."""
    text = values.astype("str")
    return text if str(text.dtype) == "str" else text.astype(object).mask(values.isna())
