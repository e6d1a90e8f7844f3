"""Perfetto's protocol buffers, for ui.perfetto.dev and its trace processor."""

from .writer import write_perfetto

__all__ = ["write_perfetto"]
