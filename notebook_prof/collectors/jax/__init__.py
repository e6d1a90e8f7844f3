"""Recording JAX with its own profiler."""

from .collector import JaxCollector

__all__ = ["JaxCollector"]
