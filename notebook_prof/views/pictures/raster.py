"""A scene as pixels, with nothing but NumPy; its letters are made of 5 × 7 dots.

The common shapes of LCD modules: five columns a letter, lowest bit on top.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from ...service.palette import rgba
from .scene import Line, Rect, Scene, Text

WIDTH: Final = 6
HEIGHT: Final = 8
_FIRST: Final = 32
_COLUMNS: Final = """
0000000000 00005F0000 0007000700 147F147F14 242A7F2A12 2313086462 3649562050 0008070300
001C224100 0041221C00 2A1C7F1C2A 08083E0808 0080703000 0808080808 0000606000 2010080402
3E5149453E 00427F4000 7249494946 2141494D33 1814127F10 2745454539 3C4A494931 4121110907
3649494936 464949291E 0000140000 0040340000 0008142241 1414141414 0041221408 0201590906
3E415D594E 7C1211127C 7F49494936 3E41414122 7F4141413E 7F49494941 7F09090901 3E41415173
7F0808087F 00417F4100 2040413F01 7F08142241 7F40404040 7F021C027F 7F0408107F 3E4141413E
7F09090906 3E4151215E 7F09192946 2649494932 03017F0103 3F4040403F 1F2040201F 3F4038403F
6314081463 0304780403 6159494D43 007F414141 0204081020 004141417F 0402010204 4040404040
0003070800 2054547840 7F28444438 3844444428 384444287F 3854545418 00087E0902 18A4A49C78
7F08040478 00447D4000 2040403D00 7F10284400 00417F4000 7C04780478 7C08040478 3844444438
FC18242418 18242418FC 7C08040408 4854545424 04043F4424 3C4040207C 1C2040201C 3C4030403C
4428102844 4C9090907C 4464544C44 0008364100 0000770000 0041360800 0201020402 FC2020103C
0040004000 0808080808 7F4141417F
"""
_ALSO: Final = {"µ": 95, "μ": 95, "…": 96, "–": 97, "−": 97, "·": 14, "×": 88}
_UNKNOWN: Final = 98


@cache
def _glyphs() -> npt.NDArray[np.bool_]:
    columns = np.array([list(bytes.fromhex(letter)) for letter in _COLUMNS.split()], np.uint8)
    dots = (columns[:, None, :] >> np.arange(HEIGHT)[None, :, None]) & 1
    return np.pad(dots.astype(bool), ((0, 0), (0, 0), (0, WIDTH - 5)))


def dots(text: str) -> npt.NDArray[np.bool_]:
    """Return the dots of a text, shape (8, 6 × letters).

    Examples
    --------
    >>> dots("1")[:7, :5].astype(int).sum(axis=0).tolist()
    [0, 2, 7, 1, 0]
    """
    glyph_codes = [
        ord(letter) - _FIRST if " " <= letter <= "~" else _ALSO.get(letter, _UNKNOWN) for letter in text
    ]
    if not glyph_codes:
        return np.zeros((HEIGHT, 0), bool)
    return np.asarray(_glyphs()[glyph_codes].transpose(1, 0, 2).reshape(HEIGHT, -1))


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
