"""Perfetto's protocol buffers: of PyTorch, of tracing libraries, of rocprofv3, of Chrome and Linux."""

from .reader import PerfettoReader

__all__ = ["PerfettoReader"]
