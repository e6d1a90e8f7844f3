"""Runs a cell in a real kernel, bare and under ``%%profile``, and measures it beside the profiler.

Measured independently: the clock of the client, every top-level statement of a bare run, the CPU books of
its process, and the high-water mark of its memory as the operating system keeps it, read from outside.
"""

import ast
import json
import os
import pickle
import re
import shlex
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd
import psutil

from tests.kernels import start_kernel

CELLS = Path(__file__).parent / "cells"
ASKED = Path(__file__).parent / "asked.py"
PATIENCE_S = 240
OWN_PROCESS = re.compile(r"py-spy|notebook_prof")

TIMED = r"""
async def _timed(source, shell):
    import ast, inspect, json, time
    took, may_await = {}, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    for statement in ast.parse(shell.transform_cell(source)).body:
        code = compile(ast.Module([statement], []), "<statement>", "exec", may_await)
        begin = time.perf_counter()
        if code.co_flags & inspect.CO_COROUTINE:
            await eval(code, shell.user_ns)
        else:
            exec(code, shell.user_ns)
        took[statement.lineno] = took.get(statement.lineno, 0) + time.perf_counter() - begin
    return json.dumps(took)
"""


@dataclass(frozen=True)
class Workload:
    """A cell, what is run before it, and the options of its magic."""

    name: str
    setup: str
    cell: str
    options: str = "p --quiet"

    @property
    def statements(self) -> list[tuple[int, int]]:
        """First and last line of each top-level statement, as IPython counts: the magic is line 1."""
        return [
            (s.lineno + 1, (s.end_lineno or s.lineno) + 1)
            for s in ast.parse(re.sub(r"(?m)^[!%].*", "pass", self.cell)).body
        ]


def load(name: str, folder: Path = CELLS) -> Workload:
    """Read a file of the folder: a setup cell, ``# %%profile …``, the cell, and what was run afterwards."""
    text = (folder / f"{name}.py").read_text()
    setup, magic, body = re.split(r"(?m)^(?:# profiled cell\n)?# %%profile(.*)\n", text, maxsplit=1)
    words = shlex.split(re.split(r"->|\(", magic)[0])
    options = " ".join([*words, *(() if "--quiet" in words else ("--quiet",))])
    cell = re.split(r"(?m)^# then", body)[0].rstrip() + "\n"
    return Workload(name, re.sub(r"(?m)^# setup.*\n", "", setup).strip("\n"), cell, options)


@dataclass
class Run:
    """One profiled run: what was measured beside the profiler, and what the Profile says."""

    workload: Workload
    bare_s: float
    wall_s: float
    statements_s: list[dict[int, float]]
    bare_printed: str
    printed: str
    error: str
    high_water_bytes: int
    said: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Run({self.workload.name}, {self.said.get('verdict', '')!r})"

    def __getattr__(self, name: str) -> Any:
        said = self.__dict__.get("said", {})
        if name in said:
            return said[name]
        if name in said.get("failures", {}):
            raise AssertionError(f"{name} failed: {said['failures'][name]}")
        raise AttributeError(name)

    @property
    def cell_s(self) -> float:
        """Length of the cell by its account."""
        return float(self.account["dur"].sum()) / 1e9

    def part_s(self, first: int, last: int | None = None, kind: str | None = None) -> float:
        """Seconds of the account that belong to these lines."""
        rows = self.account
        selected = (rows["line"] >= first) & (rows["line"] <= (first if last is None else last))
        if kind is not None:
            selected &= rows["kind"] == kind
        return float(rows.loc[selected.fillna(False).astype(bool), "dur"].sum()) / 1e9

    def kind_s(self, kind: str) -> float:
        return float(self.account.loc[self.account["kind"] == kind, "dur"].sum()) / 1e9

    def line(self, number: int, file: str = "cell") -> pd.Series | None:
        """The row of `lines` for a line, if there is one."""
        rows = self.lines[(self.lines["file"] == file) & (self.lines["line"] == number)]
        return rows.iloc[0] if len(rows) else None

    def line_share(self, number: int, file: str = "cell") -> float:
        """Inclusive share of a line: its time over the account's; 0 if it is not in the table."""
        row = self.line(number, file)
        return 0.0 if row is None else float(row["total_ns"]) / 1e9 / self.cell_s

    def source_share(self, text: str) -> float:
        """Inclusive share of the line, in whatever file, whose source has this text; 0 if there is none."""
        rows = self.lines[self.lines["text"].str.contains(text, regex=False)]
        return float(rows["total_ns"].max()) / 1e9 / self.cell_s if len(rows) else 0.0

    def true_share(self, first: int) -> tuple[float, float]:
        """Least and largest share of the top-level statement on this line, in the bare runs."""
        shares = [took[first] / sum(took.values()) for took in self.statements_s]
        return min(shares), max(shares)

    def off(self, first: int, said: float) -> float:
        """By how much a share that is said of a statement lies outside of its shares in the bare runs."""
        least, largest = self.true_share(first)
        return max(least - said, said - largest, 0.0)

    def phase_shares(self, *steps: int) -> dict[str, float]:
        """Share of each phase of the time of all steps, or of these."""
        rows = self.phases[self.phases["step"].isin(steps)] if steps else self.phases
        total = rows.groupby("phase")["host_ns"].sum()
        return {str(k): float(v) for k, v in (total / max(total.sum(), 1)).items()}

    @property
    def advised(self) -> list[tuple[str, float]]:
        """Text and claimed gain of every piece of advice."""
        rows = self.advice
        return [
            (f"{f} | {r}", float(g or 0))
            for f, r, g in zip(rows["finding"], rows["remedy"], rows["gain_share"], strict=True)
        ]

    @property
    def codes(self) -> set[str]:
        return {code for code, *_ in self.report}


ABORTS = {"ddp"}
"""Cells that fail now and then without the profiler too.

A rank of torch 2.13 ends while a thread of gloo runs ("terminate called without an active exception"): in
1 of 25 to 5 of 12 runs of plain Python, without any of ours.
"""
ABORTED = "terminated with signal SIGABRT"
RESTING_S = 0.01
"""So little CPU time in a tenth of a second is none."""


class AbortedError(Exception):
    """A cell failed as it does without the profiler: see `ABORTS`."""


class Notebook:
    """A kernel with the extension loaded, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(CELLS / "mytrain.py", folder)
        env = {**os.environ, "IPYTHONDIR": str(folder / "ipython"), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
        # threads of OpenMP that spin for a core make cells on a busy machine a hundred times longer
        env |= {"MPLBACKEND": "agg", "OMP_WAIT_POLICY": "PASSIVE", "PYTHONFAULTHANDLER": "1"}
        self.log = (folder / "kernel.txt").open("w")
        options = {"env": env, "cwd": str(folder), "stdout": self.log, "stderr": self.log}
        self.manager, self.client = start_kernel(PATIENCE_S, **options)
        try:
            self.pid = int(self.must("import os; print(os.getpid())")[0])
            self.must("%load_ext notebook_prof")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.log.close()

    @property
    def alive(self) -> bool:
        """Whether the kernel still runs."""
        return bool(self.manager.is_alive())

    def execute(self, code: str, patience_s: float = PATIENCE_S) -> tuple[str, str, float]:
        """What a cell printed, its error, and the seconds until the kernel was idle again."""
        printed, error = [], []

        def hear(message: dict[str, Any]) -> None:
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                printed.append(content["text"])
            elif kind == "error":
                text = "\n".join(content["traceback"])
                error.append(f"{content['ename']}\n" + re.sub(r"\x1b\[[0-9;]*m", "", text))

        begin = time.perf_counter()
        self.client.execute_interactive(code, timeout=patience_s, output_hook=hear, allow_stdin=False)
        return "".join(printed), "".join(error), time.perf_counter() - begin

    def must(self, code: str) -> tuple[str, float]:
        """Run a cell that has to work; gives what it printed and its seconds."""
        printed, error, took = self.execute(code)
        assert not error, error
        return printed, took

    def play(self, workload: Workload, *, bare: bool = True, fails: bool = False) -> Run:
        """Set up, run bare (twice, statement by statement), then profiled, and ask the Profile."""
        for _ in range(19):
            with suppress(AbortedError):
                return self._play(workload, bare, fails)
        return self._play(workload, bare, fails)

    def _play(self, workload: Workload, bare: bool, fails: bool) -> Run:
        self.must(workload.setup or "None")
        bare_s, statements, first = float("nan"), [], ""
        if bare and fails:
            first, error, bare_s = self.execute(workload.cell)
            assert error, "this cell ends with an error"
        elif bare:
            try:
                bare_runs = [self._statements(workload) for _ in range(2)]
            except AssertionError as error_of_cell:
                if workload.name in ABORTS and ABORTED in str(error_of_cell):
                    raise AbortedError from error_of_cell
                raise
            statements = [took for took, _ in bare_runs]
            first, bare_s = bare_runs[-1][1], min(sum(took.values()) for took in statements)
        asking = f"exec(open({str(ASKED)!r}).read(), _space := {{}}); print(_space['usage']()); del _space"
        self.wait_until_idle()
        before, _ = self.must(asking)
        with high_water(self.pid) as mark:
            printed, error, wall_s = self.execute(f"%%profile {workload.options}\n{workload.cell}")
            if error and workload.name in ABORTS and ABORTED in error:
                raise AbortedError(printed)
            assert fails == bool(error), error
            said = self._ask(before)
        run = Run(workload, bare_s, wall_s, statements, first, printed, error, mark.bytes, said)
        said["used"]["helpers_s"] = min(mark.ended_helpers_s, said["used"]["children_s"])
        return run

    def wait_until_idle(self, at_most_s: float = 10.0) -> None:
        """Wait until the kernel has nothing left to do: work of an earlier cell is none of the next one's."""
        process, until = psutil.Process(self.pid), time.monotonic() + at_most_s
        used, now = -1.0, 0.0
        while now - used > RESTING_S and time.monotonic() < until:
            used = sum(process.cpu_times()[:2])
            time.sleep(0.1)
            now = sum(process.cpu_times()[:2])

    def _statements(self, workload: Workload) -> tuple[dict[int, float], str]:
        """Seconds of each top-level statement of a bare run, by its line; and what it printed."""
        self.must(TIMED)
        printed, _ = self.must(f"print('\\n' + await _timed({workload.cell!r}, get_ipython())); del _timed")
        printed, _, seconds_of = printed.rstrip("\n").rpartition("\n")
        return {int(line) + 1: seconds for line, seconds in json.loads(seconds_of).items()}, printed

    def _ask(self, before: str) -> dict[str, Any]:
        target = self.folder / "said.pickle"
        target.unlink(missing_ok=True)
        space = f"{{'PROFILE': _profile, 'TARGET': {str(target)!r}, 'BEFORE': {before.strip()}}}"
        self.must(f"exec(open({str(ASKED)!r}).read(), {space})")
        said: dict[str, Any] = pickle.loads(target.read_bytes())
        return said


@dataclass
class Mark:
    """What was seen of a process from outside."""

    bytes: int = 0
    # the profiler's own processes, by pid: the system's books count them as children
    helpers_s: dict[int, float] = field(default_factory=dict)

    @property
    def ended_helpers_s(self) -> float:
        """CPU seconds of those that have ended."""
        return sum(used for pid, used in self.helpers_s.items() if not psutil.pid_exists(pid))


@contextmanager
def high_water(pid: int) -> Iterator[Mark]:
    """Reset a process's high-water mark of resident memory, and look at it from outside every 20 ms."""
    # It is read all the time because the process may reset it itself. To find its children, every process of
    # the machine is asked: that happens every tenth of a second.
    mark, done = Mark(), threading.Event()
    status = Path(f"/proc/{pid}/status")

    def look() -> None:
        for turn in count():
            with suppress(OSError):
                match = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
                mark.bytes = max(mark.bytes, int(match[1]) * 1024 if match else 0)
            for child in () if turn % 5 else psutil.Process(pid).children():
                with suppress(psutil.Error):
                    if child.pid in mark.helpers_s or OWN_PROCESS.search(" ".join(child.cmdline())):
                        times = child.cpu_times()
                        mark.helpers_s[child.pid] = times.user + times.system
            if done.wait(0.02):
                return

    with suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield mark
    finally:
        done.set()
        thread.join()
