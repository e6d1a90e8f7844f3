"""A picture as rectangles, lines and texts; written as SVG here, as PNG in `raster`."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Any, Final, NamedTuple

import numpy.typing as npt

CHARACTER_PX: Final = 6
"""Mean width of a character in names, at the only text size."""

INK: Final = "#1A1A1A"
MUTED: Final = "#666666"
RULE: Final = "#D5D9E0"
PAPER: Final = "#FFFFFF"
STRIPE: Final = "#F5F6F8"
FADED: Final = "#DDDDDD"
ON_COLOUR: Final = "#1A1A1B"
"""Colour of texts on slices, whose colours are light in both themes."""

DARK: Final = {
    INK: "#EEEEEE",
    MUTED: "#A6A6A6",
    RULE: "#3A3D42",
    PAPER: "#111111",
    STRIPE: "#1A1B1D",
    FADED: "#3C3C3C",
}
"""Colours other than those of data, on a dark background."""
THEMES: Final = ("light", "dark")


class Rect(NamedTuple):
    """A filled rectangle; pixels from the top left."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    alpha: float = 1.0


class Polyline(NamedTuple):
    """A line through points (arrays of equal length), dashed or not."""

    x: npt.NDArray[Any]
    y: npt.NDArray[Any]
    colour: str
    dashed: bool = False


class Label(NamedTuple):
    """A text, 11 px high, with its middle line at `y`; `x` is its ``start``, ``middle`` or ``end``."""

    x: float
    y: float
    text: str
    colour: str = INK
    anchor: str = "start"


@dataclass(slots=True)
class Scene:
    """Parts in drawing order; sizes in pixels."""

    width: int
    height: int
    parts: list[Rect | Polyline | Label] = field(default_factory=list)
    paper: str = PAPER

    def darkened(self) -> Scene:
        """Return the scene on a dark background; colours of data stay.

        >>> Scene(9, 9, [Rect(0, 0, 9, 9, RULE), Rect(0, 0, 1, 1, "#FF0000")]).darkened().parts[1].colour
        '#FF0000'
        """
        parts: list[Any] = [part._replace(colour=DARK.get(part.colour, part.colour)) for part in self.parts]
        return Scene(self.width, self.height, parts, DARK[self.paper])

    def below(self, other: Scene) -> None:
        """Append another scene below this one."""
        for part in other.parts:
            moved: Any = part.y + self.height
            self.parts.append(part._replace(y=moved))
        self.height += other.height
        self.width = max(self.width, other.width)

    def svg(self) -> str:
        """Return the scene as a standalone SVG document; every text is escaped."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
            f'viewBox="0 0 {self.width} {self.height}" font-family="Helvetica, Arial, sans-serif" '
            f'font-size="11"><rect width="100%" height="100%" fill="{self.paper}"/>'
        )
        return head + "".join(map(_element, self.parts)) + "</svg>\n"


def fit(text: str, room_px: float) -> str:
    """Return the beginning of a text that fits, with ``…``; empty if not even two characters fit."""
    most = int(room_px // CHARACTER_PX)
    if len(text) <= most:
        return text
    return text[: most - 1] + "…" if most > 1 else ""


def _element(part: Rect | Polyline | Label) -> str:
    if isinstance(part, Rect):
        alpha = "" if part.alpha >= 1 else f' fill-opacity="{part.alpha:.2f}"'
        return (
            f'<rect x="{part.x:.2f}" y="{part.y:.2f}" width="{part.width:.2f}" '
            f'height="{part.height:.2f}" fill="{part.colour}"{alpha}/>'
        )
    if isinstance(part, Polyline):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(part.x.tolist(), part.y.tolist(), strict=True))
        dash = ' stroke-dasharray="4 3"' if part.dashed else ""
        return f'<polyline points="{points}" fill="none" stroke="{part.colour}" stroke-width="1.2"{dash}/>'
    text = "".join(letter if letter.isprintable() else "�" for letter in part.text)
    return (
        f'<text x="{part.x:.1f}" y="{part.y + 4:.1f}" fill="{part.colour}" text-anchor="{part.anchor}">'
        f"{escape(text)}</text>"
    )
