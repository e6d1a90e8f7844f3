"""In the place of ``cupti-python``."""
