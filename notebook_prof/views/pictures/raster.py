"""A scene as pixels, with nothing but NumPy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...service.palette import rgba
from .font import HEIGHT, dots
from .scene import Line, Rect, Scene, Text

Image = npt.NDArray[np.uint8]


def pixels(scene: Scene, scale: int = 2) -> Image:
    """Draw a scene.

    Parameters
    ----------
    scene : Scene
    scale : int
        Dots a pixel of the scene, in both directions.

    Returns
    -------
    ndarray of uint8, shape (scale × height, scale × width, 3)

    Examples
    --------
    >>> pixels(Scene(3, 2, [Rect(0, 0, 1, 2, "#FF0000")]), 1)[0].tolist()
    [[255, 0, 0], [255, 255, 255], [255, 255, 255]]
    """
    image = np.full((scene.height * scale, scene.width * scale, 3), rgba(scene.paper)[:3], np.uint8)
    for part in scene.parts:
        if isinstance(part, Rect):
            _rect(image, part, scale)
        elif isinstance(part, Line):
            _line(image, part, scale)
        else:
            _text(image, part, scale)
    return image


def _rect(image: Image, part: Rect, scale: int) -> None:
    x0, y0 = round(part.x * scale), round(part.y * scale)
    x1 = max(round((part.x + part.width) * scale), x0 + 1)
    y1 = max(round((part.y + part.height) * scale), y0 + 1)
    there = image[max(y0, 0) : max(y1, 0), max(x0, 0) : max(x1, 0)]
    colour = np.array(rgba(part.colour)[:3], np.float64)
    there[:] = (part.alpha * colour + (1 - part.alpha) * there).astype(np.uint8)


def _line(image: Image, part: Line, scale: int) -> None:
    if not len(part.x):
        return
    x, y = np.asarray(part.x, np.float64) * scale, np.asarray(part.y, np.float64) * scale
    steps = np.maximum(np.abs(np.diff(x)), np.abs(np.diff(y))).astype(np.int64) + 1
    first = np.repeat(np.arange(len(steps)), steps)
    share = (np.arange(len(first)) - np.repeat(np.cumsum(steps) - steps, steps)) / np.repeat(steps, steps)
    at_x = np.rint(x[first] + share * (x[first + 1] - x[first])).astype(np.int64)
    at_y = np.rint(y[first] + share * (y[first + 1] - y[first])).astype(np.int64)
    drawn = (at_x // (4 * scale)) % 2 == 0 if part.dashed else np.ones(len(at_x), bool)
    for dx in range(scale):
        for dy in range(scale):
            px, py = at_x + dx, at_y + dy
            inside = drawn & (px >= 0) & (px < image.shape[1]) & (py >= 0) & (py < image.shape[0])
            image[py[inside], px[inside]] = rgba(part.colour)[:3]


def _text(image: Image, part: Text, scale: int) -> None:
    ink = np.kron(dots(part.text), np.ones((scale, scale), bool)).astype(bool)
    left = part.x * scale - {"start": 0.0, "middle": 0.5, "end": 1.0}[part.anchor] * ink.shape[1]
    x, y = round(left), round(part.y * scale - HEIGHT * scale / 2)
    ink = ink[max(-y, 0) :, max(-x, 0) :]
    x, y = max(x, 0), max(y, 0)
    there = image[y : y + ink.shape[0], x : x + ink.shape[1]]
    there[ink[: there.shape[0], : there.shape[1]]] = rgba(part.colour)[:3]
