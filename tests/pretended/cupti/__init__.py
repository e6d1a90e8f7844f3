"""A stand-in for ``cupti-python``."""
