"""The display of a Profile: text in a terminal, a static picture and the live views in a notebook."""

from __future__ import annotations

import contextvars
import threading
import uuid
import weakref
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any, Final

from IPython.core.getipython import get_ipython
from IPython.display import display

from ..analysis.scope import sharing
from ..background import PATIENCE_S, UNSEEN_S, IdleTime, checkpoint, start_thread
from ..profiles.profile import Profile
from ..session import current
from ..units import format_count, format_ns
from .cell import current_cell
from .widget import LinkedWidget, ProfileWidget, headline_of, queries_of

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from ..comparison.comparison import Comparison
    from ..comparison.page.queries import ComparisonProtocol
    from ..ranks.page.board import RankBoard
    from ..ranks.page.queries import RankProtocol
    from ..trace import Trace

    Shown = Profile | RankBoard | Comparison

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
        prefetcher = queries_of(profile).prefetcher
        is_seen = prefetcher.wait_drawn()
        prefetcher.wait()
        tell_all(profile.trace, is_seen)
        if widget.comm is not None:
            prefetcher.prepare_selections()

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


class PageWidget(LinkedWidget):
    """One display of the ranks' dashboard and the timelines opened in it, or of a comparison."""

    def __init__(self, page: RankProtocol | ComparisonProtocol, uid: str = "") -> None:
        self.entry, self.styles = page.entry, page.styles
        settings = {**page.settings(), "uid": uid}
        super().__init__(lambda: page, page.selection, page.document(), settings)


_MIME: Final = "application/vnd.jupyter.widget-view+json"
_SHOWN: Final[dict[str, weakref.WeakSet[LinkedWidget]]] = {}
"""The open widgets, by the cell that shows them."""


def show(shown: Shown, *, as_widget: bool = False, **_options: Any) -> LinkedWidget | None:
    """Show a Profile where it is evaluated. With `as_widget`, return the views for the front-end to show."""
    # There are two outputs: a static one (text, and HTML with a picture) that needs no kernel, and the live
    # views, which hide it while they exist. The views are sent first if a front-end is listening (see
    # `show_when_ready`). A shell without a front-end gets the text. marimo uses `as_widget`.
    if as_widget:
        return ProfileWidget(shown) if isinstance(shown, Profile) else PageWidget(shown._page())
    shell = get_ipython()
    if shell is None or getattr(shell, "kernel", None) is None:
        print(repr(shown))  # noqa: T201 - in a terminal this is the display
        return None
    try:
        _show_views(shown, shell)
    except Exception as error:  # the cell has run; a failing view must not look like a failing cell
        reason = f"The views could not be created ({type(error).__name__}: {error})."
        text = repr(shown.trace if isinstance(shown, Profile) else shown)
        display({"text/plain": f"{text}\n{reason}"}, raw=True)
    return None


def _show_views(shown: Shown, shell: InteractiveShell) -> None:
    cell = current_cell(shell)
    close_shown(cell, shell)
    uid = uuid.uuid4().hex[:12]
    if isinstance(shown, Profile):
        _show_profile(shown, cell, shell, uid)
        return
    page = shown._page()
    display({"text/plain": repr(shown), "text/html": page.static(uid)}, raw=True)
    _display(PageWidget(page, uid), cell, shell)


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
        _SHOWN.setdefault(cell, weakref.WeakSet()).add(widget)
    display({_MIME: {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}}, raw=True)


def close_shown(cell: str, shell: InteractiveShell) -> None:
    """Close the widgets shown by an earlier run of the cell: ipywidgets would keep them for ever."""
    for widget in tuple(_SHOWN.get(cell, ())):
        if widget.shown_at != getattr(shell, "execution_count", None):
            widget.close()
            _SHOWN[cell].discard(widget)
