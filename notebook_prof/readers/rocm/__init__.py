"""AMD's recordings: databases of rocprofv3 (rocpd) and of the ROCm Profiler Data tools (RPD)."""

from .reader import RocmReader

__all__ = ["RocmReader"]
