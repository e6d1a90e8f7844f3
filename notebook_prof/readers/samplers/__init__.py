"""Files of samplers and memory profilers: Firefox Profiler's JSON, and binary ones of Python's own tools."""

from .gecko import GeckoReader
from .memray import MemrayReader
from .mojo import MojoReader
from .tachyon import TachyonReader
from .tachyon_jsonl import TachyonJsonlReader

__all__ = ["GeckoReader", "MemrayReader", "MojoReader", "TachyonJsonlReader", "TachyonReader"]
