"""Runs a script as Python would, under the profiler."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import traceback

from ..errors import OptionError
from ..session.recorder import profile
from .run_outcome import FAILED, finish


def run_script(options: argparse.Namespace) -> int:
    """Run the script; returns its exit code, or that of its expectations."""
    if not options.module and not os.path.isfile(options.file):
        raise OptionError(f"there is no script {options.file!r} here")
    code = 0
    recorder = profile()
    argv, path = sys.argv, list(sys.path)
    try:
        sys.argv = [options.file, *options.arguments]
        sys.path[0:1] = [os.getcwd() if options.module else os.path.dirname(os.path.abspath(options.file))]
        recorder.start()
        try:
            if options.module:
                runpy.run_module(options.file, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(options.file, run_name="__main__")
        except SystemExit as error:
            code = _code(error)
        except BaseException as error:
            _print_error(error)
            code = 130 if isinstance(error, KeyboardInterrupt) else FAILED
        finally:
            recorder.stop()
    finally:
        sys.argv, sys.path[:] = argv, path
    sys.stdout.flush()
    outcome = finish(recorder.cycles[-1], options)
    return code or outcome


def _code(error: SystemExit) -> int:
    """Return the exit code as the interpreter would."""
    if error.code is None or isinstance(error.code, int):
        return int(error.code or 0)
    sys.stderr.write(f"{error.code}\n")
    return FAILED


def _print_error(error: BaseException) -> None:
    """Print a traceback that begins in the script."""
    trail = error.__traceback__
    while trail is not None and ("runpy" in trail.tb_frame.f_code.co_filename or _is_ours(trail.tb_frame)):
        trail = trail.tb_next
    traceback.print_exception(type(error), error, trail)


def _is_ours(frame: object) -> bool:
    return getattr(frame, "f_globals", {}).get("__name__") == __name__
