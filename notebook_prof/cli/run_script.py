"""Runs a script as Python would, under the profiler."""

from __future__ import annotations

import argparse
import builtins
import contextlib
import io
import os
import runpy
import sys
import threading
import types
import zipfile
from importlib.machinery import SourceFileLoader
from typing import Any

from ..errors import OptionError
from ..session.recorder import profile
from .run_outcome import FAILED, finish


def run_script(options: argparse.Namespace) -> int:
    """Run the script as the main program of this process; return its or the expectations' exit code."""
    if not options.module and not os.path.exists(options.file):
        raise OptionError(f"there is no script {options.file!r} here")
    error: BaseException | None = None
    process, path = os.getpid(), sys.path[:]
    recorder = profile(steps=options.steps).start()
    try:
        try:
            _run_main(options)
            code = 0
        except SystemExit:
            raise
        except BaseException as raised:
            error, code = _of_script(raised), FAILED
            sys.excepthook(type(error), error, error.__traceback__)
    except SystemExit as left:
        code = _code(left)
    finally:
        _wait_for_threads()
        recorder.stop()
    if os.getpid() != process:  # a child that the script has forked
        return code
    scripts_path, sys.path[:] = sys.path[:], path
    if sys.stdout is None or sys.stdout.closed:
        sys.stdout = io.StringIO()
    outcome = finish(recorder.cycles[-1], options)
    sys.path[:] = scripts_path
    if isinstance(error, KeyboardInterrupt):  # Python then ends by the signal, which ends a shell's loop, too
        sys.excepthook = lambda *_: None
        raise error
    return code or outcome


def _run_main(options: argparse.Namespace) -> None:
    """Run the file in a new module ``__main__``, which stays: threads and exit handlers outlive it."""
    given = {"__builtins__": builtins, "__annotations__": {}, "__cached__": None}
    kept = vars(sys.modules["__main__"]).keys() & given.keys()  # Python 3.14 has no such annotations
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    vars(main).update({name: given[name] for name in kept})
    sys.argv = [options.file, *options.arguments]
    packed = not options.module and (os.path.isdir(options.file) or zipfile.is_zipfile(options.file))
    if packed:
        sys.path.insert(0, os.path.abspath(options.file))
    elif not getattr(sys.flags, "safe_path", False):  # from Python 3.11 on
        sys.path[0] = os.getcwd() if options.module else os.path.dirname(os.path.realpath(options.file))
    if options.module or packed:
        run: Any = runpy.__dict__["_run_module_as_main"]  # as the interpreter itself runs both
        run("__main__" if packed else options.file, alter_argv=not packed)
        return
    file = os.path.abspath(options.file)
    vars(main).update(__file__=file, __loader__=SourceFileLoader("__main__", file))
    with open(file, "rb") as source:
        code = compile(source.read(), file, "exec", dont_inherit=True)
    exec(code, vars(main))


def _of_script(error: BaseException) -> BaseException:
    """Return the error with a traceback that begins in the script."""
    trail = error.__traceback__
    while trail is not None and trail.tb_frame.f_globals.get("__name__") in (__name__, "runpy"):
        trail = trail.tb_next
    return error.with_traceback(trail)


def _wait_for_threads() -> None:
    """Wait for the threads that outlive the script, as Python does, but not for those of executors."""
    executors = getattr(sys.modules.get("concurrent.futures.thread"), "_threads_queues", ())
    with contextlib.suppress(KeyboardInterrupt):
        for thread in threading.enumerate():
            if not thread.daemon and thread is not threading.main_thread() and thread not in executors:
                thread.join()


def _code(error: SystemExit) -> int:
    """Return the exit code as the interpreter would."""
    if error.code is None or isinstance(error.code, int):
        return int(error.code or 0)
    sys.stderr.write(f"{error.code}\n")
    return FAILED
