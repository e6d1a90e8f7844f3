"""Records the CUDA kernels of any library, by the best route available in this process."""

from .collector import CudaCollector
from .routes import Route, choose, routes, survey

__all__ = ["CudaCollector", "Route", "choose", "routes", "survey"]
