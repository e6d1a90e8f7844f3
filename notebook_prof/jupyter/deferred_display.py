"""What a Profile shows after its views: the verdict, and the static form for readers without a kernel.

The views need neither, and both take time: seconds at ten million slices. So the views go out at once, below
a short text, and a thread works out the rest when they have been seen: the verdict of a long Profile comes as
a trait of the widget, the static form replaces the text under its display id.

A message that comes after its cell has ended reaches front-ends that keep listening (JupyterLab, Notebook 7).
What only executes (nbclient, and with it nbconvert, papermill and Voilà) drops it. Front-ends tell the cell's
id with what they execute and the others do not: without one, the static form comes first.
A kernel that is shut down seconds after the cell leaves the short text, which says what to run.
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
"""Slices from which on the verdict comes after the views."""

_PART_S: Final = 0.3
"""How long a part takes, about: it waits for a moment in which the kernel rests, but not for ever."""


def is_verdict_slow(profile: Shown) -> bool:
    """Return whether the verdict takes so long that the page should begin without it."""
    return profile.pending is not None or len(profile.trace.slices) >= LONG


def first_form(profile: Shown, uid: str) -> dict[str, str]:
    """Return the short text that stands for the static form until that is there."""
    if profile.pending is not None:
        facts = "The recording is being put together"
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
    """Make text, and HTML with a picture and a table, that live without a kernel."""
    from ..views.report.static_html import fragment  # no widget should wait for it

    store = queries_of(profile).store  # its indexes serve the live views too
    html = fragment(profile.trace, profile.selection, verdict=profile.headline, uid=uid, store=store)
    return {"text/plain": repr(profile), "text/html": html}


def show_when_ready(profile: Shown, widget: ProfileWidget, uid: str) -> threading.Thread | None:
    """Work out the verdict and the static form in a thread, and show them when they are there.

    Parameters
    ----------
    profile : Profile
        If its trace is still being made, this waits; where that has no slices, the widget is closed.
    widget : ProfileWidget
        Shows the profile; when it is closed the work ends.
    uid : str
        Display id of the first form.

    Returns
    -------
    Thread or None
        It lets the first picture and recordings of the process pass, and does not keep the kernel alive. None
        where there are no threads: then all is done before this returns.
    """

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
        with Pace(hold=lambda: current.running() is not None).kept():  # what is measured must not feel us
            for part in parts:
                checkpoint(_PART_S)
                if widget.comm is None:
                    return
                part()

    own = contextvars.copy_context()  # messages belong to the cell that showed the profile
    thread = start_thread(lambda: own.run(work), "notebook_prof late")
    if thread is None and widget.comm is not None:
        tell()
    return thread


def _has_slices(profile: Shown) -> bool:
    try:
        return len(profile.trace.slices) > 0
    except Exception:  # it could not be made: the static form says why
        return False


def _show_static(profile: Shown, uid: str) -> None:
    try:
        form = static_form(profile, uid)
    except Exception:  # the first form stays, and says what to do
        return
    display(form, raw=True, display_id=uid, update=True)
