"""Finds the display code for objects of this layer. It is in the layer above."""

from __future__ import annotations

from typing import Any

from .. import extensions


def widget_of(shown: Any) -> Any:
    """Return the live views of an object, for a front-end that displays the returned value.

    Raises
    ------
    NotImplementedError
        If no display code is registered.
    """
    for entry in extensions.points("display").values():
        return entry.load()(shown, as_widget=True)
    raise NotImplementedError


def display(shown: Any, **options: Any) -> None:
    """Show an object where it is evaluated. IPython calls this through ``_ipython_display_``.

    Raises
    ------
    NotImplementedError
        If no display code is registered. IPython then uses ``_repr_mimebundle_``.
    """
    for entry in extensions.points("display").values():
        entry.load()(shown, **options)
        return
    raise NotImplementedError
