"""The Trace Event Format: JSON of Chrome, Perfetto and everything that writes for them."""

from .reader import TraceEventReader, read_events

__all__ = ["TraceEventReader", "read_events"]
