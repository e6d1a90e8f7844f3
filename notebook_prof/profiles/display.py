"""Finds the display code for the objects of this layer, which is in the layer above."""

from __future__ import annotations

from typing import Any

from .. import extensions


def widget_of(shown: Any) -> Any:
    """Return the live views of something, for a front-end that displays what it is given.

    Raises
    ------
    NotImplementedError
        If nothing is registered that could.
    """
    for entry in extensions.points("display").values():
        return entry.load()(shown, as_widget=True)
    raise NotImplementedError


def display(shown: Any, **options: Any) -> None:
    """Show something where it is evaluated; IPython calls this through ``_ipython_display_``.

    Raises
    ------
    NotImplementedError
        If nothing is registered that could: IPython goes on to ``_repr_mimebundle_``.
    """
    for entry in extensions.points("display").values():
        entry.load()(shown, **options)
        return
    raise NotImplementedError
