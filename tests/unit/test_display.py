"""Showing a Profile: text in a terminal, static form and widget in a kernel, nothing left behind."""

from __future__ import annotations

import gc
import json
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from ipywidgets.widgets import widget as ipywidgets_widget

from notebook_prof.jupyter import display as display_module
from notebook_prof.jupyter.display import show
from notebook_prof.jupyter.widget import ProfileWidget
from notebook_prof.profiles.deferred_trace import DeferredTrace
from notebook_prof.profiles.profile import Profile
from notebook_prof.service import executor
from notebook_prof.session import current
from notebook_prof.trace import TraceBuilder

from ..browser.drawn import drawn_profile


class _Kernel:
    def __init__(self, cell: str) -> None:
        self.cell = cell

    def get_parent(self, channel: str) -> dict[str, Any]:
        return {"metadata": {"cellId": self.cell}}


class _Shell:
    def __init__(self, cell: str = "cell-1") -> None:
        self.kernel, self.execution_count = _Kernel(cell), 1


Shown = list[tuple[dict[str, Any], str | None, bool]]
"""What is displayed: bundle, display id, and whether it replaces what has that id."""


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shown]:
    """What is displayed; the widgets of a test are closed after it."""
    outputs: Shown = []

    def note(bundle: dict[str, Any], raw: bool, display_id: str | None = None, update: bool = False) -> None:
        outputs.append((bundle, display_id, update))

    monkeypatch.setattr(display_module, "display", note)
    yield outputs
    for widget in _widgets():
        widget.close()


def _widgets() -> list[ProfileWidget]:
    return [w for w in ipywidgets_widget._instances.values() if isinstance(w, ProfileWidget)]


def _use(monkeypatch: pytest.MonkeyPatch, shell: object) -> None:
    monkeypatch.setattr(display_module, "get_ipython", lambda: shell)


def test_a_terminal_gets_text(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _use(monkeypatch, None)
    show(drawn_profile())
    assert "steps" in capsys.readouterr().out
    assert _widgets() == []


def _begun(monkeypatch: pytest.MonkeyPatch, widget: ProfileWidget) -> dict[str, Any]:
    """Settings that a page is told when it begins."""
    sent: list[dict[str, Any]] = []
    with monkeypatch.context() as patch:
        patch.setattr(widget, "send", lambda content, buffers=None: sent.append(content))
        widget._receive(widget, {"t": "start", "rid": "1"}, [])
    assert sent[0]["rid"] == "1"
    assert len(json.loads(sent[0]["document"])["roots"]) == 4
    settings: dict[str, Any] = sent[0]["settings"]
    return settings


def _threads(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The threads that show the rest; they wait for no page."""
    started: list[threading.Thread] = []
    original = display_module.show_when_ready
    monkeypatch.setattr(
        display_module, "show_when_ready", lambda *arguments: started.append(original(*arguments))
    )
    monkeypatch.setattr(executor, "COMES_S", 0)
    return started


def test_a_profile_shows_the_rest_after_its_cell(monkeypatch: pytest.MonkeyPatch, shown: Shown) -> None:
    monkeypatch.setattr(current, "_running", "a recording")
    started, profile = _threads(monkeypatch), drawn_profile()
    _use(monkeypatch, _Shell())
    show(profile)
    (widget,), (thread,) = _widgets(), started
    uid = widget.settings["uid"]
    assert widget.settings["late"] is True
    assert _begun(monkeypatch, widget)["verdict"] == widget.headline == "", (
        "nothing is worked out while code is measured"
    )
    assert [(set(bundle), key, update) for bundle, key, update in shown] == [
        ({"text/plain", "text/html"}, uid, False),
        ({"application/vnd.jupyter.widget-view+json"}, None, False),
    ]
    monkeypatch.setattr(current, "_running", None)
    thread.join(120)
    assert widget.headline == profile.headline
    bundle, key, update = shown[2]
    assert (key, update) == (uid, True)
    assert "data:image/png" in bundle["text/html"]


def test_a_trace_without_slices_takes_its_views_away(monkeypatch: pytest.MonkeyPatch, shown: Shown) -> None:
    started = _threads(monkeypatch)
    _use(monkeypatch, _Shell())
    show(Profile(DeferredTrace(TraceBuilder().seal)))
    started[0].join(120)
    assert _widgets() == []
    assert len(shown) == 3
    assert "Nothing was recorded" in shown[2][0]["text/html"]


def test_nothing_comes_late_where_nobody_waits(monkeypatch: pytest.MonkeyPatch, shown: Shown) -> None:
    started = _threads(monkeypatch)
    _use(monkeypatch, _Shell(cell=""))
    show(drawn_profile())
    assert started == [], "nbclient tells no cell, and drops what comes after it"
    assert "data:image/png" in shown[0][0]["text/html"]
    (widget,) = _widgets()
    assert _begun(monkeypatch, widget)["verdict"] == drawn_profile().headline
    assert widget.settings["late"] is False


@pytest.mark.usefixtures("shown")
def test_a_verdict_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Profile, "headline", property(lambda self: 1 // 0))
    started = _threads(monkeypatch)
    _use(monkeypatch, _Shell())
    show(drawn_profile())
    started[0].join(120)
    assert "could not be computed (ZeroDivisionError" in _widgets()[0].headline


def test_a_view_that_fails_is_reported_in_words(monkeypatch: pytest.MonkeyPatch, shown: Shown) -> None:
    _use(monkeypatch, _Shell())
    monkeypatch.setattr(display_module, "ProfileWidget", lambda *_, **__: 1 / 0)
    show(drawn_profile())
    assert "could not be created (ZeroDivisionError" in shown[-1][0]["text/plain"]


def test_the_widget_mirrors_the_selection_and_lets_go(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = drawn_profile()
    widget = ProfileWidget(profile)
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(widget, "send", lambda content, buffers=None: sent.append(content))
    profile.selection.step = 4
    assert widget.selection["step"] == [4]
    widget._receive(
        widget, {"t": "select", "patch": {"name": ["mm"]}, "origin": "table", "revision": 1, "rid": "1"}, []
    )
    assert sent[-1]["state"]["name"] == ["mm"]
    assert sent[-1]["rid"] == "1"
    assert widget.selection["name"] == ["mm"]
    widget._receive(widget, {"t": "table", "rid": "2"}, [])
    assert sent[-1]["by"] == "name"
    widget.close()
    profile.selection.clear()
    assert widget.selection["step"] == [4]
    alive = weakref.ref(profile)
    del profile, widget
    monkeypatch.undo()
    until = time.monotonic() + 60
    while alive() is not None and time.monotonic() < until:  # a thread may be working for its views
        gc.collect()
        time.sleep(0.01)
    assert alive() is None
