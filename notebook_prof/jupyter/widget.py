"""The widget that hosts the views: an anywidget, so that no extension of ours has to be installed.

BokehJS comes from the installed wheel over the comm, once a page: no CDN, no port, no `output_notebook`.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Mapping
from typing import Any, Protocol

import anywidget
import traitlets

from ..selection import Selection
from ..trace import Trace
from ..views.bundle import bokehjs, script, stylesheet
from ..views.dashboard import dashboard_document, dashboard_settings
from ..views.protocol import Protocol as Answers


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


class ProfileWidget(anywidget.AnyWidget):
    """One display of a Profile; it may be shown in several places, and several may show one Profile.

    Parameters
    ----------
    profile : Profile
    uid : str
        Marks the static output that the live view hides.

    Notes
    -----
    Questions (`views.protocol`) come as custom messages and may be handled in another thread than the
    cell's (subshells). The trait ``selection`` mirrors ``profile.selection``; only Python writes it, what
    a page selects comes as a message with the revision it was made on.
    """

    _esm = script()
    _css = stylesheet()
    document = traitlets.Unicode().tag(sync=True)
    settings = traitlets.Dict().tag(sync=True)
    selection = traitlets.Dict().tag(sync=True)

    shown_at: int | None = None
    """Execution count of the cell run that displayed it."""

    def __init__(self, profile: Shown, uid: str = "") -> None:
        self._answers = answers_of(profile)
        trace = profile.trace
        super().__init__(
            document=dashboard_document(trace),
            settings={**dashboard_settings(trace, profile.headline), "uid": uid},
            selection=profile.selection.to_state(),
        )
        mirror = weakref.WeakMethod(self._mirror)  # a Profile must not keep closed widgets alive

        def tell(selection: Selection, patch: Mapping[str, Any], source: Hashable) -> None:
            if (alive := mirror()) is not None:
                alive(selection)

        self._unwatch = profile.selection.watch(tell)
        self.on_msg(self._asked)

    def close(self) -> None:
        """Take the widget out of every page and let go of the Profile."""
        self._unwatch()
        super().close()

    def _mirror(self, selection: Selection) -> None:
        self.selection = selection.to_state()

    def _asked(self, _widget: Any, message: Mapping[str, Any], _buffers: Any) -> None:
        kind, answer_to = message.get("t"), {"rid": message.get("rid")}
        if kind == "bokehjs":
            self.send(answer_to, bokehjs())
        elif kind == "select":
            patch, source = message.get("patch") or {}, str(message.get("origin") or "page")
            self.send({**self._answers.select(patch, source, message.get("revision")), **answer_to})
        else:
            content, buffers = self._answers.answer(message)
            self.send({**content, **answer_to}, buffers)


_ANSWERS: weakref.WeakKeyDictionary[Shown, Answers] = weakref.WeakKeyDictionary()


def answers_of(profile: Shown) -> Answers:
    """The indexes of a Profile, built once for all its displays and freed with it."""
    if profile not in _ANSWERS:
        _ANSWERS[profile] = Answers(profile.trace, profile.selection)
    return _ANSWERS[profile]
