"""The dashboard as a good guest in JupyterLab: displays, themes, reloads, a busy and a lost kernel."""

import time
from collections.abc import Callable
from pathlib import Path

from .conftest import SETUP
from .jupyter_page import NotebookPage

WIDGETS = (
    "from ipywidgets.widgets.widget import _instances\n"
    "widgets = [w for w in _instances.values() if type(w).__name__ == 'ProfileWidget']\n"
)
FEATURES = """async () => {
    const {kernel} = window.jupyterapp.shell.currentWidget.context.sessionContext.session;
    return (await kernel.info).supported_features ?? []; }"""
RUN_ASIDE = """(code) => { window.nbpEnded = false;
    const {kernel} = window.jupyterapp.shell.currentWidget.context.sessionContext.session;
    kernel.requestExecute({code}).done.then(() => { window.nbpEnded = true; }); }"""
IDLE = "() => window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.status === 'idle'"


def test_two_displays_stay_in_step_and_leave_nothing_behind(notebook: Callable[..., NotebookPage]) -> None:
    """They share one selection, follow the theme, are replaced when their cells run again, and close."""
    shown = notebook("displays.ipynb", SETUP, "p", "p")
    shown.wait_ready(2)
    shown.views("v.store.set({name: ['aten::add_'], step: [4]}, 'table')", 0)
    shown.wait_views("v.store.get().name?.[0] === 'aten::add_' && v.timeline.snapshot().filtered", 1)
    shown.views("v.store.set({step: null}, 'chip')", 1)
    shown.wait_views("v.store.get().step === null && v.store.get().name[0] === 'aten::add_'", 0)
    shown.kernel("p.selection.clear()")
    for index in (0, 1):
        shown.wait_views("v.store.isEmpty() && !v.timeline.snapshot().filtered", index)
    light = shown.views("v.theme().background")
    shown.change_theme("Dark")
    colours = (
        "[...v.doc._all_models.values()].filter(m => /Axis$/.test(m.type)).map(m => m.major_label_text_color)"
    )
    assert set(shown.views(colours)) == {shown.views("v.theme().muted")}
    shown.change_theme("Light")
    assert shown.views("v.theme().background") == light
    for _ in range(2):
        shown.command("notebook:run-all-cells")
        shown.page.wait_for_function(IDLE)
        shown.wait_ready(2)
    shown.wait_kernel(WIDGETS + "print(len(widgets))", "2")
    shown.page.wait_for_function("() => window.Bokeh.documents.length === 2")
    shown.wait_kernel("print(len(p.selection._watchers))", "2")
    shown.static.nth(1).locator("img").first.wait_for(state="attached")  # they come after the views
    outputs = [list(output["data"]) for output in shown.outputs(1)]
    assert outputs[0] == ["text/plain", "text/html"]
    assert outputs[1] == ["application/vnd.jupyter.widget-view+json"]
    assert not shown.static.first.is_visible(), "the static form hides behind the live view"
    shown.kernel("import ipywidgets\nipywidgets.Widget.close_all()")
    shown.static.first.locator("img").first.wait_for(state="visible")


def test_a_cell_that_runs_again_before_its_views_are_there(notebook: Callable[..., NotebookPage]) -> None:
    """The display that was loading BokehJS for the page is gone: the next one loads it."""
    for number in range(2):
        shown = notebook(f"at_once_{number}.ipynb", SETUP, "p", run=False)
        shown.open().run_all()  # a new page has no BokehJS
        shown.command("notebook:run-all-cells")
        shown.page.wait_for_function(IDLE)
        shown.wait_ready()


def test_a_reloaded_page_a_busy_kernel_and_a_lost_one(
    notebook: Callable[..., NotebookPage], root: Path
) -> None:
    """Views come back with their selection, answer by themselves, and say what Python no longer hears."""
    shown = notebook("reload.ipynb", SETUP, "p")
    shown.wait_ready()
    shown.kernel("p.selection.name = 'aten::add_'")
    shown.save()
    shown.reload()
    shown.wait_ready()
    shown.wait_views("v.store.get().name?.join() === 'aten::add_'")
    shown.kernel("p.selection.clear()")
    shown.wait_views("v.store.isEmpty() && !v.timeline.snapshot().filtered")
    if "kernel subshells" in shown.page.evaluate(FEATURES):  # otherwise views wait for the cell, and say so
        _answers_while_a_cell_runs(shown, root)
    shown.wait_views("v.transport.alone")
    shown.views("v.store.set({step: null}, 'test')")
    shown.views("v.panels.show('steps')")
    shown.wait_views("v.panels.snapshot().state === 'shown'")
    shown.views("v.panels.show('operators')")
    shown.settle()
    shown.kernel(WIDGETS + "[w._msg_callbacks.callbacks.clear() for w in widgets]")
    sent = shown.views("v.transport.line.number")
    _answers_by_itself(shown, 5)
    assert shown.views("v.transport.line.number") == sent + 3, "Python is told, and asked nothing"
    assert shown.trouble.count() == 0
    shown.views("v.panels.show('advice')")
    shown.trouble.wait_for()
    assert "kernel is busy" in shown.trouble.inner_text()
    shown.kernel_command("session.kernel.restart()")
    shown.trouble.filter(has_text="Python no longer hears").wait_for()  # without any interaction
    shown.views("v.panels.show('operators')")
    _answers_by_itself(shown, 2)
    shown.views("v.panels.show('layers')")
    shown.part(".nbp-tab-body").filter(has_text="whose kernel has ended").wait_for()
    shown.views("v.panels.show('steps')")  # Python has told it before
    shown.part(".nbp-tab-scope").filter(has_text="of the whole recording").wait_for()
    shown.browser.forget()


def _answers_by_itself(shown: NotebookPage, step: int) -> None:
    """Select a step and a name, and change the view: timeline and table are drawn anew."""
    drawn = shown.views("[v.counts.timeline, v.counts.table]")
    shown.views(f"v.store.set({{step: [{step}]}}, 'test')")
    shown.wait_views(f"v.counts.timeline > {drawn[0]} && v.counts.table > {drawn[1]}")
    shown.views("v.setView(v.meta.span[1] / 4, v.meta.span[1] / 3)")
    shown.views("v.store.set({name: ['aten::add_']}, 'test')")
    shown.wait_views("v.timeline.snapshot().filtered && v.store.get().name?.length === 1")
    shown.views("v.store.set({name: null}, 'test')")


def _answers_while_a_cell_runs(shown: NotebookPage, root: Path) -> None:
    begun, go_on = root / "begun", root / "go_on"
    code = (
        f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\n"
        f"while not pathlib.Path({str(go_on)!r}).exists(): time.sleep(0.01)"
    )
    shown.page.evaluate(RUN_ASIDE, code)
    try:
        until = time.monotonic() + 120
        while not begun.exists() and time.monotonic() < until:
            shown.page.wait_for_timeout(20)  # between two looks
        drawn = shown.views("v.counts.timeline")
        shown.views("(v.setView(v.meta.span[1] / 4, v.meta.span[1] / 3), v.store.set({step: [4]}, 'test'))")
        shown.wait_views(f"v.counts.timeline > {drawn} && v.timeline.snapshot().filtered")
        shown.wait_views("v.table.snapshot().rows > 0 && v.phases.snapshot().drawn > 0")
        assert shown.page.evaluate("() => window.nbpEnded") is False, "all that while the cell was running"
        assert shown.trouble.count() == 0
    finally:
        go_on.touch()
    shown.page.wait_for_function("() => window.nbpEnded")
    shown.wait_kernel("print(p.selection.step)", "(4,)")  # what was selected meanwhile is there
