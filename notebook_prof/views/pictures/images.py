"""PNG pictures of a trace, with nothing but NumPy and zlib."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Final

import numpy as np
import numpy.typing as npt

from ...service.lod import density
from ...service.palette import NAMES, rgba
from ...service.store import ViewStore

_LANE: Final = 7
MOST_ROWS: Final = 40
_BACKGROUND: Final = (246, 247, 249)
_RULE: Final = (205, 209, 214)


def density_picture(store: ViewStore, width: int = 1000, lane: int = _LANE) -> npt.NDArray[np.uint8]:
    """Return the whole timeline as an image: a lane a row (track × depth), coloured by the longest slice.

    Parameters
    ----------
    store : ViewStore
    width : int
        Pixels.
    lane : int
        Height of a row, pixels.

    Returns
    -------
    ndarray of uint8, shape (height, width, 3)
        At most 40 rows; of shape (7, width, 3) and blank for a trace without slices.
    """
    c = store.columns
    rows = np.arange(min(c.n_rows, MOST_ROWS), dtype=np.int64)
    image = np.full((max(len(rows), 1) * lane, width, 3), _BACKGROUND, np.uint8)
    if not len(rows):
        return image
    span = (float(store.trace.span.start), float(max(store.trace.span.end, 1)))
    drawn = store.drawn(rows)
    d = density(drawn.rows, drawn.blocks, rows, span, width)
    n = min(d.busy_ns.shape[1], width)
    longest = drawn.rows.order[np.maximum(d.longest, 0)]
    palette = np.array([rgba(colour)[:3] for colour in NAMES], np.float64)
    colour = palette[store.name_colours[np.maximum(c.name[longest], 0)]]
    share = np.where(d.count > 0, np.clip(d.busy_ns / d.width, 0.3, 1), 0)[:, :, None]
    cells = (colour * share + np.array(_BACKGROUND) * (1 - share)).astype(np.uint8)
    lanes = np.repeat(cells[:, np.minimum(np.arange(width) * n // width, n - 1)], lane, axis=0)
    lanes[lane - 1 :: lane] = _BACKGROUND
    image[:] = lanes
    for track in c.tracks:
        if 0 < track.first_row < len(rows):
            image[track.first_row * lane - 1] = _RULE
    return image


def png(image: npt.NDArray[np.uint8]) -> bytes:
    """Encode an RGB image.

    Parameters
    ----------
    image : ndarray of uint8, shape (height, width, 3)

    Returns
    -------
    bytes
        A PNG file. Source: PNG specification (W3C), 8-bit truecolour, filter 0.

    Examples
    --------
    >>> png(np.zeros((1, 2, 3), np.uint8))[:8]
    b'\\x89PNG\\r\\n\\x1a\\n'
    """
    height, width, _ = image.shape
    lines = np.zeros((height, 1 + 3 * width), np.uint8)
    lines[:, 1:] = image.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def data_uri(image: npt.NDArray[np.uint8]) -> str:
    """Return the image as the text of an ``<img src>``."""
    return "data:image/png;base64," + base64.b64encode(png(image)).decode("ascii")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
