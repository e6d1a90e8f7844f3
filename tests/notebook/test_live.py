"""A recording in a real kernel that is watched and stopped while its cell runs."""

import time
from typing import Any

from .conftest import PATIENCE_S, Kernel

CELL = """%%profile p --no-history
import time
for batch in range(100_000):
    time.sleep(0.005)
    nbp.step()
    if nbp_ended():
        break
"""
ENDED = """
from notebook_prof.session import current
def nbp_ended():
    session = current.running()
    return session.early_end.reason and session.window.step_count > session.early_end.step + 20
"""


def test_a_busy_kernel_is_told_to_stop_recording_and_the_cell_goes_on(kernel: Kernel) -> None:
    """The page's message comes in a subshell; what is left of the display is an empty output."""
    subshell = kernel.subshell()
    kernel.must(ENDED)
    execution = kernel.rerun(CELL, "live", wait=False)
    messages = _stopped(kernel.client, execution, subshell)
    displays = [one["data"] for kind, one in messages if kind.endswith("display_data")]
    assert "application/vnd.jupyter.widget-view+json" in displays[0]
    assert displays[1] == {"text/plain": ""}
    issues = kernel.value("[i.example for i in p.trace.report if i.code == 'ended-early']")
    assert issues[0].startswith("it was stopped by hand; ")
    assert kernel.value("p.trace.metadata['steps_seen'] - len(p.trace.steps)") == 21


def _stopped(client: Any, execution: str, subshell: str) -> list[tuple[str, dict[str, Any]]]:
    """Answer the states of the display with a stop, as a page does; what the cell published, to its end."""
    messages: list[tuple[str, dict[str, Any]]] = []
    comm, until = "", time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        message = client.get_iopub_msg(timeout=PATIENCE_S)
        kind, content = message["msg_type"], message["content"]
        messages.append((kind, content))
        if kind == "comm_open" and "heard" in content["data"]["state"]:
            comm = content["comm_id"]
        if kind == "comm_msg" and content["comm_id"] == comm and "state" in content["data"].get("state", {}):
            assert len(str(content).encode()) <= 2048
            stop = {"method": "custom", "content": {"t": "stop"}}
            request = client.session.msg("comm_msg", {"comm_id": comm, "data": stop})
            request["header"]["subshell_id"] = subshell
            client.shell_channel.send(request)
        idle = kind == "status" and content["execution_state"] == "idle"
        if idle and message["parent_header"].get("msg_id") == execution:
            return messages
    raise AssertionError("the cell went on for ever")
