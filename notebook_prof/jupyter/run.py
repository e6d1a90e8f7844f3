"""The recording of one cell: started by a call inserted into the cell's tree, ended by an event."""

from __future__ import annotations

import linecache
import os
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from IPython import get_ipython
from IPython.core.error import UsageError
from IPython.display import display

from ..collectors.line_sources import CELLS
from ..collectors.python.assemble import OTHER_CELLS
from ..collectors.system.names.watch import NameWatch, Roots, running_frames
from ..errors import NotebookProfError
from ..interrupts import DelayedInterrupt
from ..profiles.deferred_trace import DeferredTrace
from ..session import current, ticks
from ..session.engine import Session
from ..session.plan import EndOfWindow, LoopInSource
from ..trace.source_lines import text_lines
from .cell import ResultUnknown, current_cell, let_leave, watch, when_failing
from .options import MAGIC, MagicOptions, parse
from .rewriting import load_run, tick_in_scripts

if TYPE_CHECKING:
    from ..profiles.profile import Profile
    from .live import LiveDisplay

_NEEDED_BYTES: Final = 128 * 2**20
"""Address space that recording, pandas and pyarrow need. With less, compiled code would end the process."""
_NEEDED_DESCRIPTORS: Final = 8
"""File descriptors that must be free. ZeroMQ opens some for a message of more than 64 KiB. If it cannot, it
loses that message and the next ones."""


def begin(line: str, *, refuse: str | None = None, **found: Any) -> None:
    """Start recording the running cell. This is the first call in a marked cell's tree."""
    # `line` has the options, which are valid. `refuse` says why the cell must not run. A UsageError, for
    # instance because another recording is running, keeps the cell from running.
    __tracebackhide__ = True
    if refuse is not None:
        raise UsageError(refuse)
    shell, info = get_ipython(), watch.info
    if info is None:
        raise UsageError(
            f"{MAGIC}: this cell runs silently, so its end is not reported; use nbp.profile(...)"
        )
    file = sys._getframe(1).f_code.co_filename  # the cell itself calls this
    with DelayedInterrupt():  # an interrupt is delayed until the watch for the cell's end is in place
        _begin(shell, info, line, file, **found)


def _begin(
    shell: Any,
    info: Any,
    line: str,
    file: str,
    *,
    loops: Sequence[tuple[int, int, str]] = (),
    marked: bool = False,
    problem: str | None = None,
) -> None:
    # `loops` has the token, line and head of each rewritten loop; `problem` says why they could not be read
    __tracebackhide__ = True
    options = parse(line)
    if why := _too_little_memory():
        raise UsageError(f"{MAGIC}: {why}")
    _import_delivery()
    # a loop that trains, or a mark in the cell, counts before all loops elsewhere
    elsewhere = not marked and all(token < 0 for token, *_ in loops)
    if elsewhere:
        load_run(shell)  # its imports must not be recorded
    make_live = _live_display(shell, options)  # nor must these
    try:
        _name_options(file, line)
        session = _session(options, info.raw_cell, [LoopInSource(*loop) for loop in loops], marked, file)
        if problem is not None:
            session.report.add("loops-unread", "loss", example=problem, advice="use nbp.step()")
        session.open()
    except NotebookProfError as error:
        raise UsageError(f"{MAGIC}: {error}") from None
    ticks.offer()
    end_scripts = tick_in_scripts(shell, options, session.loops_of_scripts) if elsewhere else lambda: None
    live = None if make_live is None else make_live(session, shell.user_ns)
    restore = let_leave(shell) if options.stop_after else None
    failures, restore_traceback = when_failing(shell)

    def finish(result: Any, now_ns: int) -> None:
        restore_traceback()
        end_scripts()
        if live is not None:
            live.end()
        error = result.error_in_exec or result.error_before_exec
        unknown = isinstance(result, ResultUnknown)
        told = not unknown
        if failures and error is not None:
            now_ns, failure = failures[-1]
            if unknown and failure is not None:
                error, told = failure, True
        failures.clear()
        session.cell.end(now_ns)
        if not (unknown and result.runs):  # otherwise its loops may still tick
            ticks.withdraw()
        if not told:
            why, where = (
                ("the extension was unloaded", "left") if result.runs else ("an interrupt", "next saw it")
            )
            example = f"{why} before the end of the cell"
            effect = f"the account ends where the profiler {where}"
            advice = "run the cell again"
            session.report.add("end-not-told", "loss", example=example, effect=effect, advice=advice)
        if restore is not None:
            restore()
        if isinstance(error, EndOfWindow):
            result.error_in_exec = error = None
        traces = session.close(failed=error is not None, error=error)
        _deliver(shell, options, traces, info.raw_cell, failed=error is not None)

    interrupt = DelayedInterrupt(deliver=False)
    ends: list[int] = []

    def done(result: Any) -> None:
        early = 0
        while not ends:  # not entered if an interrupt right after the start has ended it
            try:
                with interrupt:
                    if session.is_of_parent:  # this process is a fork of the cell's
                        return
                    ends.append(time.time_ns())
                    interrupt.count += early
                    finish(result, ends[0])
            except BaseException as error:  # the user's cell has run; IPython would print our traceback
                if not ends:  # an interrupt came before it could be delayed
                    early += 1
                    continue
                session.give_up()
                sys.stderr.write(f"{MAGIC}: the profile is lost, please report it: {_in_one_line(error)}\n")
        if interrupt.count:
            sys.stderr.write(f"{MAGIC}: the interrupt came after the code of the cell had ended\n")

    watch.when_done(info, done)
    session.begin_cell(file)
    if live is not None:
        live.begin()


def _import_delivery() -> None:
    """Import what `_deliver` needs now, since the cell may leave no file descriptors or memory."""
    from ..profiles import profile as profile
    from ..runs import writing as writing


def _live_display(shell: Any, options: MagicOptions) -> type[LiveDisplay] | None:
    """Return the class that shows the cell while it runs; None if no front-end could draw it."""
    # a front-end must draw widgets and keep listening
    if options.quiet or getattr(shell, "kernel", None) is None or not current_cell(shell):
        return None
    try:
        from .live import LiveDisplay
    except Exception:  # the cell can run without it
        return None
    return LiveDisplay


def _in_one_line(error: BaseException) -> str:
    """Return an error in one line, with the place in our code."""
    innermost = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" ({os.path.basename(one.filename)}:{one.lineno})" for one in innermost)
    return f"{type(error).__name__}: {error}{where}"


def _name_options(file: str, line: str) -> None:
    """Make tracebacks show the magic as a comment instead of the constant that replaces it."""
    _, _, lines, _ = (*linecache.cache.get(file, ()), *(None,) * 4)[:4]
    if isinstance(lines, list) and lines and lines[0].startswith("b"):
        lines[0] = f"# {MAGIC} {line}".rstrip() + "\n"


def announce(loops: Sequence[tuple[int, int, str]]) -> None:
    """Add loops that count steps, found only now in the body of a magic inside the profiled cell."""
    if (session := current.running()) is not None:
        session.announce([LoopInSource(*loop) for loop in loops])


@contextmanager
def recorded(shell: Any, options: MagicOptions, source: str) -> Iterator[None]:
    """Record a block and deliver its Profile, for ``%profile``."""
    _import_delivery()
    try:
        session = _session(options, source, (), False)
        session.open()
    except NotebookProfError as error:
        raise UsageError(f"{MAGIC[1:]}: {error}") from None
    failed = True
    try:
        yield
        failed = False
    except EndOfWindow:
        failed = False
    finally:
        with DelayedInterrupt():  # the rest of the cell must not run
            if not session.is_of_parent:
                _deliver(shell, options, session.close(failed=failed), source, failed=failed)


def _session(
    options: MagicOptions, source: str, loops: Sequence[LoopInSource], marked: bool, file: str = ""
) -> Session:
    shell = get_ipython()
    namespace: dict[str, Any] = {} if shell is None else shell.user_ns
    names = NameWatch(lambda: Roots(namespace, running_frames(namespace)))
    others = {other: f"In[{number}]" for other, number in _numbers(shell) if other != file}
    metadata = {"cell_source": source, OTHER_CELLS: others}
    CELLS.update(_odd_cells(shell))
    if shell is not None and (cell := current_cell(shell)):
        metadata["cell_id"] = cell
    return Session(options, loops=loops, marked=marked, metadata=metadata, names=names)


def _numbers(shell: Any) -> list[tuple[str, int]]:
    """Return the files and numbers of cells."""
    # IPython 8 and 9 keep this map for tracebacks; without it, all cells have the same name
    numbers = getattr(getattr(shell, "compile", None), "_filename_map", None) or {}
    return [(str(file), int(number)) for file, number in tuple(numbers.items())]


def _odd_cells(shell: Any) -> dict[str, list[str]]:
    """Return the lines of cells that IPython splits differently in `linecache`."""
    ran = getattr(getattr(shell, "history_manager", None), "input_hist_parsed", ())
    texts = {file: str(ran[number]) for file, number in _numbers(shell) if 0 < number < len(ran)}
    return {
        file: [f"{line}\n" for line in text_lines(text)]
        for file, text in texts.items()
        if len(text.splitlines()) > text.count("\n") + 1 and file not in CELLS
    }


def _deliver(
    shell: Any, options: MagicOptions, traces: list[DeferredTrace], source: str, *, failed: bool
) -> None:
    from ..profiles.profile import Profile  # imported at the first cell: it imports all analyses
    from ..runs.writing import remember

    profile = Profile(traces[-1])
    write = (
        remember(
            profile,
            source=source,
            cell=current_cell(shell) if source.lstrip().startswith(MAGIC) else "",
            name=options.run_name,
            options=options.recording,
            failed=failed,
            kept=options.keep,
            hold=current.is_recording,
        )
        if options.history
        else None
    )
    if options.save is not None:
        try:
            profile.save(options.save)
        except Exception as error:
            example = f"{options.save}: {type(error).__name__}: {error}"
            profile.trace.report.add("not-saved", "loss", example=example, advice="save it with p.save(path)")
    deliver(shell, profile, name=options.name, quiet=options.quiet)
    traces[-1].start()  # last, so that the prompt does not wait for it
    if write is not None:
        write()


def deliver(shell: Any, profile: Profile, *, name: str | None = None, quiet: bool = False) -> None:
    """Make a Profile the latest one, bind it to ``_profile`` and `name`, and show it unless `quiet`."""
    current.remember(profile)
    names = {"_profile": profile} | ({name: profile} if name else {})
    shell.push(names, interactive=True)
    if not quiet:
        _show(profile)


def _show(profile: Profile) -> None:
    if _too_few_descriptors():
        text = (
            f"The profile is in _profile. It is not shown, since fewer than {_NEEDED_DESCRIPTORS} more files "
            "can be opened: raise the limit (ulimit -n, RLIMIT_NOFILE)"
        )
        display({"text/plain": text}, raw=True)
        return
    try:
        try:
            profile._ipython_display_()
        except NotImplementedError:
            display(profile._repr_mimebundle_(), raw=True)
    except Exception as error:  # display(profile) would print a traceback below the user's output
        example = f"{type(error).__name__}: {error}"
        effect = "the views are missing"
        advice = "please report it, with this text"
        profile.trace.report.add("display-failed", "error", example=example, effect=effect, advice=advice)
        text = f"The profile is in _profile, but it could not be shown: {type(error).__name__}: {error}"
        display({"text/plain": text}, raw=True)


def _too_little_memory() -> str:
    """Return why a recording would endanger the kernel; empty if it does not, or no limit is known."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit == resource.RLIM_INFINITY:
            return ""
        with open("/proc/self/statm", "rb") as stream:
            used = int(stream.read().split()[0]) * resource.getpagesize()
    except (ImportError, OSError, ValueError):
        return ""
    left = max(limit - used, 0)
    if left >= _NEEDED_BYTES:
        return ""
    return (
        f"only {left >> 20} MiB of address space are left of the {limit >> 20} MiB that this process may "
        f"take, and a recording needs {_NEEDED_BYTES >> 20} MiB: raise the limit (ulimit -v, RLIMIT_AS)"
    )


def _too_few_descriptors() -> bool:
    """Return whether fewer than `_NEEDED_DESCRIPTORS` files can be opened."""
    descriptors: list[int] = []
    try:
        for _ in range(_NEEDED_DESCRIPTORS):
            descriptors.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return True
    finally:
        for number in descriptors:
            os.close(number)
    return False
