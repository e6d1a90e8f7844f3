"""Offsets and drifts of clocks, from instants that several ranks saw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

Floats = npt.NDArray[np.float64]

_ROUNDS: Final = 20
FEWEST: Final = 12
"""Shared collectives below which a drift is not looked for."""
NOISE: Final = 4.0
"""How many residuals a difference must exceed."""
FLOOR_NS: Final = 10_000
_LESS: Final = 0.5


@dataclass(frozen=True, slots=True)
class ClockFit:
    """What ranks' clocks are ahead by: ``offset + drift × (instant - reference)``.

    Attributes
    ----------
    offset, drift, residual : ndarray of float64, shape (ranks,)
        In ns, in ns per ns, and in ns; NaN (drift: 0) for ranks that share nothing with the others.
    reference : float
        Instant at which `offset` holds.
    """

    offset: Floats
    drift: Floats
    residual: Floats
    reference: float


def fit_clocks(seen: pd.DataFrame, count: int) -> ClockFit:
    """Find what makes all ranks see shared instants at one time.

    Parameters
    ----------
    seen : DataFrame
        ``rank`` (0 to `count` - 1), ``match`` (which instant) and ``end`` (float64 ns on the rank's clock).
    count : int

    Returns
    -------
    ClockFit
        With drifts only where a rank shares at least 12 instants, where the drift adds up to more than four
        residuals and 10 µs over them, and where it halves the residual.

    Notes
    -----
    Offsets are medians, found from the lowest rank outwards and improved in turn with the instants, whose
    time is the median over their ranks. A drift is the slope between the medians of the first and the last
    third of a rank's instants. Medians of offset and drift over the ranks are 0.

    Examples
    --------
    >>> at = 1e9 * np.arange(20)
    >>> seen = pd.DataFrame({"rank": [0] * 20 + [1] * 20, "match": [*range(20)] * 2})
    >>> fit = fit_clocks(seen.assign(end=[*at, *(at * 1.00004 + 5e8)]), 2)
    >>> (1e6 * np.diff(fit.drift)).round(2).tolist(), bool(fit.residual.max() < 100)
    ([40.0], True)
    """
    reference = float(seen["end"].median()) if len(seen) else 0.0
    seen = seen.assign(at=seen["end"] - reference)
    steady = _solved(seen, count, reference, drifts=False)
    moving = _solved(seen, count, reference, drifts=True)
    if not _better(seen, steady, moving):
        return steady
    return moving


def _solved(seen: pd.DataFrame, count: int, reference: float, *, drifts: bool) -> ClockFit:
    offset, drift = np.full(count, np.nan), np.zeros(count)
    if len(seen):
        offset[int(seen["rank"].min())] = 0.0
    while True:
        new_offset, new_drift = _against(seen, offset, drift, drifts)
        found = np.isnan(offset) & np.isfinite(new_offset)
        if not found.any():
            break
        offset, drift = np.where(found, new_offset, offset), np.where(found, new_drift, drift)
    offset, drift = _improved(seen, offset, drift, drifts)
    known = np.isfinite(offset)
    if known.any():
        drift = np.where(known, drift - np.median(drift[known]), 0.0)
        offset, _ = _improved(seen, offset, drift, False)
        offset = offset - np.nanmedian(offset)
    left = _corrected(seen, offset, drift)
    error = (left - left.groupby(seen["match"]).transform("median")).abs()
    residual = error.groupby(seen["rank"]).median().reindex(range(count)).to_numpy(np.float64)
    return ClockFit(offset, drift, residual, reference)


def _improved(seen: pd.DataFrame, offset: Floats, drift: Floats, drifts: bool) -> tuple[Floats, Floats]:
    for _ in range(_ROUNDS):
        new_offset, drift = _against(seen, offset, drift, drifts)
        still = np.allclose(new_offset, offset, atol=1.0, equal_nan=True)
        offset = new_offset
        if still:
            break
    return offset, drift


def _corrected(seen: pd.DataFrame, offset: Floats, drift: Floats) -> pd.Series[Any]:
    rank = seen["rank"].to_numpy()
    value: pd.Series[Any] = seen["at"] - offset[rank] - drift[rank] * seen["at"]
    return value


def _against(seen: pd.DataFrame, offset: Floats, drift: Floats, drifts: bool) -> tuple[Floats, Floats]:
    """Offset and drift of every rank against the instants of those that have an offset."""
    instant = _corrected(seen, offset, drift).groupby(seen["match"]).transform("median")
    ahead = seen["at"] - instant
    rank, count = seen["rank"], len(offset)
    slope = _slopes(seen, ahead, count) if drifts else drift
    rest = ahead - slope[rank] * seen["at"]
    return rest.groupby(rank).median().reindex(range(count)).to_numpy(np.float64), slope


def _slopes(seen: pd.DataFrame, ahead: pd.Series[Any], count: int) -> Floats:
    """Slope of each rank; 0 for ranks with few instants."""
    known = ahead.notna()
    rank, at, value = seen["rank"][known], seen["at"][known], ahead[known]
    place = at.groupby(rank).rank(pct=True)
    enough = at.groupby(rank).transform("size") >= FEWEST
    slope = np.zeros(count)
    ends = [enough & (place <= 1 / 3), enough & (place > 2 / 3)]
    (x0, y0), (x1, y1) = (
        (at[end].groupby(rank[end]).median(), value[end].groupby(rank[end]).median()) for end in ends
    )
    found = ((y1 - y0) / (x1 - x0).where(x1 > x0)).fillna(0.0)
    slope[found.index.to_numpy(np.int64)] = found.to_numpy(np.float64)
    return slope


def _better(seen: pd.DataFrame, steady: ClockFit, moving: ClockFit) -> bool:
    """Whether some rank's drift stands out of the noise, and is no artefact of it."""
    if not np.isfinite(moving.residual).any():
        return False
    at = seen["at"].groupby(seen["rank"])
    lasting = (at.max() - at.min()).reindex(range(len(moving.drift))).fillna(0.0).to_numpy(np.float64)
    noise = NOISE * np.nan_to_num(moving.residual, nan=np.inf) + FLOOR_NS
    halved = np.nanmax(moving.residual) <= _LESS * np.nanmax(steady.residual)
    return bool(halved and (np.abs(moving.drift) * lasting > noise).any())
