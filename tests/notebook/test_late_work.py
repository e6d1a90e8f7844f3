"""A kernel that ends while the verdict and the static form of what it shows are still being made."""

import time
from contextlib import suppress
from pathlib import Path
from queue import Empty
from typing import Any

import pytest

from .conftest import PATIENCE_S, silent_kernel

WIDGET = "application/vnd.jupyter.widget-view+json"
SHOW = """
import threading
import numpy as np
from notebook_prof.jupyter import display
from notebook_prof.profiles.profile import Profile
from notebook_prof.testing import draw
from notebook_prof.service import executor

began = threading.Event()

def waits(profile):
    began.set()
    threading.Event().wait()

def computes(profile, np=np):  # a kernel that ends takes the names of its cells away
    began.set()
    while True:
        np.sort(np.arange(1_000_000) % 97)

display.headline_of, executor.COMES_S = {how}, 0
Profile(draw("main: [step mm mm]"))
"""
LATE = "print(sorted(t.name for t in threading.enumerate() if t.name.startswith('notebook_prof')))"


def _run(client: Any, code: str) -> list[dict[str, Any]]:
    """What a cell of JupyterLab, which tells its id, gives back until it has ended."""
    content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
    request = client.session.msg("execute_request", content, metadata={"cellId": "the-cell"})
    client.shell_channel.send(request)
    until, heard = time.monotonic() + PATIENCE_S, []
    while time.monotonic() < until:
        try:
            message = client.get_iopub_msg(timeout=1)
        except Empty:
            continue
        if message["parent_header"].get("msg_id") == request["header"]["msg_id"]:
            heard.append(message)
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return heard
    raise AssertionError(f"the cell did not end: {heard}")


def _wait_heard(client: Any) -> None:
    """Wait until output of a restarted kernel arrives; iopub connects some time after the shell channel."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        asked = client.kernel_info()
        with suppress(Empty):
            while client.get_iopub_msg(timeout=1)["parent_header"].get("msg_id") != asked:
                pass  # from the previous kernel, or about another request
            return
    raise AssertionError("no message of the restarted kernel came")


def _printed(messages: list[dict[str, Any]]) -> str:
    return "".join(m["content"]["text"] for m in messages if m["msg_type"] == "stream")


def _in_the_middle(client: Any, how: str) -> None:
    """Show something, and see that its late work goes on."""
    shown = _run(client, SHOW.format(how=how))
    text, views = (m["content"]["data"] for m in shown if m["msg_type"] == "display_data")
    assert set(views) == {WIDGET}
    for form in text.values():
        assert "run the cell again" in form, "what stays says what to do"
    assert [m["content"] for m in shown if m["msg_type"] in ("error", "stream")] == []
    assert _printed(_run(client, "print(began.wait(120))")) == "True\n"
    assert "notebook_prof late" in _printed(_run(client, LATE))


@pytest.mark.parametrize("how", ["waits", "computes"])
def test_a_kernel_may_end_in_the_middle_of_it(how: str, tmp_path: Path) -> None:
    with silent_kernel(tmp_path) as kernel:
        manager, client = kernel.manager, kernel.client
        _in_the_middle(client, how)
        manager.restart_kernel()
        client.wait_for_ready(timeout=PATIENCE_S)
        _wait_heard(client)
        assert _printed(_run(client, f"import threading; {LATE}")) == "[]\n"
        _in_the_middle(client, how)
        manager.shutdown_kernel()
        assert not manager.is_alive()
