"""ipywidgets' html-manager in sandboxed frames on one kernel: what VS Code and Colab resemble."""

import functools
import http.server
import json
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Page

from ...node import node
from ..jupyter_page import Browser, Server
from .conftest import TARGET
from .journey import OPEN, Display, assert_dark, step_both_ways, walk
from .processes import Kernel

SOURCES: Final = Path(__file__).parent / "html_manager"
IGNORED: Final = [f"--loader:.{kind}=empty" for kind in ("css", "svg", "woff", "woff2", "eot", "ttf")]
FRAME: Final = """<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="{scheme}">
<body style="{style}"><script>var __webpack_public_path__ = '';</script>
<script type="module" src="host.js"></script>"""
STYLES: Final = {
    "light": "background: white; color: black",
    "dark": "background: #1f1f1f; color: #cccccc",
    "see-through": "color: #cccccc",
}
"""Pages of frames; the last lets the black page around it through, as VS Code does."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the bundle and its pages."""
    if not (SOURCES / "node_modules").is_dir():
        pytest.skip(f"the npm packages of {SOURCES.name}/ are not installed: {TARGET}")
    folder = tmp_path_factory.mktemp("site")
    built = node(
        *("esbuild", "host.js", "--bundle", "--format=esm", "--target=es2022", "--log-level=error"),
        *("--define:global=globalThis", f"--outfile={folder / 'host.js'}", *IGNORED),
        cwd=SOURCES,
    )
    assert not built.returncode, built.stderr
    for name, style in STYLES.items():
        scheme = "light" if name == "light" else "dark"
        (folder / f"{name}.html").write_text(FRAME.format(style=style, scheme=scheme))
    return folder


class Files(http.server.SimpleHTTPRequestHandler):
    """Files for frames without an origin."""

    def end_headers(self) -> None:
        """Let every origin read."""
        self.send_header("Access-Control-Allow-Origin", "*")
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Frames:
    """A page of two sandboxed frames, each with its own manager, on one kernel with an open recording."""

    def __init__(self, site: Path, root: Path, page: Page, closing: ExitStack) -> None:
        files = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(Files, directory=str(site))
        )
        closing.callback(files.server_close)
        closing.callback(files.shutdown)
        threading.Thread(target=files.serve_forever, daemon=True).start()
        self.site, self.page, self._files = site, page, files.server_port
        self._server = Server(root, options=["--ServerApp.allow_origin=*"])
        closing.callback(self._server.close)
        self._kernel_id = self._start_kernel()
        self.kernel = Kernel(self._server.runtime)
        closing.callback(self.kernel.close)
        self.kernel.ask(OPEN)

    def _start_kernel(self) -> str:
        url, secret = f"{self._server.address()}api/kernels", f"token {self._server.token}"
        request = urllib.request.Request(url, data=b"{}", headers={"Authorization": secret})
        with urllib.request.urlopen(request, timeout=60) as reply:
            return str(json.load(reply)["id"])

    def open(self, style: str = "light", **more: str) -> list[Display]:
        """Show the Profile in both frames."""
        facts = {"server": self._server.address(), "token": self._server.token}
        facts |= {"kernel": self._kernel_id, "code": "p", **more}
        address = f"{style}.html?{urllib.parse.urlencode(facts)}".replace("&", "&amp;")
        ground = "white" if style == "light" else "#1f1f1f"
        frame = f'<iframe sandbox="allow-scripts" width="1340" height="1150" src="{address}"></iframe>'
        head = "<!doctype html><link rel='icon' href='data:,'>"
        (self.site / "page.html").write_text(f"{head}<body style='background: {ground}'>{frame}{frame}")
        self.page.goto(f"http://127.0.0.1:{self._files}/page.html")
        return self.displays()

    def displays(self) -> list[Display]:
        frames = self.page.main_frame.child_frames
        assert len(frames) == 2
        assert [frame.evaluate("() => window.origin") for frame in frames] == ["null", "null"]
        shown = [Display(self.page, frame) for frame in frames]
        for display in shown:
            display.ready()
            assert not display.static.is_visible(), "the static form hides behind the live view"
        return shown


@pytest.mark.parametrize("buffers", ["1", "0"], ids=["buffers", "no buffers"])
def test_html_manager(
    needs: Callable[[str], str], site: Path, clean: Browser, closing: ExitStack, tmp_path: Path, buffers: str
) -> None:
    """The journey from frame to frame, also where all binary buffers are dropped, and a new page."""
    needs("jupyterlab")
    frames = Frames(site, tmp_path, clean.page, closing)
    shown = frames.open(buffers=buffers)
    walk(shown, frames.kernel.ask)
    if buffers == "1":
        clean.page.reload()
        shown = frames.displays()
        step_both_ways(shown[0], shown[1], frames.kernel.ask)


@pytest.mark.parametrize("style", ["dark", "see-through"])
def test_dark_frames(
    needs: Callable[[str], str], site: Path, clean: Browser, closing: ExitStack, tmp_path: Path, style: str
) -> None:
    """Frames without Jupyter's variables are dark where their ground is, or their text light, and follow."""
    needs("jupyterlab")
    for display in Frames(site, tmp_path, clean.page, closing).open(style):
        assert_dark(display)
        display.host.evaluate(f"() => document.body.setAttribute('style', {STYLES['light']!r})")
        display.wait("v.theme().background === 'rgb(255, 255, 255)'")
        display.host.evaluate(f"() => document.body.setAttribute('style', {STYLES[style]!r})")
        assert_dark(display)
