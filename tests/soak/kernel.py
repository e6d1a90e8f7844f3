"""A real kernel under soak: cells with identities, a page that asks, and what is measured of it."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import queue
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from tests.py_spy_processes import attached_to
from tests.workloads.runner import Notebook

from .outside import KernelProcesses, is_ours, until

INSIDE: Final = Path(__file__).parent / "inside.py"
PATIENCE_S: Final = 180.0
"""For an answer of a kernel on a machine that has other work."""
LOST_S: Final = 5.0
"""How long the end of an interrupted cell is waited for before the kernel is asked whether it lives."""
GRACE_S: Final = 20.0
"""How long after its death something of a kernel may remain."""
GIVEN_BACK: Final = {"MALLOC_TRIM_THRESHOLD_": "131072", "MALLOC_MMAP_THRESHOLD_": "131072"}
"""Lets glibc give back what was freed. By default its thresholds rise to 64 MB, and each arena of a thread
keeps as much at its end, where ``malloc_trim`` does not reach: what is held could not be told from that."""
WIDGET: Final = "application/vnd.jupyter.widget-view+json"

Deed = tuple[float, Callable[[], object]]
"""Something that is done so many seconds after a cell has begun."""


class Stuck(Exception):
    """A kernel that does not answer any more."""


@dataclass
class Heard:
    """What a cell gave back."""

    error: str = ""
    error_text: str = ""
    printed: str = ""
    complaints: str = ""
    shown: list[str] = field(default_factory=list)
    lost: bool = False
    seconds: float = 0.0


class Soaked(Notebook):
    """A kernel with the extension loaded, whose temporary files go to a folder of its own."""

    def __init__(self, folder: Path) -> None:
        temporary = folder / "temporary"
        temporary.mkdir(parents=True)
        environment = {"TMPDIR": str(temporary), "NOTEBOOK_PROF_HISTORY": str(folder / "history")}
        with patch.dict(os.environ, {**GIVEN_BACK, **environment}):
            super().__init__(folder / "notebook")
        self.processes = KernelProcesses(self.pid, temporary)
        self.closed: set[str] = set()
        self.answers: dict[str, dict[str, Any]] = {}
        self.complaints: list[str] = []
        self.sent = self.received = 0
        self.was_killed = False
        self._rids = map(str, itertools.count())

    @property
    def log_text(self) -> str:
        """What the kernel has written beside its answers."""
        return (self.folder / "kernel.txt").read_text(errors="replace")

    def cell(
        self, code: str, cell: str = "", deeds: Sequence[Deed] = (), patience_s: float = PATIENCE_S
    ) -> Heard:
        """Run a cell as a front-end does that tells which one it is; raise `Stuck` if it does not end."""
        # Some time after an interrupt another cell is sent: if that ends and this one has not, the interrupt
        # has met the kernel's own answer, and it counts as lost.
        heard, waiting = Heard(), sorted(deeds, key=lambda deed: deed[0])
        msg_id, probe, probe_at = self._send(code, cell), "", math.inf
        began, end = 0.0, time.monotonic() + patience_s
        while time.monotonic() < end:
            while began and waiting and time.monotonic() - began >= waiting[0][0]:
                deed = waiting.pop(0)[1]
                deed()
                if deed == self.interrupt:
                    probe_at = time.monotonic() + LOST_S
            if time.monotonic() >= probe_at and not probe:
                probe = self._send("None")
            message = self._next(0.01 if waiting else 0.2)
            if message is None:
                if self.alive:
                    continue
                if not self.was_killed:
                    raise Stuck(f"the kernel has died: {self.log_text[-2000:]}")
                return heard
            parent_id = message["parent_header"].get("msg_id")
            if parent_id == msg_id and message["msg_type"] == "execute_input":
                began = time.monotonic()
            if parent_id == msg_id and self._note(message, heard):
                break
            if probe and parent_id == probe and _ends(message):
                heard.lost = True
                break
        else:
            raise Stuck(f"a cell did not end in {patience_s:.0f} s: {code!r:.200}")
        heard.seconds = time.monotonic() - began
        self._reply(probe or msg_id, PATIENCE_S if probe else 5.0)
        return heard

    def ask(
        self, model: str, questions: Sequence[Mapping[str, Any]], patience_s: float = 30.0
    ) -> list[dict[str, Any] | None]:
        """Ask a widget in one message, as its page does, and again where it says so; None: no answer."""
        answer_of: dict[int, dict[str, Any] | None] = dict.fromkeys(range(len(questions)))
        end = time.monotonic() + patience_s
        while time.monotonic() < end and model not in self.closed:
            open_ones = {next(self._rids): number for number, answer in answer_of.items() if answer is None}
            if not open_ones:
                break
            messages = [{**questions[number], "rid": rid} for rid, number in open_ones.items()]
            self.tell(model, {"t": "several", "messages": messages})
            while set(open_ones) - set(self.answers) and time.monotonic() < end and model not in self.closed:
                self._next(0.1)
            for rid, number in open_ones.items():
                answer = self.answers.pop(rid, None)
                answer_of[number] = None if answer is None or answer.get("pending") else answer
        return [{} if one is None and model in self.closed else one for one in answer_of.values()]

    def tell(self, model: str, content: Any) -> None:
        """Send a widget a message; nothing waits for an answer."""
        data = {"comm_id": model, "data": {"method": "custom", "content": content}}
        self.client.shell_channel.send(self.client.session.msg("comm_msg", data))
        questions = content.get("messages") if isinstance(content, dict) else None
        self.sent += len(questions) if isinstance(questions, list) else 1

    def inside(self) -> dict[str, Any]:
        """What `inside.py` prints in the kernel."""
        heard = self.cell(f"exec(open({str(INSIDE)!r}).read(), {{'__name__': '__main__'}})")
        if heard.error:
            raise Stuck(f"the kernel cannot be measured: {heard.error_text}")
        result: dict[str, Any] = json.loads(heard.printed.strip().splitlines()[-1])
        return result

    def interrupt(self) -> None:
        """Ctrl-C: to the kernel, and to processes that its cells have forked."""
        self.manager.interrupt_kernel()

    def kill_py_spy(self, least_s: float = 0.5) -> int:
        """End what looks at this kernel and has looked for a while; gives how many there were."""
        count = 0
        for process in attached_to(self.pid):
            with contextlib.suppress(Exception):
                if time.time() - process.create_time() >= least_s:
                    process.kill()
                    count += 1
        return count

    def kill(self) -> None:
        """End the kernel by force; what its cells have started may outlive it."""
        self.was_killed = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def stacks(self) -> str:
        """Where the kernel's threads are, as py-spy sees them."""
        dump = subprocess.run(
            ["py-spy", "dump", "--pid", str(self.pid)], capture_output=True, text=True, check=False
        )
        return dump.stdout or dump.stderr

    def after_death(self) -> list[str]:
        """What remains of a kernel that has ended, after a grace time."""
        # Processes that the user's cells have started and that outlive it are theirs: they are ended here, by
        # their numbers, before files are looked at.
        until(lambda: not self.alive, GRACE_S)
        until(lambda: not any(map(is_ours, self.processes.living())), GRACE_S)
        leftovers = []
        for process in self.processes.living():
            with contextlib.suppress(Exception):
                if is_ours(process):
                    leftovers.append(f"process {process.pid}: {' '.join(process.cmdline())[:120]}")
                process.kill()
        until(lambda: not (self.processes.files() or self.processes.shared()), GRACE_S)
        leftovers += [f"shared memory {name}" for name in self.processes.shared()]
        return leftovers + [f"temporary file {name}" for name in self.processes.files()]

    def close(self) -> None:
        """Let go of the channels, and of the kernel if it lives."""
        self.client.stop_channels()
        if self.alive:
            self.manager.shutdown_kernel(now=True)
        else:
            self.manager.cleanup_resources()
        self.log.close()

    def _send(self, code: str, cell: str = "") -> str:
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        message = self.client.session.msg(
            "execute_request", content, metadata={"cellId": cell} if cell else {}
        )
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def _next(self, patience_s: float) -> dict[str, Any] | None:
        """The next message that the kernel broadcasts; answers to pages are kept."""
        try:
            message: dict[str, Any] = self.client.get_iopub_msg(timeout=patience_s)
        except queue.Empty:
            return None
        content = message["content"]
        if message["msg_type"] == "comm_close":
            self.closed.add(content["comm_id"])
        elif message["parent_header"].get("msg_type") == "comm_msg" and message["msg_type"] == "error":
            self.complaints.append("\n".join(content["traceback"])[-2000:])
        elif message["msg_type"] == "comm_msg" and content["data"].get("method") == "custom":
            body = content["data"]["content"]
            for one in body.get("several", [body]):
                self.received += 1
                if one.get("rid") is not None:
                    self.answers[one["rid"]] = one
        return message

    def _note(self, message: Mapping[str, Any], heard: Heard) -> bool:
        """Keep what a cell gave; whether it has ended."""
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            if content["name"] == "stdout":
                heard.printed += content["text"]
            else:
                heard.complaints += content["text"]
        elif kind == "error":
            heard.error, heard.error_text = content["ename"], f"{content['ename']}: {content['evalue']}"
        elif kind in ("display_data", "execute_result") and WIDGET in content["data"]:
            heard.shown.append(content["data"][WIDGET]["model_id"])
        return _ends(message)

    def _reply(self, msg_id: str, patience_s: float) -> None:
        """Take replies from the channel up to the one that was asked for."""
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            with contextlib.suppress(queue.Empty):
                if self.client.get_shell_msg(timeout=0.2)["parent_header"].get("msg_id") == msg_id:
                    return


def _ends(message: Mapping[str, Any]) -> bool:
    """Whether the kernel says by this that it has done what was asked."""
    return bool(message["msg_type"] == "status" and message["content"]["execution_state"] == "idle")
