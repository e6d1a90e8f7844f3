"""One run of JAX's profiler, in memory if possible, otherwise through a temporary folder."""

from __future__ import annotations

import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol


class Session(Protocol):
    """A run of the profiler. Call `start` and `stop` once each."""

    def start(self) -> None:
        """Start recording. Raises RuntimeError if JAX's profiler is busy."""

    def stop(self) -> bytes:
        """Stop recording, and return the planes as a serialised XSpace; empty if there are none."""


def open_session(jax: Any, *, python: bool) -> Session:
    """Make a session of the kind that this JAX supports."""
    native = _native()
    options = _options(jax, python)
    return MemorySession(native, options) if native is not None else FolderSession(jax, options)


class MemorySession:
    """Uses jaxlib's private `ProfilerSession`, which needs no files (jaxlib 0.4.35 to 0.10)."""

    def __init__(self, native: Any, options: Any) -> None:
        self._native, self._options = native, options
        self._session: Any = None

    def start(self) -> None:
        """Start recording."""
        self._session = (
            self._native.ProfilerSession()
            if self._options is None
            else self._native.ProfilerSession(self._options)
        )

    def stop(self) -> bytes:
        """Stop recording, and return the planes unchanged."""
        session, self._session = self._session, None
        return bytes(session.stop())


class FolderSession:
    """Uses `jax.profiler.start_trace` and `stop_trace`, with a folder that is deleted afterwards."""

    def __init__(self, jax: Any, options: Any) -> None:
        self._profiler, self._options = jax.profiler, options
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def start(self) -> None:
        """Start recording."""
        self._folder = tempfile.TemporaryDirectory(prefix="notebook_prof")
        extra = {} if self._options is None else {"profiler_options": self._options}
        try:
            self._profiler.start_trace(self._folder.name, **extra)
        except BaseException:
            self._folder.cleanup()
            raise

    def stop(self) -> bytes:
        """Stop recording, read the file, and delete the folder."""
        folder, self._folder = self._folder, None
        if folder is None:
            return b""
        with folder:
            self._profiler.stop_trace()
            files = sorted(Path(folder.name).rglob("*.xplane.pb"))
            return files[-1].read_bytes() if files else b""


def _native() -> Any:
    """Return jaxlib's module if its ``ProfilerSession.stop`` returns bytes, otherwise None."""
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
