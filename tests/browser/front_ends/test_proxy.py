"""JupyterLab below a prefix, behind a proxy that cuts idle WebSockets: a hub, or a laptop that sleeps."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from ..jupyter_page import Browser, NotebookPage, Server, write_notebook
from .journey import OPEN, Display, step_both_ways, wait_printed, walk
from .processes import Kernel
from .proxy import CuttingProxy

IDLE_S = 4.0
BY_A_THREAD = """import threading
writing = threading.Thread(target=lambda: setattr(p.selection, 'name', {name!r}))
writing.start(); writing.join()"""
DELETE_SUBSHELLS = """async () => {
    const {kernel} = window.jupyterapp.shell.currentWidget.context.sessionContext.session;
    if (!kernel.supportsSubshells) return 0;
    const ids = (await kernel.requestListSubshell({}).done).content.subshell_id;
    for (const subshell_id of ids) await kernel.requestDeleteSubshell({subshell_id}).done;
    return ids.length; }"""
OWN = ("WebSocket connection to", "net::ERR_CONNECTION", "net::ERR_EMPTY_RESPONSE", "Connection lost")
"""The browser and JupyterLab tell of every cut."""


def test_proxy(needs: Callable[[str], str], clean: Browser, closing: ExitStack, tmp_path: Path) -> None:
    """The journey; silence that cuts sockets; what Python selects meanwhile, from a thread; and a reload."""
    # ipykernel answers in the subshell of a comm's last message; JupyterLab deletes it when it connects anew.
    needs("jupyterlab")
    clean.expected += OWN
    server = Server(tmp_path, base="/hub/user/ann/", options=["--YDocExtension.disable_rtc=True"])
    closing.callback(server.close)
    proxy = CuttingProxy(server.port, IDLE_S)
    closing.callback(proxy.close)
    write_notebook(tmp_path / "far.ipynb", [OPEN, "p", "p"])
    notebook = NotebookPage(clean, server, "far.ipynb")
    notebook.open(server.url("far.ipynb", proxy.port)).run_all()
    shown = [Display(clean.page, index=index).ready() for index in (0, 1)]
    kernel = Kernel(server.runtime)
    closing.callback(kernel.close)
    walk(shown, kernel.ask)
    _be_silent(shown, proxy, kernel)
    for name in ("aten::add_", "aten::addmm"):
        _select_while_cut(shown, proxy, kernel, name)
    notebook.save()
    _leave_no_subshell(shown, kernel)
    notebook.page.goto(server.url("far.ipynb", proxy.port).replace("&reset", ""))
    for display in shown:
        display.ready()
        display.wait("v.store.get().name?.join() === 'aten::convolution'")
    kernel.ask("p.selection.clear()")
    step_both_ways(shown[0], shown[1], kernel.ask)


def _be_silent(shown: list[Display], proxy: CuttingProxy, kernel: Kernel) -> None:
    """Nobody moves a hand until sockets have been cut; the next selection gets to Python."""
    page, cuts = shown[0].page, proxy.cuts
    while proxy.cuts < cuts + 2:
        page.wait_for_timeout(200)
    shown[0].part(".nbp-table tr[data-name='aten::convolution']").first.click()
    wait_printed(page, kernel.ask, "print(p.selection.name)", "('aten::convolution',)")
    shown[0].clear()
    shown[1].wait("v.store.isEmpty()")


def _select_while_cut(shown: list[Display], proxy: CuttingProxy, kernel: Kernel, name: str) -> None:
    """What a thread of the kernel selects while no page is connected is shown once one is."""
    page, cuts = shown[0].page, proxy.cuts
    proxy.refuses = True
    while proxy.cuts == cuts:
        page.wait_for_timeout(50)
    kernel.ask(BY_A_THREAD.format(name=name))
    page.wait_for_timeout(1000)
    proxy.refuses = False
    for display in shown:
        display.wait(f"v.store.get().name?.join() === {name!r} && v.timeline.snapshot().filtered")


def _leave_no_subshell(shown: list[Display], kernel: Kernel) -> None:
    """The page's last question is answered in a subshell, which then is deleted, as a front-end may."""
    page = shown[0].page
    kernel.ask("p.selection.clear()")
    shown[0].wait("v.store.isEmpty()")
    shown[0].part(".nbp-table tr[data-name='aten::convolution']").first.click()
    wait_printed(page, kernel.ask, "print(p.selection.name)", "('aten::convolution',)")
    for display in shown:
        display.wait("v.store.get().name && v.timeline.snapshot().filtered && v.log.asked === v.log.answered")
    assert page.evaluate(DELETE_SUBSHELLS) > 0
