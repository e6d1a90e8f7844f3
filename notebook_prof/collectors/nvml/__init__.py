"""Counters of NVIDIA GPUs, from NVIDIA's management library."""
