"""The jax collector: JAX's profiler around the window, its planes read in memory."""

from __future__ import annotations

import sys
from typing import Any, ClassVar, Final

from ...optional import installed, require
from ...readers.jax import assemble, decode
from ...trace.builder import TraceBuilder
from ...trace.clocks import Clock
from ..base import Availability, Collector
from ..options import CollectorOptions
from .device_filter import of_devices
from .profiler_conflict import Rivals
from .session import Session, open_session

_CUDA_PLUGINS: Final = ("jax_cuda13_plugin", "jax_cuda12_plugin")


class JaxCollector(Collector):
    """Records XLA operations, kernels, transfers and the host's calls with JAX's profiler.

    Steps come from ``jax.profiler.StepTraceAnnotation``. Python calls are recorded with `stack` only: they
    make unjitted operations half as slow again. JAX has room for one profiler: where one is running, this
    collector refuses; where the recorded code starts one, this one ends before it, and says so.

    Parameters
    ----------
    options : CollectorOptions, optional
    """

    name: ClassVar[str] = "jax"
    holds: ClassVar[frozenset[str]] = frozenset({"JAX profiler"})

    def __init__(self, options: CollectorOptions | None = None) -> None:
        self._options = options if options is not None else CollectorOptions()
        self._session: Session | None = None
        self._planes = b""
        self._running = False
        self._rivals: Rivals | None = None

    @classmethod
    def availability(cls) -> Availability:
        """Whether JAX is installed; it is not imported here."""
        if not installed("jax"):
            return Availability(False, 'jax is not installed: pip install "notebook-prof[jax]"')
        loaded = "" if "jax" in sys.modules else "; JAX is not imported yet"
        return Availability(True, f"operations and kernels by JAX's profiler{loaded}")

    def claims(self) -> frozenset[str]:
        """CUPTI too, where JAX's own part for NVIDIA's GPUs is installed."""
        on_gpu = any(installed(plugin) for plugin in _CUDA_PLUGINS)
        return self.holds | {"CUPTI"} if on_gpu else self.holds

    def start(self, clock: Clock) -> None:
        """Begin to record.

        Raises
        ------
        RuntimeError
            If a profiler of JAX is running already.
        """
        jax: Any = require("jax", extra="jax", purpose="the jax collector")
        self._session = open_session(jax, python=self._options.stack)
        self._session.start()
        self._running = True
        self._rivals = Rivals(jax, self._make_room)
        self._rivals.watch()

    def stop(self) -> None:
        """End the recording; JAX needs about 3 µs an event for it."""
        if self._rivals is not None:
            self._rivals.unwatch()
            self._rivals = None
        if self._session is not None and self._running:
            self._running = False
            self._planes = self._session.stop()

    def result(self, builder: TraceBuilder) -> None:
        """Turn the planes into slices, flows and steps."""
        planes, self._planes, self._session = self._planes, b"", None
        if not planes:
            self.report.add(
                "no-planes",
                "loss",
                example="JAX's profiler gave nothing",
                effect="nothing of JAX is recorded",
            )
            return
        assemble(of_devices(decode(planes, self.report), self._options.devices, self.report), builder)
        builder.metadata["jax_version"] = str(sys.modules["jax"].__version__)

    def abandon(self) -> None:
        """End the recording and drop what it has."""
        self.stop()
        self._planes, self._session = b"", None

    def _make_room(self) -> None:
        if not self._running:
            return
        self.stop()
        self.report.add(
            "profiler-overtaken",
            "loss",
            example="the code started JAX's profiler itself while this one was recording",
            effect="JAX has room for one: nothing of it is recorded from then on",
            advice="remove jax.profiler from the cell, or read its folder with read_trace()",
        )
