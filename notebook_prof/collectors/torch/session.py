"""One run of PyTorch's profiler, through the fast private API if available, otherwise the public one."""

from __future__ import annotations

import functools
import os
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

from ...readers.kineto import KinetoColumns, read_columns
from ...trace.report import ImportReport
from ..machine import live_threads
from ..options import CollectorOptions
from ..patches import Patches
from . import result

# Conflicts of torch profilers: with the user's, and ours if the wrong thread would have to stop it.

Session: TypeAlias = "FastSession | PublicSession"
"""One run of the profiler: `prepare`, `start`, `stop` and `columns` are called once each, in this order. Only
the thread `owner` can stop it; any can if that is None."""

_waiting: list[Session] = []


def stop_or_strand(session: Session) -> bool:
    """Stop `session` if this thread may, otherwise keep it for its thread. Returns whether it was stopped."""
    if session.owner in (None, threading.get_ident()):
        session.stop()
        return True
    _waiting.append(session)
    return False


def release() -> None:
    """End the sessions that were kept for this thread, and drop their results."""
    for session in [one for one in _waiting if one.owner == threading.get_ident()]:
        _waiting.remove(session)
        session.stop()


def profiling(torch: Any) -> bool:
    """Return whether a torch profiler is running in this process."""
    # The C++ test sees only this thread's profiler, while torch's Python flag also covers one of all threads.
    enabled = getattr(torch.autograd.profiler, "_is_profiler_enabled", False)
    return bool(torch.autograd._profiler_enabled() or enabled)


class ConflictWatch:
    """Counts profilers that are started between `watch` and `unwatch`."""

    # torch (2.13) does not report this: the second profiler takes over, and the first one ends with no
    # result. Stopping ours would then stop the user's. So while we record, we wrap the private function that
    # every profiler of `torch.autograd.profiler` calls before it starts. If it does not exist, nothing is
    # counted. It has returned when the profiler starts, so profiles with stacks contain no frame of ours.
    # `before` is called before another profiler or an observer of execution traces starts. An observer is not
    # counted, since it can record beside us.
    def __init__(self, torch: Any, before: Callable[[], None]) -> None:
        self._homes = (
            (torch.autograd.profiler, "_run_on_profiler_start", 1),
            (torch.profiler.profiler, "_enable_execution_trace_observer", 0),
        )
        self._before = before
        self._patches = Patches()
        self.count = 0

    def watch(self) -> None:
        for home, name, count in self._homes:
            if hasattr(home, name):
                self._patches.replace(home, name, functools.partial(self._telling, count=count))

    def unwatch(self) -> None:
        """Restore the originals. A second call does nothing."""
        self._patches.restore()
        self._before = lambda: None

    def _telling(self, original: Any, count: int) -> Any:
        def tell(*args: Any, **kwargs: Any) -> Any:
            self.count += count
            self._before()
            return original(*args, **kwargs)

        return tell


_ONE_CYCLE: Final = ".*Profiler clears events at the end of each cycle"
"""A warning of torch 2.11 for every profiler, which does not matter, since ours has only one cycle."""


_LOG_LEVEL: Final = "KINETO_LOG_LEVEL"


def open_session(torch: Any, options: CollectorOptions) -> Session:
    """Return a fast session if this torch supports it, otherwise a public one."""
    return FastSession(torch, options) if fast_session_works(torch) else PublicSession(torch, options)


def fast_session_works(torch: Any) -> bool:
    """Return whether the private functions that `FastSession` uses exist. They may change without notice."""
    steps = ("_prepare_trace", "_start_trace", "__exit__")
    private = getattr(torch._C, "_autograd", None)
    event, raw = getattr(private, "_KinetoEvent", None), getattr(private, "_ProfilerResult", None)
    if event is None or raw is None or not result.readable(event, raw):
        return False
    return all(hasattr(torch.autograd.profiler.profile, step) for step in steps)


_IN_ORDER: Final = ("CUDA", "XPU", "MTIA", "HPU", "PrivateUse1")
"""Order of preference, since torch's profiler records only one kind of device."""


def device_kind(torch: Any) -> str | None:
    """Return torch's name for the kind of device that its profiler records here; None if it records none."""
    # A torch that can use CUDA but was built without CUPTI records none. If asked for CUDA anyway, it would
    # put CUDA events around each operator, which slows down the user's code.
    activity = _device_activity(torch)
    if activity is None:
        return None
    private = activity.name == "PrivateUse1"
    return str(torch._C._get_privateuse1_backend_name() if private else activity.name.lower())


def unrecorded_kinds(torch: Any) -> list[str]:
    """Return the kinds of devices that torch can use here but its profiler cannot record."""
    supported = {one.name.lower() for one in torch.profiler.supported_activities()}
    modules = {name: getattr(torch, name, None) for name in ("cuda", "xpu", "mtia", "hpu")}
    modules["mps"] = getattr(torch.backends, "mps", None)
    available = {name: getattr(module, "is_available", None) for name, module in modules.items()}
    return [name for name, asks in available.items() if asks is not None and name not in supported and asks()]


def _device_activity(torch: Any) -> Any:
    named = {one.name: one for one in torch.profiler.supported_activities() if one.name != "CPU"}
    order = [*_IN_ORDER, *sorted(named)]
    return next((named[name] for name in order if name in named), None)


class FastSession:
    """`torch.autograd.profiler.profile` (Kineto's back end), read through its C++ accessors."""

    def __init__(self, torch: Any, options: CollectorOptions) -> None:
        self.owner: int | None = None
        self._torch = torch
        self._options = options
        # ``torch.profiler.profile`` would first import ``torch._inductor.config``, which takes a second, and
        # its ``events()`` and ``key_averages()`` take 15 times as long as reading columns. Operators of
        # Python threads other than the starting one are recorded only without `memory`, since torch 2.13
        # records no allocations when it records all threads.
        kind = device_kind(torch)
        self._device = kind is not None
        self._threads: dict[int, str] = {}
        self._profiler: Any = torch.autograd.profiler.profile(
            use_kineto=True,
            use_device=kind,
            record_shapes=options.shapes is not False,
            profile_memory=options.memory,
            with_stack=options.stack,
            experimental_config=None if options.memory else _all_threads(torch),
        )

    def prepare(self) -> None:
        """Initialise Kineto, and CUPTI if there is a GPU."""
        with _kineto_is_quiet():
            self._profiler._prepare_trace()

    def start(self) -> None:
        self.owner = threading.get_ident() if self._options.memory else None
        self._profiler._start_trace()

    def stop(self) -> None:
        """Stop recording. Takes 2 µs per event, 6 with shapes."""
        self._threads = live_threads()
        self._profiler.__exit__(None, None, None)

    def size(self) -> int:
        """Return how many events were recorded, allocations included."""
        return len(self._profiler.kineto_results.events())

    def columns(self, report: ImportReport) -> KinetoColumns:
        """Read the raw result and release it."""
        raw, self._profiler = self._profiler.kineto_results, None
        return result.take(
            raw,
            self._torch._C._autograd._KinetoEvent,
            report,
            shapes=self._options.shapes is not False,
            memory=self._options.memory,
            device=self._device,
            pid=os.getpid(),
            threads=self._threads,
        )


class PublicSession:
    """`torch.profiler.profile`, exported to a temporary file and read by our reader."""

    def __init__(self, torch: Any, options: CollectorOptions) -> None:
        self.owner: int | None = None
        self._exported = b""
        device = _device_activity(torch)
        on = [torch.profiler.ProfilerActivity.CPU, *([] if device is None else [device])]
        self._profiler: Any = torch.profiler.profile(
            activities=on,
            record_shapes=options.shapes is not False,
            profile_memory=options.memory,
            with_stack=options.stack,
        )

    def prepare(self) -> None:
        """Do nothing, since the public profiler prepares when it starts."""

    def start(self) -> None:
        self.owner = threading.get_ident()
        with _kineto_is_quiet(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=_ONE_CYCLE, category=UserWarning)
            self._profiler.start()

    def stop(self) -> None:
        """Stop recording and export at once, since only this thread may use the profiler."""
        profiler, self._profiler = self._profiler, None
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            profiler.stop()
            profiler.export_chrome_trace(str(path))
            self._exported = path.read_bytes()

    def size(self) -> int:
        """Return how many events were recorded, allocations included."""
        return self._exported.count(b'"ph": "X"')

    def columns(self, report: ImportReport) -> KinetoColumns:
        """Read the exported file."""
        exported, self._exported = self._exported, b""
        return read_columns(exported, report)


@contextmanager
def _kineto_is_quiet() -> Iterator[None]:
    """Make Kineto log only errors. It reads the log level when the process first profiles."""
    if _LOG_LEVEL in os.environ:
        yield
        return
    os.environ[_LOG_LEVEL] = "6"  # errors
    try:
        yield
    finally:
        os.environ.pop(_LOG_LEVEL, None)  # the user's child processes would inherit the variable


def _all_threads(torch: Any) -> Any:
    """Return the configuration that records other Python threads too, if torch has it (from 2.6 on)."""
    try:
        return torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    except (AttributeError, TypeError):
        return None
