"""A JupyterLab that stays open in a page of its own: notebooks are opened in it one after the other."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from .jupyter_page import Browser, NotebookPage, Server, write_notebook

OPEN: Final = """async ([path, id]) => {
    const {shell, commands} = window.jupyterapp;
    const opened = await commands.execute('docmanager:open', {path, ...(id && {kernel: {id}})});
    for (const widget of [...shell.widgets('main')]) if (widget !== opened) widget.dispose();
    if (shell.leftCollapsed) shell.expandLeft(); }"""
"""What was open is closed after it: an empty JupyterLab opens a launcher, some time later."""
CLOSE: Final = """async ([own, code]) => {
    const {shell} = window.jupyterapp, widgets = [...shell.widgets('main')];
    const session = widgets.map(({context}) => context?.sessionContext).find(Boolean);
    if (!session) return false; // a launcher, or nothing
    const kernel = () => session.session?.kernel;
    const idle = () => kernel()?.status === 'idle';
    for (let k = 0; k < 100 && !own && !idle(); k++) await new Promise((done) => setTimeout(done, 50));
    const ends = own || !idle();
    if (ends) await session.shutdown();
    else await kernel().requestExecute({code, store_history: false}).done;
    for (const widget of widgets) widget.dispose();
    return ends; }"""
"""Gives whether the kernel was ended: its own, or one that is busy for five seconds. Others become as new."""
KERNEL_ID: Final = "() => window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.id"
AS_NEW: Final = """
import sys
'ipywidgets' in sys.modules and sys.modules['ipywidgets'].Widget.close_all()
get_ipython().reset()
"""
OWN: Final = "a new one"
PLAIN: Final = "without torch"
TORCH: Final = "with torch"
"""A cell is recorded in another way once torch is imported."""


class Desk:
    """JupyterLab, and kernels that notebooks use one after the other, as new but for their imports."""

    def __init__(self, browser: Browser, server: Server, root: Path) -> None:
        self.browser, self.server, self.root = browser, server, root
        self.page = browser.another()
        self.kernels: dict[str, str] = {}
        self.used = OWN

    def open(self, name: str, cells: Sequence[str] = (), kernel: str = PLAIN) -> NotebookPage:
        """Open a notebook with one of the kernels; without cells, one that is there."""
        if cells:
            write_notebook(self.root / name, cells)
        self.page.bring_to_front()
        shown = NotebookPage(self.browser, self.server, name, self.page)
        known = self.kernels.get(kernel, "") if self.is_open else ""
        if self.is_open:
            self.page.evaluate(OPEN, [name, known])
        else:
            self.page.goto(self.server.url(name))
        shown.wait_connected()
        if kernel != OWN and not known:
            self.kernels[kernel] = self.page.evaluate(KERNEL_ID)
        self.used = kernel
        return shown

    @property
    def is_open(self) -> bool:
        """Whether the page shows JupyterLab."""
        return self.page.url.startswith(self.server.address())

    def close(self) -> None:
        """Close what is open, and end its kernel if it is no other notebook's."""
        if self.is_open and self.page.evaluate(CLOSE, [self.used == OWN, AS_NEW]):
            self.kernels.pop(self.used, None)
