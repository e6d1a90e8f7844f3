"""Records JAX with JAX's profiler."""

from .collector import JaxCollector

__all__ = ["JaxCollector"]
