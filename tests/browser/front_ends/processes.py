"""What the journeys talk to: servers that are no `Server`, and kernels by their connection files."""

import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient

from ..jupyter_page import end_process

PATIENCE_S = 120


class Program:
    """A server in a process group of its own, up when its address answers."""

    def __init__(self, command: Sequence[str], url: str, home: Path, **variables: str) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self._log = home / "server.log"
        with self._log.open("w") as log:
            streams = {"stdout": log, "stderr": subprocess.STDOUT}
            own = {"env": _isolated(home) | variables, "cwd": home, "start_new_session": True}
            self._process = subprocess.Popen(command, **own, **streams)
        try:
            self._wait(url)
        except BaseException:
            self.close()
            raise

    def _wait(self, url: str) -> None:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until and self._process.poll() is None:
            try:
                urllib.request.urlopen(url, timeout=20).close()
                return
            except urllib.error.HTTPError:  # it speaks
                return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError(f"{url} did not come up:\n{self._log.read_text()[-3000:]}")

    def close(self) -> None:
        """End it and what it started."""
        end_process(self._process)


def _isolated(home: Path) -> Mapping[str, str]:
    """The environment with the user's own configuration out of sight."""
    own = {"HOME": home, "IPYTHONDIR": home / "ipython"}
    own |= {f"XDG_{kind.upper()}_HOME": home / kind for kind in ("config", "state", "cache")}
    own |= {f"JUPYTER_{kind.upper()}_DIR": home / kind for kind in ("config", "data", "runtime")}
    return {**os.environ, **{name: str(path) for name, path in own.items()}}


class Kernel:
    """The newest kernel of a folder, asked over sockets of our own: for pages that cannot ask theirs."""

    def __init__(self, runtime: Path) -> None:
        files = sorted(runtime.rglob("kernel-*.json"), key=lambda path: path.stat().st_mtime)
        assert files, f"no kernel in {runtime}"
        self._client = BlockingKernelClient(connection_file=str(files[-1]))
        self._client.load_connection_file()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=PATIENCE_S)

    def ask(self, code: str) -> str:
        """What `code` prints, in the kernel's main thread."""
        texts: list[str] = []

        def note(message: dict[str, Any]) -> None:
            content = message["content"]
            if message["msg_type"] == "stream":
                texts.append(content["text"])
            elif message["msg_type"] == "error":
                texts.append("\n".join(content["traceback"]))

        self._client.execute_interactive(
            code, store_history=False, output_hook=note, timeout=PATIENCE_S, allow_stdin=False
        )
        return "".join(texts).strip()

    def close(self) -> None:
        """Close the sockets; the kernel goes on."""
        self._client.stop_channels()
