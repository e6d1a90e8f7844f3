"""The picture of the static form: the whole timeline with the names of its tracks and an axis."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from .drawing.raster import pixels
from .drawing.scene import Scene, Text, fit
from .drawing.views import GUTTER, MARGIN, time_axis
from .picture import MOST_ROWS, density_picture
from .store import ViewStore

_AXIS: Final = 26
_HIGH: Final = 14
_LOW: Final = 10
_FEW: Final = 16


def thumbnail(store: ViewStore, width: int = 1000) -> npt.NDArray[np.uint8]:
    """The timeline as an image: `density_picture`, with names at its left and times on top.

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
    scene = Scene(width, _AXIS + len(lanes))
    span = store.trace.span
    time_axis(scene, float(span.start), float(max(span.end, span.start + 1)), _AXIS - 2)
    for track in store.columns.tracks:
        if track.first_row < rows:
            middle = _AXIS + (track.first_row + 0.5) * lane
            scene.parts.append(Text(6, middle, fit(track.name, GUTTER - 12)))
    image = pixels(scene, 1)
    image[_AXIS:, GUTTER : width - MARGIN] = lanes
    return image
