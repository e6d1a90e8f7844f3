"""A simulated card: stand-ins for CuPy, NVML, CUPTI and CUDA's driver.

In a rehearsal of ``benchmarks.gpu`` this folder comes first on Python's path.
"""
