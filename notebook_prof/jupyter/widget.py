"""The widget of the views: an anywidget, so no extension of ours has to be installed.

BokehJS is sent over the comm from the installed wheel, once per page: no CDN, no port, no `output_notebook`.
"""

from __future__ import annotations

import threading
import weakref
from base64 import b64encode
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import anywidget
import traitlets

from ..analysis import Claim
from ..background import keeping_warnings
from ..selection import Selection
from ..service.headline import headline_pieces
from ..views.bundle import VERSION, Entry, Style, bokehjs, script, stylesheet

if TYPE_CHECKING:
    from ..comparison.page.queries import ComparisonProtocol
    from ..profiles.profile import Profile
    from ..ranks.page.queries import RankProtocol
    from ..views.page_queries import PageQueries

    Answers = PageQueries | RankProtocol | ComparisonProtocol

Claims = tuple[Claim, ...]


class QuietWidget(anywidget.AnyWidget):
    """A widget that gets messages also after a subshell has answered for it."""

    def _send(self, msg: Mapping[str, Any], buffers: Any = None) -> None:
        """Send over the comm, and forget the subshell that ipykernel stores for the answer."""
        # ipykernel 7 routes every later message of a comm to the subshell of its last one, even after the
        # front-end has reconnected and deleted it: the widget would get no message again.
        super()._send(msg, buffers)
        if self.comm is not None:
            getattr(self.comm, "__dict__", {}).pop("_reply_subshell_id", None)


class LinkedWidget(QuietWidget):
    """One of our pages. It may be shown in several places, and several pages may share one selection."""

    # Requests are custom messages and may be handled in a thread other than the cell's (subshells). Only
    # Python writes the trait ``selection``, a mirror of the Selection. The page sends a selection as a
    # message, with the revision on which it is based. `document` has figures without data, as JSON; `answers`
    # is called for each request.
    entry: Entry = "profile_widget"
    styles: tuple[Style, ...] = ("dashboard",)
    _esm = traitlets.Unicode().tag(sync=True)
    _css = traitlets.Unicode().tag(sync=True)
    document = traitlets.Unicode().tag(sync=True)
    settings = traitlets.Dict().tag(sync=True)
    selection = traitlets.Dict().tag(sync=True)

    shown_at: int | None = None
    """Execution count of the cell run that displayed it."""

    def __init__(
        self,
        answers: Callable[[], Answers],
        selection: Selection,
        document: str,
        settings: Mapping[str, Any],
    ) -> None:
        self._answers, self._shown = answers, selection
        self._telling: int | None = None
        super().__init__(
            _esm=script(self.entry),
            _css="".join(map(stylesheet, self.styles)),
            document=document,
            settings=dict(settings),
            selection=selection.to_state(),
        )
        mirror = weakref.WeakMethod(self._mirror)  # a Profile must not keep closed widgets alive

        def tell(selection: Selection, patch: Mapping[str, Any], source: Hashable) -> None:
            if (alive := mirror()) is not None:
                alive(selection)

        self._unwatch = selection.watch(tell)
        self.on_msg(self._receive)

    def close(self) -> None:
        """Remove the widget from every page and release its data."""
        self._unwatch()
        super().close()

    def _mirror(self, selection: Selection) -> None:
        if self._telling != threading.get_ident():
            self.selection = selection.to_state()

    def _receive(self, _widget: Any, message: Mapping[str, Any], _buffers: Any) -> None:
        self._telling = threading.get_ident()
        try:
            messages = _questions(message)
            # answered together: selections with the first other request, then the rest
            first = next((k for k, one in enumerate(messages) if one.get("t") != "select"), len(messages)) + 1
            with keeping_warnings():  # the cell may be running in another thread
                for together in (messages[:first], messages[first:]):
                    if together:
                        self._tell(together)
        finally:
            self._telling = None
            self._mirror(self._shown)  # this page learns it from the answer, but other pages do not

    def _tell(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Answer several requests in one message."""
        # each message costs the page and the server milliseconds
        replies = [(self._reply(one), {"rid": one.get("rid")}) for one in messages]
        buffers = [part for (_, parts), _ in replies for part in parts]
        contents = [{**content, **rid, "buffers": len(parts)} for (content, parts), rid in replies]
        if any(one.get("base64") is True for one in messages):  # a page in a front-end that drops buffers
            for content, ((_, parts), _rid) in zip(contents, replies, strict=True):
                content["base64"] = [b64encode(part).decode("ascii") for part in parts]
            buffers = []
        self.send(contents[0] if len(contents) == 1 else {"several": contents}, buffers)

    def _reply(self, message: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        kind = message.get("t")
        if kind == "bokehjs":
            return {}, bokehjs()
        if kind == "select":
            patch, source = message.get("patch") or {}, str(message.get("origin") or "page")
            return self._answers().select(patch, source, message.get("revision")), []
        return self._answers().answer(message)


class ProfileWidget(LinkedWidget):
    """One display of a Profile."""

    # `uid` marks the static output that the live view hides. With `late`, the trait ``headline`` is set
    # later, and the page says that it is being computed; otherwise the answer to the page's ``start`` request
    # has it.
    headline = traitlets.Unicode().tag(sync=True)
    pieces: Any = traitlets.List().tag(sync=True)
    """The lines of the headline, split at claims that select something; see `headline_pieces`."""
    before: Any = traitlets.Dict().tag(sync=True)
    """Times of the previous run, set before the headline; see `run_before`."""

    def __init__(self, profile: Profile, uid: str = "", late: bool = False) -> None:
        self._profile = profile
        self._begun: dict[str, Any] = {}
        self._early: list[Mapping[str, Any]] | None = [] if profile.pending is not None else None
        self._beginning = threading.Lock()
        self._headline: Callable[[], tuple[str, Claims]] = lambda: ("", ()) if late else headline_of(profile)
        self._facts = {"uid": uid, "late": late}
        settings = {**self._facts, "bokeh": VERSION}
        super().__init__(lambda: queries_of(profile), profile.selection, "", settings)

    def begin(self) -> None:
        """Answer the requests that pages sent before the trace was built."""
        with self._beginning:
            early, self._early = self._early, None
        for message in early or ():
            super()._receive(self, message, [])

    def _receive(self, widget: Any, message: Mapping[str, Any], buffers: Any) -> None:
        """Queue requests that need the trace until it is built, since the kernel must not wait."""
        messages = _questions(message)
        with self._beginning:
            if self._early is not None:
                self._early += [one for one in messages if one.get("t") != "bokehjs"]
                messages = [one for one in messages if one.get("t") == "bokehjs"]
        super()._receive(widget, {"t": "several", "messages": messages}, buffers)

    def _reply(self, message: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        if message.get("t") != "start":
            return super()._reply(message)
        queries_of(self._profile).prefetcher.page_came()
        try:
            self._begun = self._begun or self._start()
        except Exception as error:  # tell the page, since nobody reads the kernel's log
            return {"failed": f"{type(error).__name__}: {error}"}, []
        return self._begun, []

    def _start(self) -> dict[str, Any]:
        """Return what a page mounts first: figures without data, and small facts."""
        # made while the page loads BokehJS
        from ..analysis.notebook.cells import badges
        from ..analysis.notebook.recorded import cell_runs, is_notebook
        from ..views.dashboard import dashboard_document, dashboard_settings

        trace = self._profile.trace
        settings = {**dashboard_settings(trace, *self._headline()), **self._facts}
        if is_notebook(trace):
            settings["cells"] = badges(cell_runs(trace))
        if not self._facts["late"] and (before := run_before(self._profile)):
            settings["before"] = before
        return {"document": dashboard_document(trace), "settings": settings}

    def tell_headline(self, text: str, claims: Claims) -> None:
        """Send the page a headline that was computed after its views were sent."""
        self.pieces = headline_pieces(self._profile.trace, text, claims)
        self.before = run_before(self._profile)
        self.headline = text


def _questions(message: object) -> list[Mapping[str, Any]]:
    """Return the requests in a message of a page; other messages have no number."""
    several = isinstance(message, Mapping) and message.get("t") == "several"
    questions = message.get("messages") if several and isinstance(message, Mapping) else [message]
    return (
        [one for one in questions if isinstance(one, Mapping)] if isinstance(questions, list | tuple) else []
    )


_MOST_STEPS_BEFORE: Final = 300


def run_before(profile: Profile) -> dict[str, Any]:
    """Return step durations of the previous run and line durations of both, in ns. Either may be empty."""
    previous = getattr(profile, "previous", None)
    if previous is None:
        return {}
    table, lines = previous.steps, previous.lines
    mine = (table["side"] == previous.names[0]) & (table["step"] >= 0)
    lines = lines[lines["b_line"].notna() & (lines["a_ns"] > 0) & (lines["b_ns"] > 0)]
    labels = (lines["file"] + ":" + lines["b_line"].astype(str)).tolist()
    return {
        "steps": table.loc[mine, "dur_ns"].head(_MOST_STEPS_BEFORE).astype(float).tolist(),
        "lines": dict(zip(labels, lines[["a_ns", "b_ns"]].astype(float).to_numpy().tolist(), strict=True)),
    }


def headline_of(profile: Profile) -> tuple[str, Claims]:
    """Return the headline and its claims, or a sentence that says why there is none."""
    try:
        return profile.headline, profile.verdict.claims
    except Exception as error:
        return f"The verdict could not be computed ({type(error).__name__}: {error}).", ()


_QUERIES: weakref.WeakKeyDictionary[Profile, PageQueries] = weakref.WeakKeyDictionary()


def queries_of(profile: Profile) -> PageQueries:
    """Return the indexes of a Profile, built once for all its displays and freed with it."""
    if profile not in _QUERIES:
        from ..views.page_queries import PageQueries  # the result is shown before the page asks

        _QUERIES[profile] = PageQueries(profile.trace, profile.selection)
    return _QUERIES[profile]
