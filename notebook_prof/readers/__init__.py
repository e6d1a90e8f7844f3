"""Readers: files written by other profilers, as Traces."""

from .base import Probe, Reader
from .registry import list_formats, read_trace

__all__ = ["Probe", "Reader", "list_formats", "read_trace"]
