"""macOS and Windows, made up: what those systems lack is taken away before the package is imported.

What they have and Linux lacks cannot be made up. Third packages (psutil, torch) stay those of this system.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ..new_process import run_python

LACKS = {"darwin": "os.sched_getaffinity os.pidfd_open signal.pidfd_send_signal time.CLOCK_BOOTTIME"}
LACKS["win32"] = f"""{LACKS["darwin"]} os.fork os.forkpty os.register_at_fork os.confstr os.sysconf os.pread
    os.posix_spawn os.getuid os.geteuid os.getpgid os.setsid os.killpg os.mkfifo os.uname os.nice
    os.posix_fadvise os.getloadavg os.fchmod os.O_CLOEXEC os.O_NOFOLLOW os.O_DIRECTORY signal.pthread_sigmask
    signal.SIGKILL signal.SIGALRM signal.SIGPIPE signal.SIGXFSZ signal.setitimer signal.pthread_kill
    signal.siginterrupt time.clock_gettime_ns"""
LACKS_MODULES = {"darwin": ["memray"], "win32": ["memray", "resource", "fcntl", "pwd", "grp", "termios"]}

SYSTEM = """
import builtins, ctypes, importlib, io, json, os, sys
third = '''asyncio bokeh.models concurrent.futures.process duckdb IPython.core.interactiveshell ipywidgets
    multiprocessing.connection multiprocessing.popen_fork numpy pandas PIL.Image psutil shutil signal
    subprocess tempfile threading time uuid webbrowser'''
for name in third.split():
    importlib.import_module(name)

platform, lacks, modules = json.loads(sys.argv[1])

def for_us():
    frame = sys._getframe(2)
    for _ in range(6):
        name = frame.f_globals.get("__name__", "") if frame else ""
        if name.startswith("psutil"):
            return False
        if name.startswith("notebook_prof"):
            return True
        frame = frame and frame.f_back
    return False

def without_proc(function):
    def read(path, *arguments, **options):
        if isinstance(path, (str, bytes, os.PathLike)) and for_us():
            if os.fspath(path) and str(os.fspath(path)).startswith(("/proc", "/sys")):
                raise FileNotFoundError(2, "No such file or directory", path)
        return function(path, *arguments, **options)
    return read

builtins.open = io.open = without_proc(open)
for name in ("open", "listdir", "scandir", "readlink", "stat"):
    setattr(os, name, without_proc(getattr(os, name)))
load = ctypes.CDLL.__init__
def no_libc(self, name, *arguments, **options):
    if for_us():
        raise OSError(f"{name}: image not found")
    load(self, name, *arguments, **options)
ctypes.CDLL.__init__ = no_libc
for path in lacks:
    module, _, name = path.partition(".")
    if hasattr(sys.modules[module], name):
        delattr(sys.modules[module], name)
for name in modules:
    sys.modules[name] = None
sys.platform = platform
"""

PROGRAM = """
from IPython.core.interactiveshell import InteractiveShell
import notebook_prof as nbp

shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "notebook_prof")
shell.run_cell("import time")
ran = shell.run_cell('''%%profile --steps 1:3
def work():
    return sum(range(300_000))

for step in range(4):
    held = bytearray(64 << 20)
    work()
    time.sleep(0.05)
''')
assert ran.success, ran.error_in_exec
p = nbp.last
p.export.html(sys.argv[2])
p.save(sys.argv[3])
loaded = nbp.open_profile(sys.argv[3])
shell.run_line_magic("profile_notebook", "")
shell.run_cell("import json; again = [work() for _ in range(30)]", store_history=True)
shell.run_line_magic("profile_notebook", "off")
steps = p.account().query("kind == 'steps'").iloc[0]
lines = p.lines().set_index("line")
unavailable = nbp.list_collectors().query("not available and name in ('python', 'system', 'marks', 'heap')")
print(json.dumps({
    "steps": len(p.steps()),
    "headlines": [str(one.verdict).splitlines()[0] for one in (p, loaded)],
    "cpu": [bool(steps["cpu_ns"] > 0), str(steps["wait_ns"])],
    "slept": bool(0.1 <= lines.loc[8, "total_ns"] / 1e9 < 1),
    "held": int(p.memory.peak()["peak_bytes"].iloc[0]) >= 64 << 20,
    "issues": list(p.trace.report.to_frame()["code"]),
    "cells": nbp.notebook().cells()[["cpu_ns", "wait_ns"]].isna().all().tolist(),
    "unavailable": unavailable["name"].tolist(),
}))
"""


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_a_cell_is_recorded_shown_saved_and_opened(system: str, tmp_path: Path) -> None:
    missing = json.dumps([system, LACKS[system].split(), LACKS_MODULES[system]])
    paths = [str(tmp_path / "report.html"), str(tmp_path / "run.nbprof")]
    done = run_python(SYSTEM + PROGRAM, missing, *paths, cwd=tmp_path)
    said = json.loads(done.stdout.splitlines()[-1])
    first, again = said.pop("headlines")
    assert first == again
    assert first.startswith("Python-bound")
    assert said == {
        "steps": 2,
        "cpu": [True, "<NA>"],  # no thread's time is read, so nothing is said of waits
        "slept": True,
        "held": True,
        "issues": ["sampled-in-process"],
        "cells": [False, True],
        "unavailable": ["heap"],  # without memray
    }
    assert Path(paths[0]).stat().st_size > 100_000
