"""Shows the slow parts of a Profile after its views: the verdict, and the static form for readers without a
kernel.

Both take seconds for ten million slices, and the views need neither. So the views are sent at once, below a
short text, and a thread computes the rest once they are drawn. The verdict of a long Profile is sent as a
trait of the widget; the static form replaces the text under its display id.

A message after the end of its cell reaches front-ends that keep listening (JupyterLab, Notebook 7). Programs
that only execute cells (nbclient, and so nbconvert, papermill and Voilà) drop it. Front-ends send the cell's
id with an execute request and such programs do not, so without an id the static form is made first. If the
kernel is shut down seconds after the cell, the short text stays; it says what to run.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from html import escape
from typing import Any, Final

from IPython.display import display

from ..background import Pace, checkpoint, start_thread
from ..session import current
from ..units import format_count, format_ns
from .widget import ProfileWidget, Shown, headline_of, queries_of

LONG: Final = 100_000
"""With more slices than this the verdict is shown after the views."""

_PART_S: Final = 0.3
"""Estimated duration of a part. It waits until the kernel is idle, but not for ever."""


def is_verdict_slow(profile: Shown) -> bool:
    """Return whether the verdict is so slow that the page should begin without it."""
    return profile.pending is not None or len(profile.trace.slices) >= LONG


def first_form(profile: Shown, uid: str) -> dict[str, str]:
    """Return the short text shown until the static form is ready."""
    if profile.pending is not None:
        facts = "The recording is being assembled"
    else:
        trace = profile.trace
        facts = f"{format_count(len(trace.slices))} slices over {format_ns(trace.span.dur)}"
    explanation = "Its verdict and picture were still being made. Where this text stays, run the cell again."
    html = f"<p><b>{escape(facts)}</b><br>{explanation}</p>"
    return {
        "text/plain": f"{facts}. {explanation}",
        "text/html": f'<div class="nbp-static nbp-static-{escape(uid, quote=True)}">{html}</div>',
    }


def static_form(profile: Shown, uid: str) -> dict[str, Any]:
    """Make a text, and HTML with a picture and a table, neither of which needs a kernel."""
    from ..views.report.static_html import fragment  # imported late: no widget should wait for it

    store = queries_of(profile).store  # its indexes serve the live views too
    html = fragment(profile.trace, profile.selection, verdict=profile.headline, uid=uid, store=store)
    return {"text/plain": repr(profile), "text/html": html}


def show_when_ready(profile: Shown, widget: ProfileWidget, uid: str) -> threading.Thread | None:
    """Compute the verdict and the static form in a thread, and show each when ready."""

    # If the trace is not built yet, the thread waits for it; if it has no slices, the thread closes the
    # widget. Closing the widget ends the work. `uid` is the display id of the first form. The thread works
    # after the views are first drawn and not during recordings, and it does not keep the kernel alive. Where
    # threads are not available, everything is done before this returns, and it returns None.
    def tell_verdict() -> None:
        widget.tell_headline(*headline_of(profile))

    parts: tuple[Callable[[], None], ...] = (tell_verdict, lambda: _show_static(profile, uid))

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
        queries_of(profile).prefetcher.wait_drawn()
        queries_of(profile).prefetcher.wait()
        tell()

    def tell() -> None:
        with Pace(hold=lambda: current.running() is not None).kept():  # not during a recording
            for part in parts:
                checkpoint(_PART_S)
                if widget.comm is None:
                    return
                part()

    own = contextvars.copy_context()  # so that messages belong to the cell that showed the profile
    thread = start_thread(lambda: own.run(work), "notebook_prof late")
    if thread is None and widget.comm is not None:
        tell()
    return thread


def _has_slices(profile: Shown) -> bool:
    try:
        return len(profile.trace.slices) > 0
    except Exception:  # the trace could not be built: the static form says why
        return False


def _show_static(profile: Shown, uid: str) -> None:
    try:
        form = static_form(profile, uid)
    except Exception:  # the first form stays and says what to do next
        return
    display(form, raw=True, display_id=uid, update=True)
