"""Records JAX with JAX's profiler."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from ..formats.jax.assemble import assemble
from ..formats.jax.xplane import decode
from ..optional import installed, require
from ..trace.builder import TraceBuilder
from ..trace.clocks import Clock
from .base import Availability, Collector
from .options import CollectorOptions
from .patches import Patches


def start_profiler(jax: Any, *, python: bool) -> Callable[[], bytes]:
    """Start JAX's profiler, and return a function that stops it and returns the planes unchanged."""
    native, options = _native(), _options(jax, python)
    if native is not None:
        session = native.ProfilerSession(*(() if options is None else (options,)))
        return lambda: bytes(session.stop())
    folder = tempfile.TemporaryDirectory(prefix="notebook_prof")
    try:
        jax.profiler.start_trace(folder.name, **({} if options is None else {"profiler_options": options}))
    except BaseException:
        folder.cleanup()
        raise

    def stop() -> bytes:
        with folder:
            jax.profiler.stop_trace()
            files = sorted(Path(folder.name).rglob("*.xplane.pb"))
            return files[-1].read_bytes() if files else b""

    return stop


def _native() -> Any:
    """Return jaxlib's private module if its ``ProfilerSession.stop`` returns bytes, otherwise None."""
    # this needs no files, and exists in jaxlib 0.4.35 to 0.10
    for name in ("jaxlib._profiler", "jaxlib.xla_extension.profiler"):
        try:
            module = import_module(name)
        except ImportError:
            continue
        if hasattr(getattr(module, "ProfilerSession", None), "stop"):
            return module
    return None


def _options(jax: Any, python: bool) -> Any:
    make = getattr(jax.profiler, "ProfileOptions", None)
    if make is None:
        return None
    options = make()
    options.python_tracer_level = int(python)
    return options


def watch_conflicts(jax: Any, make_room: Callable[[], None]) -> Patches:
    """Call `make_room` before ``jax.profiler.start_trace``, which ``jax.profiler.trace`` calls too."""
    # JAX allows only one profiler and raises for a second one. So its public function is wrapped, in the
    # module that defines it and in the one that exports it. A name imported earlier (``from jax.profiler
    # import start_trace``) is not wrapped.
    patches = Patches()
    original: Any = getattr(jax.profiler, "start_trace", None)

    def start_trace(*args: Any, **kwargs: Any) -> Any:
        make_room()
        return original(*args, **kwargs)

    home = sys.modules.get(getattr(original, "__module__", ""), jax.profiler)
    for module in {id(one): one for one in (jax.profiler, home)}.values() if original is not None else ():
        patches.replace(module, "start_trace", lambda _: start_trace)
    return patches


class JaxCollector(Collector):
    """Records XLA operations, kernels, transfers and the host's calls with JAX's profiler."""

    # Steps come from ``jax.profiler.StepTraceAnnotation``. Python calls are recorded only with `stack`, since
    # they slow down unjitted operations by half. JAX allows only one profiler. If one is running, this
    # collector refuses to start. If the recorded code starts one, this collector stops first and reports
    # that.
    name: ClassVar[str] = "jax"
    holds: ClassVar[frozenset[str]] = frozenset({"JAX profiler"})

    def __init__(self, options: CollectorOptions | None = None) -> None:
        self._options = options if options is not None else CollectorOptions()
        self._end: Callable[[], bytes] | None = None  # set while the profiler runs
        self._planes = b""
        self._conflicts = Patches()

    @classmethod
    def availability(cls) -> Availability:
        if not installed("jax"):
            return Availability(False, 'jax is not installed: pip install "notebook-prof[jax]"')
        loaded = "" if "jax" in sys.modules else "; JAX is not imported yet"
        return Availability(True, f"operations and kernels by JAX's profiler{loaded}")

    def claims(self) -> frozenset[str]:
        """Claim CUPTI too, if JAX's plugin for NVIDIA GPUs is installed."""
        on_gpu = installed("jax_cuda13_plugin") or installed("jax_cuda12_plugin")
        return self.holds | {"CUPTI"} if on_gpu else self.holds

    def start(self, clock: Clock) -> None:
        jax: Any = require("jax", extra="jax", purpose="the jax collector")
        self._end = start_profiler(jax, python=self._options.stack)
        self._conflicts = watch_conflicts(jax, self._make_room)

    def stop(self) -> None:
        """Stop recording, which takes JAX about 3 µs per event."""
        self._conflicts.restore()
        end, self._end = self._end, None
        if end is not None:
            self._planes = end()

    def result(self, builder: TraceBuilder) -> None:
        planes, self._planes = self._planes, b""
        if not planes:
            effect = "nothing of JAX is recorded"
            self.report.add("no-planes", "loss", example="JAX's profiler returned nothing", effect=effect)
            return
        if self._options.devices is not None:
            advice = "set CUDA_VISIBLE_DEVICES before JAX starts"
            self.report.add("devices-ignored", "info", effect="JAX records all of its GPUs", advice=advice)
        assemble(decode(planes, self.report), builder)
        builder.metadata["jax_version"] = str(sys.modules["jax"].__version__)

    def abandon(self) -> None:
        self.stop()
        self._planes = b""

    def _make_room(self) -> None:
        if self._end is None:
            return
        self.stop()
        example = "the code started JAX's profiler itself while this one was recording"
        effect = "JAX allows only one: nothing of it is recorded from then on"
        advice = "remove jax.profiler from the cell, or read its folder with read_trace()"
        self.report.add("profiler-overtaken", "loss", example=example, effect=effect, advice=advice)
