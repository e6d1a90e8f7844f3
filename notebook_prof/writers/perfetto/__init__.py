"""Perfetto's protocol buffers: what ui.perfetto.dev and its trace processor open."""

from .writer import write_perfetto

__all__ = ["write_perfetto"]
