"""The display of a Profile: text in a terminal, a static picture and the live views in a notebook."""

from __future__ import annotations

import sys
import uuid
import weakref
from typing import TYPE_CHECKING, Any, Final, TypeGuard, cast

from IPython.core.getipython import get_ipython
from IPython.display import display

from .cell import current_cell
from .deferred_display import first_form, is_verdict_slow, show_when_ready, static_form
from .widget import LinkedWidget, ProfileWidget, Shown, queries_of

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from ..comparison.comparison import Comparison
    from ..ranks.page.board import RankBoard

    Other = RankBoard | Comparison

_MIME: Final = "application/vnd.jupyter.widget-view+json"
_SHOWN: Final[dict[str, list[weakref.ref[LinkedWidget]]]] = {}
"""Widgets by the cell that shows them."""


def show(profile: Shown | Other, *, as_widget: bool = False, **_options: Any) -> LinkedWidget | None:
    """Show a Profile where it is evaluated. With `as_widget`, return the views for the front-end to show."""
    # There are two outputs: a static one (text, and HTML with a picture) that needs no kernel, and the live
    # views, which hide it while they exist. The views are sent first if a front-end is listening (see
    # `deferred_display`). A shell without a front-end gets the text. marimo uses `as_widget`.
    if as_widget:
        return _widget(profile)
    shell = get_ipython()
    if shell is None or not has_front_end(shell):
        print(repr(profile))  # noqa: T201 - in a terminal this is the display
        return None
    try:
        _show_views(profile, shell)
    except Exception as error:  # the cell has run; a failing view must not look like a failing cell
        reason = f"The views could not be created ({type(error).__name__}: {error})."
        display({"text/plain": f"{_text(profile)}\n{reason}"}, raw=True)
    return None


def _widget(shown: Shown | Other) -> LinkedWidget:
    if _is_board(shown):
        from .page_widgets import RankWidget

        return RankWidget(shown)
    if _is_comparison(shown):
        from .page_widgets import ComparisonWidget

        return ComparisonWidget(shown)
    return ProfileWidget(cast("Shown", shown))


def _show_views(profile: Shown | Other, shell: InteractiveShell) -> None:
    cell = current_cell(shell)
    close_shown(cell, shell)
    uid = uuid.uuid4().hex[:12]
    if _is_board(profile):
        _display(_board(profile, uid), cell, shell)
        return
    if _is_comparison(profile):
        _display(_comparison(profile, uid), cell, shell)
        return
    shown = cast("Shown", profile)
    if cell and (shown.pending is not None or len(shown.trace.slices)):
        if shown.pending is None:
            queries_of(shown).prefetcher.start()
        display(first_form(shown, uid), raw=True, display_id=uid)
        widget = ProfileWidget(shown, uid, late=is_verdict_slow(shown))
        _display(widget, cell, shell)
        show_when_ready(shown, widget, uid)
    else:
        display(static_form(shown, uid), raw=True)
        if len(shown.trace.slices):
            _display(ProfileWidget(shown, uid), cell, shell)


def _display(widget: LinkedWidget, cell: str, shell: InteractiveShell) -> None:
    widget.shown_at = getattr(shell, "execution_count", None)
    if cell:
        _SHOWN.setdefault(cell, []).append(weakref.ref(widget))
    display({_MIME: {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}}, raw=True)


def _board(board: RankBoard, uid: str) -> LinkedWidget:
    from ..ranks.page.report import rank_fragment
    from .page_widgets import RankWidget

    html = rank_fragment(board.frames({}), board.headline, uid)
    display({"text/plain": repr(board), "text/html": html}, raw=True)
    return RankWidget(board, uid)


def _comparison(comparison: Comparison, uid: str) -> LinkedWidget:
    from ..comparison.page.static_html import fragment
    from .page_widgets import ComparisonWidget

    html = fragment(comparison, uid)
    display({"text/plain": repr(comparison), "text/html": html}, raw=True)
    return ComparisonWidget(comparison, uid)


def _text(shown: Shown | Other) -> str:
    return repr(shown) if _is_board(shown) or _is_comparison(shown) else repr(cast("Shown", shown).trace)


def _is_board(shown: Shown | Other) -> TypeGuard[RankBoard]:
    """Return whether it is a RankBoard, without importing that package."""
    room = sys.modules.get("notebook_prof.ranks.page.board")
    return room is not None and isinstance(shown, room.RankBoard)


def _is_comparison(shown: Shown | Other) -> TypeGuard[Comparison]:
    """Return whether it is a Comparison, without importing that package."""
    room = sys.modules.get("notebook_prof.comparison.comparison")
    return room is not None and isinstance(shown, room.Comparison)


def has_front_end(shell: InteractiveShell) -> bool:
    """Return whether the shell runs in a kernel, so that a front-end may draw widgets."""
    return getattr(shell, "kernel", None) is not None


def close_shown(cell: str, shell: InteractiveShell) -> None:
    """Close the widgets shown by an earlier run of the cell: ipywidgets would keep them for ever."""
    if not cell:
        return
    count = getattr(shell, "execution_count", None)
    kept = []
    for reference in _SHOWN.get(cell, []):
        widget = reference()
        if widget is None:
            continue
        if widget.shown_at != count:
            widget.close()
        else:
            kept.append(reference)
    _SHOWN[cell] = kept
