"""Reports of Nsight Systems: SQLite exports, and folders or streams of Arrow and Parquet."""

from .reader import NsysReader

__all__ = ["NsysReader"]
