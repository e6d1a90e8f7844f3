"""NVIDIA GPUs as counters, by NVIDIA's management library."""
