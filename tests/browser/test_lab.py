"""The dashboard as a good guest in JupyterLab: displays, reloads, themes, empty and hostile data."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import SETUP
from .jupyter_page import Browser, NotebookPage, Server, write_notebook

WIDGETS = (
    "from ipywidgets.widgets.widget import _instances\n"
    "widgets = [w for w in _instances.values() if type(w).__name__ == 'ProfileWidget']\n"
)
COUNT_WIDGETS = WIDGETS + "print(len(widgets))"


@pytest.fixture
def notebook(
    browser: Browser, lab: Server, root: Path, request: pytest.FixtureRequest
) -> Iterator[NotebookPage]:
    """A fresh notebook with the cells of ``@pytest.mark.parametrize(..., indirect=True)``."""
    name = f"{request.node.name.split('[')[0]}.ipynb"
    write_notebook(root / name, request.param)
    opened = NotebookPage(browser, lab, name)
    browser.blank()
    opened.open()
    opened.run_all()
    yield opened
    assert browser.errors == []
    assert browser.elsewhere == []
    browser.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.sessionContext.shutdown()")
    browser.page.goto("about:blank")


@pytest.mark.parametrize("notebook", [[SETUP, "p", "p"]], indirect=True)
def test_two_displays_stay_in_step(notebook: NotebookPage) -> None:
    notebook.wait_ready(2)
    notebook.views("v.store.set({name: ['aten::add_'], step: [4]}, 'table')", 0)
    notebook.wait_views("v.store.get().name?.[0] === 'aten::add_' && v.timeline.snapshot().filtered", 1)
    notebook.views("v.store.set({step: null}, 'chip')", 1)
    notebook.wait_views("v.store.get().step === null && v.store.get().name[0] === 'aten::add_'", 0)
    notebook.kernel("p.selection.clear()")
    for index in (0, 1):
        notebook.wait_views("v.store.isEmpty() && !v.timeline.snapshot().filtered", index)


@pytest.mark.parametrize("notebook", [[SETUP, "p"]], indirect=True)
def test_reload_with_a_live_kernel_shows_the_views_again(notebook: NotebookPage) -> None:
    notebook.wait_ready()
    notebook.kernel("p.selection.name = 'aten::add_'")
    notebook.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    notebook.page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    notebook.page.goto(notebook.server.url(notebook.notebook).replace("&reset", ""))
    notebook.wait_ready()
    notebook.wait_views("v.store.get().name?.join() === 'aten::add_'")


@pytest.mark.parametrize("notebook", [[SETUP, "p"]], indirect=True)
def test_running_again_leaves_nothing_behind(notebook: NotebookPage) -> None:
    notebook.wait_ready()
    counts = COUNT_WIDGETS
    for _ in range(3):
        notebook.page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
        notebook.page.wait_for_function(
            "() => [...document.querySelectorAll('.nbp-host')].some(h => h.nbp?.counts.table)"
        )
        notebook.page.wait_for_function(
            "() => window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.status"
            " === 'idle'"
        )
        notebook.wait_ready()
    notebook.wait_kernel(counts, "1")
    notebook.page.wait_for_function("() => window.Bokeh.documents.length === 1")
    notebook.wait_kernel("print(len(p.selection._watchers))", "1")


@pytest.mark.parametrize("notebook", [[SETUP, "p"]], indirect=True)
def test_the_static_form_hides_behind_the_live_view(notebook: NotebookPage) -> None:
    notebook.wait_ready()
    kinds = notebook.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.content.widgets[1].model.outputs.toJSON()"
        ".map(o => Object.keys(o.data))"
    )
    assert kinds[0] == ["text/plain", "text/html"]
    assert kinds[1] == ["application/vnd.jupyter.widget-view+json"]
    assert not notebook.page.locator(".nbp-static").is_visible()
    notebook.kernel("import ipywidgets\nipywidgets.Widget.close_all()")
    notebook.page.locator(".nbp-static img").wait_for(state="visible")


@pytest.mark.parametrize("notebook", [[SETUP, "p"]], indirect=True)
def test_dark_theme_and_back(notebook: NotebookPage) -> None:
    notebook.wait_ready()
    change = "name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})"
    light = notebook.views("v.theme().background")
    notebook.page.evaluate(change, "JupyterLab Dark")
    notebook.wait_views(f"v.theme().background !== {light!r} && v.theme().background === 'rgb(17, 17, 17)'")
    colours = notebook.views(
        "[...v.doc._all_models.values()].filter(m => /Axis$/.test(m.type)).map(m => m.major_label_text_color)"
    )
    assert set(colours) == {notebook.views("v.theme().muted")}
    notebook.page.evaluate(change, "JupyterLab Light")
    notebook.wait_views(f"v.theme().background === {light!r}")


EMPTY = """
from notebook_prof.trace import TraceBuilder
from notebook_prof.profiles.profile import Profile
b = TraceBuilder()
b.slices(ts=[0, 5], dur=[10**6, 10], name=["only", "tiny"], track=b.track("main"))
p = Profile(b.seal())
"""


@pytest.mark.parametrize("notebook", [[EMPTY, "p", "Profile(TraceBuilder().seal())"]], indirect=True)
def test_empty_views_say_why(notebook: NotebookPage) -> None:
    notebook.wait_ready()
    notebook.page.locator(".nbp-empty").nth(1).wait_for()
    notes = notebook.page.locator(".nbp-empty").all_inner_texts()
    assert len(notes) == 2
    assert "--memory" in notes[0]
    assert "nbp.step()" in notes[1]
    assert notebook.views("v.table.snapshot().labels") == ["only", "tiny"]
    outputs = notebook.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.content.widgets[2].model.outputs.length"
    )
    assert outputs == 1, "a Profile of nothing is told in words"


@pytest.mark.parametrize("notebook", [[SETUP, "p"]], indirect=True)
def test_a_kernel_that_does_not_answer_is_told(notebook: NotebookPage) -> None:
    notebook.wait_ready()
    notebook.kernel(WIDGETS + "[w._msg_callbacks.callbacks.clear() for w in widgets]")
    notebook.views("void v.table.refresh()")
    notebook.page.locator(".nbp-trouble:not([hidden])").wait_for()
    assert "kernel is busy" in notebook.page.locator(".nbp-trouble").inner_text()


@pytest.mark.parametrize("notebook", [[SETUP, "p"]], indirect=True)
def test_after_a_restart_the_old_views_say_what_to_run(notebook: NotebookPage) -> None:
    notebook.wait_ready()
    notebook.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.restart()"
    )
    note = notebook.page.locator(".nbp-trouble:not([hidden])")
    note.filter(has_text="Run this cell again").wait_for()  # without any interaction
    notebook.page.locator(".nbp-phases").click()
    assert "Run this cell again" in note.inner_text(), "and it stays"
    notebook.browser.forget()


@pytest.mark.parametrize("notebook", [[SETUP, "p"]], indirect=True)
def test_a_running_cell_does_not_freeze_the_views(notebook: NotebookPage, root: Path) -> None:
    notebook.wait_ready()
    begun, go_on = root / "begun", root / "go_on"
    features = notebook.page.evaluate(
        """async () => {
            const {kernel} = window.jupyterapp.shell.currentWidget.context.sessionContext.session;
            return (await kernel.info).supported_features ?? []; }"""
    )
    if "kernel subshells" not in features:
        pytest.skip("this kernel has no subshells: its views wait for the cell, and say so")
    code = (
        f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\n"
        f"while not pathlib.Path({str(go_on)!r}).exists(): time.sleep(0.01)"
    )
    notebook.page.evaluate(
        """(code) => { window.nbpEnded = false;
            const {kernel} = window.jupyterapp.shell.currentWidget.context.sessionContext.session;
            kernel.requestExecute({code}).done.then(() => { window.nbpEnded = true; }); }""",
        code,
    )
    try:
        until = time.monotonic() + 120
        while not begun.exists() and time.monotonic() < until:
            notebook.page.wait_for_timeout(20)
        drawn = notebook.views("v.counts.timeline")
        notebook.views(
            "(v.setView(v.meta.span[1] / 4, v.meta.span[1] / 3), v.store.set({step: [4]}, 'test'))"
        )
        notebook.wait_views(f"v.counts.timeline > {drawn} && v.timeline.snapshot().filtered")
        notebook.wait_views("v.table.snapshot().rows > 0 && v.phases.snapshot().drawn > 0")
        assert notebook.page.evaluate("() => window.nbpEnded") is False, "all that while the cell was running"
        assert notebook.page.locator(".nbp-trouble:not([hidden])").count() == 0
    finally:
        go_on.touch()
    notebook.page.wait_for_function("() => window.nbpEnded")
    notebook.wait_kernel("print(p.selection.step)", "(4,)")  # what was selected meanwhile is there
