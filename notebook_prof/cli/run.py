"""``notebook-prof run``: runs a notebook or a script, and reports its times and memory."""

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
from ..expectations.language import Expectation
from .expect import FAILED, add_expect_option, finish


def add_run(commands: Any) -> None:
    description = (
        "Run a notebook in a fresh kernel with every cell watched, or a script under the profiler; then "
        "print times and memory. Options precede a script, whose arguments follow it; for a notebook they "
        "may follow. Exit code: that of the script; 1 if a cell or an expectation failed."
    )
    parser = commands.add_parser("run", help="run a notebook or a script, profiled", description=description)
    _add_options(parser)
    parser.add_argument("-m", dest="module", action="store_true", help="FILE is a module, as for python -m")
    parser.add_argument("file", metavar="FILE", help="a notebook (.ipynb), or a Python script")
    parser.add_argument("arguments", metavar="…", nargs=argparse.REMAINDER, help="of the script")
    parser.set_defaults(run=run)


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-o", "--output", metavar="OUT.ipynb", help="write the executed notebook")
    add("--report", metavar="REPORT.html", help="write a report that needs neither network nor kernel")
    add("--save", metavar="RUN.nbprof", help="save the recording, for `notebook-prof diff` and the others")
    add("--no-source", action="store_true",
        help="leave source, file names and values of strings out of the report and of --save")  # fmt: skip
    add("-p", "--parameter", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"),
        help="set a name after the cell tagged `parameters`, as papermill does; may be repeated")  # fmt: skip
    add("--full", metavar="CELL", action="append", default=[],
        help="also record this cell with %%%%profile: its number, as in 'cell 7', or a text in it; "
        "its recording is saved beside --save or --output")  # fmt: skip
    add("--kernel", metavar="NAME", help="kernel to use (default: the notebook's)")
    add("--timeout", metavar="SECONDS", type=int, help="time limit of a cell (default: none)")
    add("--steps", metavar="STEPS", help="record only these steps of a script, such as 3:14")
    add_expect_option(parser, "'notebook < 5min', 'cell 7 < 30s', 'peak < 8GiB'")


def run(options: argparse.Namespace) -> int:
    """Run the file; returns the exit code."""
    if options.file.endswith(".ipynb"):
        parser = argparse.ArgumentParser(prog="notebook-prof run FILE.ipynb")
        _add_options(parser)
        options = parser.parse_args(options.arguments, options)
        _check(options)
        if options.steps:
            raise OptionError("--steps is for scripts: --full records a cell of a notebook")
        try:
            from .run_notebook import run_notebook

            return run_notebook(options)
        except KeyboardInterrupt:  # before the first cell, or a second Ctrl-C
            sys.stderr.write("notebook-prof: interrupted\n")
            return FAILED
    if any((options.output, options.parameter, options.full, options.kernel, options.timeout)):
        raise OptionError(
            "-o, -p, --full, --kernel and --timeout are for notebooks: a script's arguments follow its name"
        )
    _check(options)
    return run_script(options)


def _check(options: argparse.Namespace) -> None:
    """Check expectations and paths before the run, which may take hours and change the folder."""
    for text in options.expect:
        Expectation.parse(text)
    for option in ("output", "report", "save"):
        if path := getattr(options, option):
            setattr(options, option, os.path.abspath(path))
            folder, name = os.path.split(os.path.abspath(path))
            if not os.path.isdir(folder):
                raise OptionError(f"there is no folder {folder!r} to write {name!r} to")
            if not os.access(folder, os.W_OK):
                raise OptionError(f"the folder {folder!r} is not writable, so {name!r} cannot be written")


# Runs a script as Python would, under the profiler.


def run_script(options: argparse.Namespace) -> int:
    """Run the script as the main program of this process; return its or the expectations' exit code."""
    from ..session.recorder import profile

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
    """Wait for the threads that outlive the script, as Python does, but not for executors' threads."""
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
