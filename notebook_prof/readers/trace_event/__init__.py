"""The Trace Event Format: the JSON of Chrome, Perfetto and tools that write files for them."""

from .reader import TraceEventReader, read_events

__all__ = ["TraceEventReader", "read_events"]
