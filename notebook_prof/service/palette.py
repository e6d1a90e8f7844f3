"""Colours: the same name, phase or category has the same colour in every view.

All are light enough for black text (contrast at least 4.5). The first hues for names are Paul Tol's *light*
scheme, the phases those of Okabe and Ito; both are safe for colour-blind eyes.
Sources: https://personal.sros.nl/~pault/ and https://jfly.uni-koeln.de/color/.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from ..labels import family_code

NEUTRAL: Final = "#C9C9C9"
"""Annotations: they say what runs below them, and are no work of their own."""
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
    "#F2B880",
    "#7CC9A9",
    "#D69AC0",
    "#8AA6E8",
    "#DCC95E",
    "#74C5D6",
    "#DB9393",
    "#A9D08E",
    NEUTRAL,
)
"""By a hash of the family name; the last is that of annotations."""

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
    "annotation": NEUTRAL,
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

RESOURCE: Final = {"device": "#EE8866", "host": "#77AADD"}
"""Busy time in the overview."""
STEP: Final = "#D5D9E0"
COUNTER: Final = "#5FA8A0"
MEMORY: Final = {"allocated": "#56B4E9", "reserved": "#999999", "selected": "#E69F00", "peak": "#D55E00"}


def name_colours(families: Iterable[str], annotations: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    """Return the position in `NAMES` for every name: the same for a family in every recording and process.

    Parameters
    ----------
    families : iterable of str
        What each name is one of; see `notebook_prof.labels.family`.
    annotations : ndarray of bool, shape (names,)
        Names that only mark what runs below them; they get the last colour.

    Returns
    -------
    ndarray of uint8, shape (names,)

    Examples
    --------
    >>> codes = name_colours(["gemm", "gemm", "step"], np.array([False, False, True]))
    >>> bool(codes[0] == codes[1]), int(codes[2]) == len(NAMES) - 1
    (True, True)
    """
    codes = np.fromiter((family_code(text) % (len(NAMES) - 1) for text in families), np.uint8)
    codes[annotations[: len(codes)]] = len(NAMES) - 1
    return np.asarray(codes, np.uint8)


def rgba(colour: str, alpha: int = 255) -> tuple[int, int, int, int]:
    """Return red, green, blue and alpha (0–255) of ``#RRGGBB``."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16), alpha
