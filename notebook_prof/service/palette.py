"""Colours: the same name, phase or category has the same colour in every view.

All are light enough for black text (contrast at least 4.5) and safe for colour-blind eyes: the hues
for names are Paul Tol's *light* scheme, the phases those of Okabe and Ito.
Sources: https://personal.sros.nl/~pault/ and https://jfly.uni-koeln.de/color/.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

NAMES: Final = (
    "#77AADD",
    "#EE8866",
    "#44BB99",
    "#EEDD88",
    "#FFAABB",
    "#99DDFF",
    "#BBCC33",
    "#C3A5E0",
    "#AAAA00",
    "#5FA8A0",
    "#D9A066",
    "#8FB8DE",
    "#E07B91",
    "#9BC995",
    "#C9B79C",
    "#B0A8D9",
)
"""By rank of self time: the first eight differ most."""

PHASES: Final = {
    "data": "#E69F00",
    "forward": "#56B4E9",
    "backward": "#CC79A7",
    "optimizer": "#35B58B",
    "communication": "#F0E442",
    "evaluation": "#9A8FD9",
    "other": "#B4B4B4",
}

CATEGORIES: Final = {
    "operator": "#77AADD",
    "kernel": "#EE8866",
    "launch": "#C9B79C",
    "memcpy": "#44BB99",
    "memset": "#99DDFF",
    "collective": "#F0E442",
    "python": "#BBCC33",
    "annotation": "#C9C9C9",
    "module": "#C3A5E0",
    "io": "#E69F00",
    "sync": "#FFAABB",
    "overhead": "#AAAA00",
}

ACCOUNT: Final = {
    "steps": ("#77AADD", "#44BB99", "#EE8866", "#C3A5E0", "#EEDD88", "#99DDFF"),
    "code": ("#D9CDB8", "#C4B597", "#E6DDCD"),
}
"""Parts of the account: a colour a loop of steps, neutral tones for statements; the rest is grey."""

STEP: Final = "#D5D9E0"
COUNTER: Final = "#5FA8A0"
MEMORY: Final = {"allocated": "#56B4E9", "reserved": "#999999", "selected": "#E69F00", "peak": "#D55E00"}


def name_colours(self_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """Return the position in `NAMES` for every name.

    Parameters
    ----------
    self_ns : ndarray of int64, shape (names,)
        Total self time of each name; the longest gets the first colour.

    Returns
    -------
    ndarray of uint8, shape (names,)

    Examples
    --------
    >>> name_colours(np.array([5, 90, 7])).tolist()
    [2, 0, 1]
    """
    rank = np.empty(len(self_ns), np.int64)
    rank[np.argsort(-self_ns, kind="stable")] = np.arange(len(self_ns))
    return (rank % len(NAMES)).astype(np.uint8)


def rgba(colour: str, alpha: int = 255) -> tuple[int, int, int, int]:
    """Return red, green, blue and alpha (0–255) of ``#RRGGBB``."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16), alpha
