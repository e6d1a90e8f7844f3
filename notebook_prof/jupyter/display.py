"""The display of a Profile: text in a terminal, a static picture and the live views in a notebook."""

from __future__ import annotations

import contextvars
import sys
import threading
import uuid
import weakref
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any, Final, TypeGuard, cast

from IPython.core.getipython import get_ipython
from IPython.display import display

from ..analysis.scope import sharing
from ..background import PATIENCE_S, UNSEEN_S, IdleTime, checkpoint, start_thread
from ..session import current
from ..units import format_count, format_ns
from .cell import current_cell
from .widget import LinkedWidget, ProfileWidget, headline_of, queries_of

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from ..comparison.comparison import Comparison
    from ..profiles.profile import Profile
    from ..ranks.page.board import RankBoard
    from ..trace import Trace

    Other = RankBoard | Comparison

# Shows the slow parts of a Profile after its views: the verdict, and the static form for readers without a
# kernel.


def first_form(profile: Profile, uid: str) -> dict[str, str]:
    """Return the short text shown until the static form is ready."""
    if profile.pending is not None:
        facts = "The recording is being assembled"
    else:
        trace = profile.trace
        facts = f"{format_count(len(trace.slices))} slices over {format_ns(trace.span.dur)}"
    explanation = "Its verdict and picture were still being made. If this text stays, run the cell again."
    html = f"<p><b>{escape(facts)}</b><br>{explanation}</p>"
    return {
        "text/plain": f"{facts}. {explanation}",
        "text/html": f'<div class="nbp-static nbp-static-{escape(uid, quote=True)}">{html}</div>',
    }


def static_form(profile: Profile, uid: str) -> dict[str, Any]:
    """Make the text form, and the HTML form with a picture and a table. Neither needs a kernel."""
    from ..views.report.static_html import fragment  # imported late: no widget should wait for it

    store = queries_of(profile).store  # its indexes serve the live views too
    html = fragment(profile.trace, profile.selection, verdict=profile.headline, uid=uid, store=store)
    return {"text/plain": repr(profile), "text/html": html}


def show_when_ready(profile: Profile, widget: ProfileWidget, uid: str) -> threading.Thread | None:
    """Compute the verdict and the static form in a thread, and show each when ready."""

    # If the trace is not built yet, the thread waits for it; if it has no slices, the thread closes the
    # widget. Closing the widget ends the work. `uid` is the display id of the first form. The thread works
    # after the views are first drawn and not during recordings, and it does not keep the kernel alive. Where
    # threads are not available, everything is done before this returns, and it returns None.
    def tell_verdict() -> None:
        widget.tell_headline(*headline_of(profile))

    def work() -> None:
        if (pending := profile.pending) is not None:
            pending.start()
            pending.wait()
            if widget.comm is None:
                return
            if not _has_slices(profile):
                widget.close()
                _show_static(profile, uid)
                return
            queries_of(profile).prefetcher.start()
            widget.begin()
        is_seen = queries_of(profile).prefetcher.wait_drawn()
        queries_of(profile).prefetcher.wait()
        tell_all(profile.trace, is_seen)

    @sharing
    def tell_all(_trace: Trace, is_seen: bool) -> None:
        parts: tuple[tuple[Callable[[], None], float], ...] = (
            (tell_verdict, PATIENCE_S if is_seen else UNSEEN_S),
            (lambda: _show_static(profile, uid), UNSEEN_S),
        )
        for part, patience_s in parts:
            with IdleTime(current.is_recording, patience_s).used():
                checkpoint()
                if widget.comm is None:
                    return
                part()

    own = contextvars.copy_context()  # so that messages belong to the cell that showed the profile
    thread = start_thread(lambda: own.run(work), "notebook_prof late")
    if thread is None and widget.comm is not None:
        tell_all(profile.trace, True)
    return thread


def _has_slices(profile: Profile) -> bool:
    try:
        return len(profile.trace.slices) > 0
    except Exception:  # the trace could not be built: the static form says why
        return False


def _show_static(profile: Profile, uid: str) -> None:
    try:
        form = static_form(profile, uid)
    except Exception:  # the first form stays and says what to do next
        return
    display(form, raw=True, display_id=uid, update=True)


# The widgets for the ranks' dashboard and for a comparison.


class RankWidget(LinkedWidget):
    """One display of the ranks' dashboard, and of the timelines opened in it."""

    entry = "rank_widget"
    styles = ("dashboard", "ranks")

    def __init__(self, board: RankBoard, uid: str = "") -> None:
        from ..ranks.page.queries import RankProtocol  # loads Bokeh

        answers = RankProtocol(board)
        settings = {**answers.settings(), "uid": uid}
        super().__init__(lambda: answers, board.selection, answers.document(), settings)


class ComparisonWidget(LinkedWidget):
    """One display of a comparison of recordings."""

    entry = "comparison_widget"
    styles = ("dashboard", "comparison")

    def __init__(self, comparison: Comparison, uid: str = "") -> None:
        from ..comparison.page.queries import ComparisonProtocol

        answers = ComparisonProtocol(comparison)
        settings = {**answers.settings(), "uid": uid}
        super().__init__(lambda: answers, comparison.selection, answers.document(), settings)


_MIME: Final = "application/vnd.jupyter.widget-view+json"
_SHOWN: Final[dict[str, list[weakref.ref[LinkedWidget]]]] = {}
"""The open widgets, by the cell that shows them."""


def show(profile: Profile | Other, *, as_widget: bool = False, **_options: Any) -> LinkedWidget | None:
    """Show a Profile where it is evaluated. With `as_widget`, return the views for the front-end to show."""
    # There are two outputs: a static one (text, and HTML with a picture) that needs no kernel, and the live
    # views, which hide it while they exist. The views are sent first if a front-end is listening (see
    # `show_when_ready`). A shell without a front-end gets the text. marimo uses `as_widget`.
    if as_widget:
        return _widget(profile)
    shell = get_ipython()
    if shell is None or getattr(shell, "kernel", None) is None:
        print(repr(profile))  # noqa: T201 - in a terminal this is the display
        return None
    try:
        _show_views(profile, shell)
    except Exception as error:  # the cell has run; a failing view must not look like a failing cell
        reason = f"The views could not be created ({type(error).__name__}: {error})."
        is_other = _is_board(profile) or _is_comparison(profile)
        text = repr(profile if is_other else cast("Profile", profile).trace)
        display({"text/plain": f"{text}\n{reason}"}, raw=True)
    return None


def _widget(shown: Profile | Other, uid: str = "") -> LinkedWidget:
    if _is_board(shown):
        return RankWidget(shown, uid)
    if _is_comparison(shown):
        return ComparisonWidget(shown, uid)
    return ProfileWidget(cast("Profile", shown), uid)


def _show_views(profile: Profile | Other, shell: InteractiveShell) -> None:
    cell = current_cell(shell)
    close_shown(cell, shell)
    uid = uuid.uuid4().hex[:12]
    if _is_board(profile):
        from ..ranks.page.queries import rank_fragment

        html = rank_fragment(profile.frames({}), profile.headline, uid)
    elif _is_comparison(profile):
        from ..comparison.page.static_html import fragment

        html = fragment(profile, uid)
    else:
        _show_profile(cast("Profile", profile), cell, shell, uid)
        return
    display({"text/plain": repr(profile), "text/html": html}, raw=True)
    _display(_widget(profile, uid), cell, shell)


def _show_profile(shown: Profile, cell: str, shell: InteractiveShell, uid: str) -> None:
    if cell and (shown.pending is not None or len(shown.trace.slices)):
        if shown.pending is None:
            queries_of(shown).prefetcher.start()
        display(first_form(shown, uid), raw=True, display_id=uid)
        widget = ProfileWidget(shown, uid, late=True)
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


def _is_board(shown: Profile | Other) -> TypeGuard[RankBoard]:
    """Return whether an object is a RankBoard, without importing its package."""
    room = sys.modules.get("notebook_prof.ranks.page.board")
    return room is not None and isinstance(shown, room.RankBoard)


def _is_comparison(shown: Profile | Other) -> TypeGuard[Comparison]:
    """Return whether an object is a Comparison, without importing its package."""
    room = sys.modules.get("notebook_prof.comparison.comparison")
    return room is not None and isinstance(shown, room.Comparison)


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
