"""The widget that hosts the views: an anywidget, so that no extension of ours has to be installed.

BokehJS comes from the installed wheel over the comm, once a page: no CDN, no port, no `output_notebook`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, Protocol

import anywidget
import traitlets

from ..selection import Selection
from ..trace import Trace
from ..views.bundle import VERSION, bokehjs, script, stylesheet
from ..views.protocol import Protocol as Answers

_MOST_PADDING: Final = 100_000


class Shown(Protocol):
    """What can be shown: a Profile."""

    @property
    def trace(self) -> Trace:
        """What was recorded."""

    @property
    def selection(self) -> Selection:
        """What is selected."""

    @property
    def headline(self) -> str:
        """The verdict, and what cannot be trusted, line by line."""


class Answering(Protocol):
    """What answers a page's questions."""

    def answer(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        """Content and buffers."""

    def select(self, patch: Mapping[str, Any], source: str, base_revision: int | None) -> dict[str, Any]:
        """Apply what the page selects, and give the state after it."""


class LinkedWidget(anywidget.AnyWidget):
    """A page of ours; it may be shown in several places, and several may show one selection.

    Parameters
    ----------
    answers : Answering
    selection : Selection
    document : str
        Figures without data, as JSON.
    settings : dict

    Notes
    -----
    Questions come as custom messages and may be handled in another thread than the cell's (subshells). The
    trait ``selection`` mirrors the Selection; only Python writes it, what a page selects comes as a message
    with the revision it was made on.
    """

    _esm = script()
    _css = stylesheet()
    document = traitlets.Unicode().tag(sync=True)
    settings = traitlets.Dict().tag(sync=True)
    selection = traitlets.Dict().tag(sync=True)

    shown_at: int | None = None
    """Execution count of the cell run that displayed it."""

    def __init__(
        self, answers: Answering, selection: Selection, document: str, settings: Mapping[str, Any]
    ) -> None:
        self._answers = answers
        super().__init__(document=document, settings=dict(settings), selection=selection.to_state())
        mirror = weakref.WeakMethod(self._mirror)  # a Profile must not keep closed widgets alive

        def tell(selection: Selection, patch: Mapping[str, Any], source: Hashable) -> None:
            if (alive := mirror()) is not None:
                alive(selection)

        self._unwatch = selection.watch(tell)
        self.on_msg(self._asked)

    def close(self) -> None:
        """Take the widget out of every page and let go of what it shows."""
        self._unwatch()
        super().close()

    def _mirror(self, selection: Selection) -> None:
        self.selection = selection.to_state()

    def _asked(self, _widget: Any, message: Mapping[str, Any], _buffers: Any) -> None:
        kind, answer_to = message.get("t"), {"rid": message.get("rid")}
        if kind == "several":
            for one in message.get("messages") or ():
                self._asked(_widget, one, _buffers)
        elif kind == "bokehjs":
            self.send(answer_to, bokehjs())
        elif kind == "select":
            patch, source = message.get("patch") or {}, str(message.get("origin") or "page")
            self.send({**self._answers.select(patch, source, message.get("revision")), **answer_to})
        else:
            content, buffers = self._answers.answer(message)
            self.send({**content, **answer_to}, padded(buffers, message.get("pad")))


class ProfileWidget(LinkedWidget):
    """One display of a Profile.

    Parameters
    ----------
    profile : Profile
    uid : str
        Marks the static output that the live view hides.
    late : bool
        Whether the trait ``headline`` is set later; until then the page says that it is being worked out.
        Otherwise the page is told when it begins.
    """

    headline = traitlets.Unicode().tag(sync=True)

    def __init__(self, profile: Shown, uid: str = "", late: bool = False) -> None:
        self._trace = profile.trace
        self._begun: dict[str, Any] = {}
        self._came = answers_of(profile).warming.page_came
        self._headline: Callable[[], str] = str if late else lambda: headline_of(profile)
        self._facts = {"uid": uid, "late": late}
        settings = {**self._facts, "bokeh": VERSION}
        super().__init__(answers_of(profile), profile.selection, "", settings)

    def _asked(self, widget: Any, message: Mapping[str, Any], buffers: Any) -> None:
        if message.get("t") != "start":
            super()._asked(widget, message, buffers)
            return
        self._came()
        try:
            told = self._begun = self._begun or self._start()
        except Exception as error:  # a page must be told; the kernel's log is no place anyone looks
            told = {"failed": f"{type(error).__name__}: {error}"}
        self.send({**told, "rid": message.get("rid")})

    def _start(self) -> dict[str, Any]:
        """What a page mounts: figures without data and small facts, made while it loads BokehJS."""
        from ..views.dashboard import dashboard_document, dashboard_settings

        settings = {**dashboard_settings(self._trace, self._headline()), **self._facts}
        return {"document": dashboard_document(self._trace), "settings": settings}


def padded(buffers: list[bytes], wanted: object) -> list[bytes]:
    """The buffers, and one more that fills them up to so many bytes (at most 100,000)."""
    missing = (wanted if isinstance(wanted, int) else 0) - sum(map(len, buffers))
    return [*buffers, bytes(min(missing, _MOST_PADDING))] if missing > 0 else buffers


def headline_of(profile: Shown) -> str:
    """The verdict, or a sentence why there is none."""
    try:
        return profile.headline
    except Exception as error:
        return f"The verdict could not be worked out ({type(error).__name__}: {error})."


_ANSWERS: weakref.WeakKeyDictionary[Shown, Answers] = weakref.WeakKeyDictionary()


def answers_of(profile: Shown) -> Answers:
    """The indexes of a Profile, built once for all its displays and freed with it."""
    if profile not in _ANSWERS:
        _ANSWERS[profile] = Answers(profile.trace, profile.selection)
    return _ANSWERS[profile]
