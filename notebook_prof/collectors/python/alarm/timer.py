"""Ticks from the process's alarm timer, handled in the main thread.

``ITIMER_REAL`` and ``SIGALRM`` belong to the user: they are taken only where nobody uses them, and
given back as soon as the cell asks for them.
"""

from __future__ import annotations

import faulthandler
import functools
import signal
import threading
import time
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from .samples import Samples

INTERVAL_S: Final = 0.001
THIN_AFTER: Final = 500_000
"""After so many ticks the interval doubles, and again after as many."""

SETTLE_S: Final = 2e-5
"""A signal that another thread is taking at the moment is noted after so long."""

_MET_BY: Final = (
    *((signal, name) for name in ("signal", "getsignal", "siginterrupt", "alarm", "setitimer", "getitimer")),
    (faulthandler, "register"),
)


def refusal() -> str:
    """Return why the alarm cannot be used here and now; empty if it can."""
    if not hasattr(signal, "setitimer"):
        return "this system has no interval timers"
    if threading.current_thread() is not threading.main_thread():
        return "signals are handled in the main thread, and the recording was started in another"
    if signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
        return "SIGALRM has a handler already"
    if _caught_without_python():
        return "SIGALRM has a handler already, as faulthandler.register() sets one"
    if signal.getitimer(signal.ITIMER_REAL) != (0.0, 0.0):
        return "the alarm timer is running already"
    return ""


def _caught_without_python() -> bool:
    """Return whether the process catches SIGALRM though Python knows of no handler; only Linux tells."""
    try:
        with open("/proc/self/status", "rb") as stream:
            caught = next(line for line in stream if line.startswith(b"SigCgt:"))
    except (OSError, StopIteration):
        return False
    return bool(int(caught.split()[1], 16) >> (signal.SIGALRM - 1) & 1)


class AlarmTicker:
    """Samples the main thread at every tick of the alarm timer.

    While it runs, the functions of `signal` and `faulthandler` that meet the alarm are wrapped: when the
    user's code calls one of them for SIGALRM or ITIMER_REAL, the alarm is given back before the call,
    so that the user finds it unused, and `on_yield` is called.

    Parameters
    ----------
    samples : Samples
    now_ns : callable
        The recording's clock.
    each_tick : callable
        Called with the time after every sample.
    on_yield : callable
        Called with the name, as ``signal.alarm``, of the function by which the user's code took the alarm.

    Attributes
    ----------
    failures : list of Exception
        The first three that a tick met.
    lost : bool
        Whether the alarm was found in other hands at the end.
    """

    def __init__(
        self,
        samples: Samples,
        now_ns: Callable[[], int],
        each_tick: Callable[[int], object],
        on_yield: Callable[[str], object],
    ) -> None:
        self._samples = samples
        self._now_ns = now_ns
        self._each_tick = each_tick
        self._on_yield = on_yield
        self._guards = _Guards(self)
        self._handler = self._tick
        self._busy = False
        self._running = False
        self._taken = False
        self._restore_in_handler = False
        self._interval_s = INTERVAL_S
        self._thin_at = THIN_AFTER
        self.failures: list[Exception] = []
        self.lost = False

    @property
    def interval_ns(self) -> int:
        """Time between ticks at present."""
        return round(self._interval_s * 1e9)

    def start(self) -> None:
        """Take the alarm; only after `refusal` said nothing."""
        self._running = self._taken = True
        signal.signal(signal.SIGALRM, self._handler)
        signal.siginterrupt(signal.SIGALRM, False)
        signal.setitimer(signal.ITIMER_REAL, self._interval_s, self._interval_s)
        self._guards.install()

    def stop(self) -> None:
        """Give the alarm back. Safe to repeat, and after an interrupt it must be."""
        self._running = False
        if not self._taken:
            return
        self._guards.remove()
        if signal.getsignal(signal.SIGALRM) != self._handler:
            self.lost = True
        else:
            self.lost = signal.getitimer(signal.ITIMER_REAL)[1] == 0.0
            if not self.lost:
                signal.setitimer(signal.ITIMER_REAL, 0.0, 0.0)
                while signal.sigtimedwait((signal.SIGALRM,), 0) is not None:
                    pass
                time.sleep(SETTLE_S)
            if threading.current_thread() is threading.main_thread():
                _restore()
            else:
                self._restore_in_handler = True
                signal.raise_signal(signal.SIGALRM)
        self._taken = False

    def give_way(self, called: str) -> None:
        """Give the alarm back in the middle of a recording, because the user called `called`."""
        if self._running:
            self.stop()
            self._on_yield(called)

    def _tick(self, signum: int, frame: FrameType | None) -> None:
        if self._restore_in_handler:
            _restore()
        if self._busy or not self._running:
            return
        self._busy = True
        try:
            now = self._now_ns()
            self._samples.add(now, frame)
            self._each_tick(now)
            if len(self._samples) >= self._thin_at:
                self._thin()
        except Exception as error:
            if len(self.failures) < 3:
                self.failures.append(error)
        finally:
            self._busy = False

    def _thin(self) -> None:
        self._thin_at += THIN_AFTER
        self._interval_s *= 2
        self._guards.original("setitimer")(signal.ITIMER_REAL, self._interval_s, self._interval_s)


def _restore() -> None:
    """Restore the default action. Ignoring comes first, since it drops a signal that another thread was given
    and has not taken yet: by default it would end the process."""
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


class _Guards:
    """Wrappers around the functions that meet the alarm."""

    def __init__(self, ticker: AlarmTicker) -> None:
        self._ticker = weakref.ref(ticker)
        self._wrapped: list[tuple[Any, str, Any, Any]] = []

    def install(self) -> None:
        for module, name in _MET_BY:
            original = getattr(module, name)
            wrapper = _guard(name, original, self._ticker)
            self._wrapped.append((module, name, original, wrapper))
            setattr(module, name, wrapper)

    def remove(self) -> None:
        for module, name, original, wrapper in self._wrapped:
            if getattr(module, name) is wrapper:
                setattr(module, name, original)

    def original(self, name: str) -> Any:
        return next(original for _, own, original, _ in self._wrapped if own == name)


def _guard(name: str, original: Any, ticker: weakref.ref[AlarmTicker]) -> Any:
    timers = name.endswith("itimer")

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        which = args[0] if args else None
        if name == "alarm" or which == (signal.ITIMER_REAL if timers else signal.SIGALRM):
            holder = ticker()
            if holder is not None:
                holder.give_way(f"{original.__module__}.{name}")
        return original(*args, **kwargs)

    return wrapper
