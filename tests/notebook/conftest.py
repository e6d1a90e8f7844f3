"""Real kernels, one of each kind for all modules that leave it as it was, with an empty IPython directory."""

import json
import os
import re
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import KernelManager

from tests.kernels import start_kernel

PATIENCE_S = 240
"""For an answer of a kernel; a loaded machine may need a minute to import torch."""

SETUP = """
%load_ext notebook_prof
import notebook_prof as nbp
from notebook_prof.collectors.python import py_spy_attachment as attachment
attachment.IDLE_S = 0.5
"""
"""py-spy takes a third of a core while it is kept for the next cell, which comes at once here."""

COMPLETE_NAMES = """
from notebook_prof.collectors.system.names import watch
watch.walk_names.__defaults__ = (10**10,)
"""
"""Raise the CPU limit of a walk from 50 ms to 10 s, so that a slow machine finds all names."""


@dataclass
class Reply:
    """What one cell gave back."""

    status: str = ""
    error: str = ""
    message: str = ""
    traceback: str = ""
    stdout: str = ""
    stderr: str = ""
    results: list[str] = field(default_factory=list)
    displays: list[dict[str, Any]] = field(default_factory=list)
    order: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.status == "ok"


class Kernel:
    """A kernel that is asked like a notebook asks."""

    def __init__(self, manager: KernelManager, client: Any) -> None:
        self.manager, self.client = manager, client

    def run(self, code: str, *, timeout: float = PATIENCE_S, interrupt_after: float | None = None) -> Reply:
        """Run a cell; interrupt it this many seconds after it printed something, if asked."""
        reply, armed = Reply(), interrupt_after is not None

        def hear(message: dict[str, Any]) -> None:
            nonlocal armed
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                setattr(reply, content["name"], getattr(reply, content["name"]) + content["text"])
            elif kind == "execute_result":
                reply.results.append(content["data"]["text/plain"])
            elif kind == "display_data":
                reply.displays.append(content["data"])
            elif kind == "error":
                reply.error, reply.message = content["ename"], content["evalue"]
                reply.traceback = _plain("\n".join(content["traceback"]))
            goes_on = kind == "stream" and reply.order[-1:] == ["stream"]  # one text, several messages
            if kind in ("stream", "execute_result", "display_data", "error") and not goes_on:
                reply.order.append(kind)
            if armed and kind == "stream":
                armed = False
                time.sleep(interrupt_after or 0)
                self.manager.interrupt_kernel()

        source = textwrap.dedent(code).strip("\n")
        answer = self.client.execute_interactive(
            source, timeout=timeout, output_hook=hear, allow_stdin=False, stop_on_error=False
        )
        reply.status = answer["content"]["status"]
        if reply.status == "error":
            reply.error = reply.error or answer["content"]["ename"]
            reply.message = reply.message or answer["content"]["evalue"]
        return reply

    def rerun(self, code: str, cell: str, *, subshell: str | None = None, wait: bool = True) -> str:
        """Run a cell as JupyterLab does, naming the cell; gives the id of the request."""
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}}
        content["stop_on_error"] = False  # after an error the kernel drops what is asked in the next 0.1 s
        message = self.client.session.msg("execute_request", {**content, "allow_stdin": False})
        message["metadata"] = {"cellId": cell}
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)
        msg_id = str(message["header"]["msg_id"])
        if wait:
            assert self.reply_to(msg_id)["content"]["status"] == "ok"
        return msg_id

    def reply_to(self, msg_id: str, timeout: float = PATIENCE_S) -> dict[str, Any]:
        """The shell's reply to a request; replies to others are dropped."""
        while True:
            answer: dict[str, Any] = self.client.get_shell_msg(timeout=timeout)
            if answer["parent_header"].get("msg_id") == msg_id:
                return answer

    def subshell(self) -> str:
        """Make a subshell; skips the test where the kernel has none."""
        info = self.client.kernel_info(reply=True, timeout=PATIENCE_S)
        if "kernel subshells" not in info["content"].get("supported_features", []):
            pytest.skip("this ipykernel has no subshells")
        message = self.client.session.msg("create_subshell_request")
        self.client.control_channel.send(message)
        answer = self.client.get_control_msg(timeout=PATIENCE_S)
        return str(answer["content"]["subshell_id"])

    def value(self, expression: str) -> Any:
        """Value of an expression, through JSON."""
        reply = self.run(f"import json; print(json.dumps({expression}, default=str))")
        assert reply.ok, reply
        return json.loads(reply.stdout)

    def must(self, code: str, **more: Any) -> Reply:
        """Run a cell that has to work and to keep quiet on stderr."""
        reply = self.run(code, **more)
        assert reply.ok, reply
        assert reply.stderr == "", reply
        return reply


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@contextmanager
def bare_kernel(directory: Any, **options: Any) -> Iterator[Kernel]:
    """A kernel, which is shut down afterwards."""
    # the cost of a debugger's checks at every start is not what is tested here
    env = {**os.environ, "IPYTHONDIR": str(directory), "PYTHONFAULTHANDLER": "1"}
    env["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    manager, client = start_kernel(PATIENCE_S, env=env, **options)
    try:
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@contextmanager
def silent_kernel(folder: Path) -> Iterator[Kernel]:
    """A kernel that may end inside, and whose log has no error then."""
    with (folder / "kernel.txt").open("w") as log, bare_kernel(folder, stdout=log, stderr=log) as kernel:
        yield kernel
    printed = (folder / "kernel.txt").read_text()
    assert not [word for word in ("Traceback", "Fatal Python error", "terminate called") if word in printed]


def new_kernel(directory: Any, **options: Any) -> Iterator[Kernel]:
    """Start a kernel with the extension loaded, and shut it down after its one use."""
    with bare_kernel(directory, **options) as kernel:
        kernel.must(SETUP)
        yield kernel


@pytest.fixture(scope="session")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel with the extension loaded."""
    yield from new_kernel(tmp_path_factory.mktemp("ipython"))


@pytest.fixture(scope="session")
def torch_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """The same with torch and a small model."""
    pytest.importorskip("torch")
    for made in new_kernel(tmp_path_factory.mktemp("ipython")):
        made.must(COMPLETE_NAMES)
        made.must(
            """
            import torch
            torch.set_num_threads(1)
            model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            loader = torch.utils.data.DataLoader(torch.ones(40, 8), batch_size=4)
            """
        )
        yield made
