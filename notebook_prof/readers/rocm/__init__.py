"""AMD's recordings: databases of rocprofv3 (rocpd) and of the ROCm Profiler Data tools (RPD)."""

from .csv_reader import RocmCsvReader
from .reader import RocmReader

__all__ = ["RocmCsvReader", "RocmReader"]
