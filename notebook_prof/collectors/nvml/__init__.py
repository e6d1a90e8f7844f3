"""NVIDIA GPUs as counters, through NVIDIA's management library."""
