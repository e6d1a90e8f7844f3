"""Pictures of the views for a paper or a ticket, without a browser."""

from __future__ import annotations

import os
from typing import Final

from ...atomic_files import atomic_file, atomic_text
from ...errors import OptionError, check_option
from ...selection import Selection
from ...service.store import ViewStore
from ...trace import Trace
from .images import pixels, png
from .scene import THEMES, Scene
from .views import VIEWS

ALL: Final = "all"
CHOICES: Final = (ALL, *VIEWS)
_NARROWEST: Final = 480


def scene(
    trace: Trace, selection: Selection, view: str = ALL, width: int = 1000, theme: str = "light"
) -> Scene:
    """Draw a view, or all of them one below the other."""
    check_option("there is no view", view, CHOICES)
    if width < _NARROWEST:
        raise OptionError(f"width={width} is too narrow for a picture: use {_NARROWEST} pixels or more")
    check_option("there is no theme", theme, THEMES)
    store = ViewStore(trace, fold=True)
    whole = Scene(width, 0)
    for draw in VIEWS.values() if view == ALL else [VIEWS[view]]:
        whole.below(draw(store, selection, width))
    return whole.darkened() if theme == "dark" else whole


def write_png(scene: Scene, path: str | os.PathLike[str]) -> None:
    """Write a picture as PNG, with two dots per pixel."""
    data = png(pixels(scene))
    with atomic_file(path) as file:
        file.write(data)


def write_svg(scene: Scene, path: str | os.PathLike[str]) -> None:
    text = scene.svg()
    with atomic_text(path) as file:
        file.write(text)
