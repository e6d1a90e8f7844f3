"""The python collector: a timeline of Python code, by sampling lines or by tracing calls."""

from .collector import PythonCollector

__all__ = ["PythonCollector"]
