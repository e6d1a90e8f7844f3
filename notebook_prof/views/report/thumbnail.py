"""The picture of the static form: the account, and the whole timeline with names of tracks and an axis."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ...service.store import ViewStore
from ..pictures.account import STRIP, account_strip, has_strip
from ..pictures.images import MOST_ROWS, density_picture
from ..pictures.raster import pixels
from ..pictures.scene import Scene, Text, fit
from ..pictures.views import GUTTER, MARGIN, time_axis

_AXIS: Final = 26
_HIGH: Final = 14
_LOW: Final = 10
_FEW: Final = 16


def thumbnail(store: ViewStore, width: int = 1000) -> npt.NDArray[np.uint8]:
    """The timeline as an image: `density_picture`, with names at its left, times and the account on top.

    Parameters
    ----------
    store : ViewStore
        Of a trace with slices.
    width : int
        Pixels.

    Returns
    -------
    ndarray of uint8, shape (height, width, 3)
        At most 40 rows: the first tracks.
    """
    rows = min(store.columns.n_rows, MOST_ROWS)
    lane = _HIGH if rows <= _FEW else _LOW
    lanes = density_picture(store, width - GUTTER - MARGIN, lane)
    top = _AXIS + (STRIP if has_strip(store) else 0)
    scene = Scene(width, top + len(lanes))
    start, end = float(store.trace.span.start), float(max(store.trace.span.end, store.trace.span.start + 1))
    if top > _AXIS:
        account_strip(store, scene, GUTTER, width - MARGIN, start, end)
    time_axis(scene, start, end, top - 2)
    for track in store.columns.tracks:
        if track.first_row < rows:
            middle = top + (track.first_row + 0.5) * lane
            scene.parts.append(Text(6, middle, fit(track.name, GUTTER - 12)))
    image = pixels(scene, 1)
    image[top:, GUTTER : width - MARGIN] = lanes
    return image
