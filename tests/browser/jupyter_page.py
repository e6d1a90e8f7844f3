"""A real JupyterLab or Notebook 7 server, and a real Chromium looking at it."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jupyterlab
from playwright.sync_api import Page, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from .dashboard import Dashboard

CHROMIUM_FLAGS = [
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--force-device-scale-factor=1", "--font-render-hinting=none"),
]
PATIENCE_MS = 120_000
"""For whatever a page waits: two loaded cores need a minute for what takes a second otherwise."""

EXTENSION = Path(__file__).parents[2] / "js" / "labextension"
"""What makes the editor show the heat of lines."""

LOCAL = ("http://127.0.0.1", "ws://127.0.0.1", "http://localhost", "blob:", "data:", "about:", "file:")


NO_WIDGET_LOADS = """() => ![...document.querySelectorAll('.jp-OutputArea-output')].some(
    output => output.textContent === 'Loading widget...')"""


def find_chromium() -> str | None:
    """Path of a Chromium: `NBP_CHROMIUM`, the system's, or playwright's own; None if there is none."""
    for name in (os.environ.get("NBP_CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome"):
        if name and (path := shutil.which(name)):
            return path
    with sync_playwright() as driver:
        path = driver.chromium.executable_path
    return path if os.path.exists(path) else None


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def end_process(process: subprocess.Popen[bytes]) -> None:
    """End a process and what it started, in the same group."""
    if process.poll() is not None:
        return
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Server:
    """``jupyter lab`` or ``jupyter notebook`` with its own configuration, on a free port."""

    def __init__(
        self,
        root: Path,
        app: str = "lab",
        options: Sequence[str] = (),
        base: str = "/",
        environment: Path | None = None,
    ) -> None:
        # `environment`: of the server alone, as `server_environment` makes it
        self.app, self.root, self.token, self.options, self.base = app, root, "browser-test", options, base
        self.environment = environment
        self._home = tempfile.mkdtemp(prefix="nbp-jupyter-")
        for last in (False, False, True):
            self.port = free_port()
            self._start()
            if self._answers(last):  # another process may have taken the port meanwhile
                break

    def _start(self) -> None:
        home, app, root = Path(self._home), self.app, self.root
        here = str(Path(__file__).parent)
        env = {**os.environ, "PYTHONFAULTHANDLER": "1", "IPYTHONDIR": str(home / "ipython")}
        env |= {f"JUPYTER_{kind.upper()}_DIR": str(home / kind) for kind in ("config", "data", "runtime")}
        env["JUPYTER_PATH"] = str(home / "extensions")
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
        # an editable install holds a copy of the extension: what is tested is the one of the working tree
        extension = home / "extensions" / "labextensions" / "notebook-prof-gutter"
        if not extension.exists() and self.environment is None:
            shutil.copytree(EXTENSION, extension)
        kind = "JupyterNotebookApp" if app == "notebook" else "LabApp"
        program = [sys.executable, "-m", "jupyter", app]
        if self.environment is not None:
            program = [str(self.environment / "bin" / "python"), "-m", "jupyterlab"]
            env["PYTHONPATH"] += os.pathsep + str(Path(jupyterlab.__file__).parents[1])
            env["JUPYTER_PATH"] = ""
            _write_kernel(home / "data" / "kernels" / "python3")
        command = [
            *program, "--allow-root", "--no-browser", f"--port={self.port}",
            "--ServerApp.port_retries=0",
            f"--IdentityProvider.token={self.token}", "--ServerApp.ip=127.0.0.1",
            f"--ServerApp.root_dir={root}", f"--{kind}.expose_app_in_browser=True", "--LabApp.news_url=None",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
            f"--ServerApp.base_url={self.base}", *self.options,
        ]  # fmt: skip
        page_config = home / "config" / "labconfig" / "page_config.json"
        page_config.parent.mkdir(parents=True, exist_ok=True)
        page_config.write_text(
            '{"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": true}}'
        )
        self._log_path = home / "server.log"
        self._log = self._log_path.open("w")
        self._process = subprocess.Popen(
            command, env=env, cwd=home, stdout=self._log, stderr=subprocess.STDOUT, start_new_session=True
        )

    def _answers(self, last: bool) -> bool:
        """Whether it came up; an error where it did not and this was the last try."""
        url = f"{self.address()}api/status?token={self.token}"
        until = time.monotonic() + PATIENCE_MS / 1000
        while time.monotonic() < until:
            if self._process.poll() is not None:
                if not last:
                    return False
                break
            try:
                urllib.request.urlopen(url, timeout=20).read()
                return True
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)  # between two requests
        raise RuntimeError(f"jupyter {self.app} did not start:\n{self._log_path.read_text()[-3000:]}")

    @property
    def runtime(self) -> Path:
        """Folder of the kernels' connection files."""
        return Path(self._home) / "runtime"

    def address(self, port: int | None = None) -> str:
        """Address of the server, or of a proxy before it."""
        return f"http://127.0.0.1:{port or self.port}{self.base}"

    def url(self, notebook: str, port: int | None = None) -> str:
        path = {"lab": "lab/tree", "notebook": "notebooks", "nbclassic": "nbclassic/notebooks"}[self.app]
        return f"{self.address(port)}{path}/{notebook}?token={self.token}&reset"

    def close(self) -> None:
        end_process(self._process)
        self._log.close()
        shutil.rmtree(self._home, ignore_errors=True)


def server_environment(folder: Path, *extensions: str) -> Path:
    """An environment for a server that has JupyterLab as it is here, and these extensions of it only."""
    # It borrows the modules by a path, so that it takes no network and half a second.
    venv.create(folder, symlinks=True)
    share = Path("share", "jupyter")
    (folder / share / "labextensions").mkdir(parents=True)
    for name in ("lab", *(f"labextensions/{one}" for one in extensions)):
        target = Path(sys.prefix) / share / name
        assert target.is_dir(), target
        (folder / share / name).parent.mkdir(exist_ok=True)
        (folder / share / name).symlink_to(target)
    return folder


def _write_kernel(folder: Path) -> None:
    """The kernel of this environment, whatever that of the server is."""
    folder.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": "Python 3", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec))


class Browser:
    """Chromium with a fresh profile that notes console errors, page errors and requests to elsewhere."""

    def __init__(self, executable: str, size: tuple[int, int] = (1400, 1250)) -> None:
        self._driver = sync_playwright().start()
        self._data = tempfile.mkdtemp(prefix="nbp-chromium-")
        self._context = self._driver.chromium.launch_persistent_context(
            self._data, executable_path=executable, headless=False, args=CHROMIUM_FLAGS,
            viewport={"width": size[0], "height": size[1]}, timeout=PATIENCE_MS,
        )  # fmt: skip
        self._context.set_default_timeout(PATIENCE_MS)
        self.errors: list[str] = []
        self.elsewhere: list[str] = []
        self.expected: list[str] = []
        self.page = self._watched(self._context.pages[0] if self._context.pages else self._context.new_page())

    def another(self) -> Page:
        """One more page, whose complaints are noted too."""
        return self._watched(self._context.new_page())

    def _watched(self, page: Page) -> Page:
        # by default Playwright asks in every frame, which makes the page draw frames for nothing
        page.wait_for_function = functools.partial(page.wait_for_function, polling=50)  # type: ignore[method-assign]
        page.on("console", lambda m: self.errors.append(m.text[:500]) if m.type == "error" else None)
        page.on("pageerror", lambda e: self.errors.append(f"{e}\n{e.stack}"[:1500]))
        page.on("request", lambda r: None if r.url.startswith(LOCAL) else self.elsewhere.append(r.url))
        return page

    def blank(self) -> None:
        """Leave the page that is open, and forget what it complained about to its end."""
        self.page.goto("about:blank")
        self.forget()

    def forget(self) -> None:
        """Forget what was noted so far."""
        self.errors.clear()
        self.elsewhere.clear()

    def close(self) -> None:
        try:
            self._context.close()
        finally:
            self._driver.stop()
            shutil.rmtree(self._data, ignore_errors=True)


def write_notebook(path: Path, cells: Sequence[str]) -> None:
    """A notebook of code cells for the kernel ``python3``."""
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    bare = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    made = [{"id": f"c{i}", "source": source, **bare} for i, source in enumerate(cells)]
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": made}
    path.write_text(json.dumps(notebook))


class NotebookPage(Dashboard):
    """An open notebook: run it, ask its kernel, find the views in it."""

    def __init__(self, browser: Browser, server: Server, notebook: str, page: Page | None = None) -> None:
        super().__init__(page or browser.page)
        self.browser, self.server, self.notebook = browser, server, notebook

    def open(self, url: str = "") -> NotebookPage:
        """Open (or reload), at another address if one is given, and wait until the kernel is connected."""
        self.page.goto(url or self.server.url(self.notebook))
        return self.wait_connected()

    def reload(self) -> None:
        """Reload the page and wait for its widgets. If JupyterLab gives up on one, reload again."""
        # JupyterLab's widget manager looks for a model for two seconds and then gives up. A busy page needs
        # longer to start (ipywidgets #4026). Only another reload helps.
        before = len(self.browser.errors)
        for patience in (4, 3, 2, 1, 0):
            self.open(self.server.url(self.notebook).replace("&reset", ""))
            with contextlib.suppress(PlaywrightTimeoutError):
                self.page.wait_for_function(NO_WIDGET_LOADS, timeout=60_000)
            complaints = self.browser.errors[before:]
            others = [error for error in complaints if "widget model not found" not in error]
            if not patience or len(others) == len(complaints):
                break
            self.browser.errors[before:] = others

    def wait_connected(self) -> NotebookPage:
        """Wait until the kernel is connected and has nothing to do."""
        self.page.wait_for_function(
            """(path) => { const {context} = window.jupyterapp?.shell?.currentWidget ?? {};
                 const s = context?.sessionContext, kernel = s?.isReady && s.session?.kernel;
                 return kernel && context.path.endsWith(path)
                     && !document.querySelector('.jp-mod-restoring') // it opens its address's notebook
                     && kernel.connectionStatus === 'connected' && kernel.status === 'idle'; }""",
            arg=self.notebook,
        )
        return self

    def run_all(self, patience_ms: int = PATIENCE_MS) -> None:
        """Run every cell and wait until all have a number."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
        self.page.wait_for_function(
            """() => [...window.jupyterapp.shell.currentWidget.content.widgets].map(c => c.model)
                 .every(m => m.type !== 'code' || !m.sharedModel.source
                     || m.sharedModel.execution_count !== null)""",
            timeout=patience_ms,
        )

    def kernel(self, code: str) -> str:
        """What `code` prints in the notebook's kernel."""
        return str(
            self.page.evaluate(
                """async (code) => {
                   const {kernel} = window.jupyterapp.shell.currentWidget.context.sessionContext.session;
                   let out = ''; const future = kernel.requestExecute({code, store_history: false});
                   future.onIOPub = (m) => { if (m.header.msg_type === 'stream') out += m.content.text;
                     if (m.header.msg_type === 'error') out += m.content.traceback.join('\\n'); };
                   await future.done; return out.trim(); }""",
                code,
            )
        )

    def wait_kernel(self, code: str, expected: str, seconds: float = 90) -> None:
        """Wait until `code` prints `expected`."""
        until = time.monotonic() + seconds
        printed = None
        while time.monotonic() < until:
            printed = self.kernel(code)
            if printed == expected:
                return
            time.sleep(0.05)  # between two questions
        raise AssertionError(f"{code} printed {printed!r}, not {expected!r}")

    def command(self, name: str, **arguments: Any) -> None:
        # nothing is given back: a command may give a widget, and with it all of JupyterLab
        script = "([name, args]) => window.jupyterapp.commands.execute(name, args).then(() => {})"
        self.page.evaluate(script, [name, arguments])

    def kernel_command(self, what: str) -> None:
        """Have the session do something with its kernel: ``shutdown()``, ``session.kernel.restart()``."""
        self.page.evaluate(f"() => window.jupyterapp.shell.currentWidget.context.sessionContext.{what}")

    def outputs(self, cell: int) -> list[dict[str, Any]]:
        """What a cell has shown, as it is saved."""
        script = (
            "(cell) => window.jupyterapp.shell.currentWidget.content.widgets[cell].model.outputs.toJSON()"
        )
        outputs: list[dict[str, Any]] = self.page.evaluate(script, cell)
        return outputs

    def count_cells(self) -> int:
        """Number of the notebook's cells."""
        return int(self.page.evaluate("() => window.jupyterapp.shell.currentWidget.content.widgets.length"))

    def to_views(self) -> None:
        """Scroll until the first dashboard begins at the top."""
        self.page.evaluate("() => document.querySelector('.nbp-host').scrollIntoView()")

    def save(self) -> None:
        """Save the notebook until it is saved: the static form may come after a first time."""
        self.page.wait_for_function(
            """async () => {
                await window.jupyterapp.commands.execute('docmanager:save');
                return !window.jupyterapp.shell.currentWidget.context.model.dirty;
            }""",
            polling=500,
        )

    def change_theme(self, name: str) -> None:
        """Change to ``Light`` or ``Dark`` and wait until the first dashboard has it."""
        self.command("apputils:change-theme", theme=f"JupyterLab {name}")
        self.theme({"Light": "rgb(255, 255, 255)", "Dark": "rgb(17, 17, 17)"}[name])
