"""Compare tables, saying which rows differ."""

from __future__ import annotations

import numpy as np
import pandas as pd


def differences(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
    """Cells that differ, as ``row column left right``; categories compare as text, missing equals missing."""
    assert len(left) == len(right), f"{len(left)} and {len(right)} rows"
    parts = []
    for column in left.columns:
        a, b = (frame[column].astype(object).reset_index(drop=True) for frame in (left, right))
        gone_a, gone_b = a.isna().to_numpy(), b.isna().to_numpy()
        a, b = a.where(~gone_a, None), b.where(~gone_b, None)
        differs = (gone_a != gone_b) | np.array([x != y for x, y in zip(a, b, strict=True)], bool)
        rows = np.flatnonzero(differs)
        parts.append(pd.DataFrame({"row": rows, "column": column, "left": a[rows], "right": b[rows]}))
    return pd.concat(parts, ignore_index=True)
