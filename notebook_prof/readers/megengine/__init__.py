"""MegEngine: its profiler's timelines, static graph profiles and memory drawings."""

from .reader import MegEngineReader

__all__ = ["MegEngineReader"]
