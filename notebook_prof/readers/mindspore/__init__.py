"""MindSpore and MindInsight: profiler folders of versions r0.5 to 2.10, and Ascend's msprof timelines."""

from .reader import MindSporeReader

__all__ = ["MindSporeReader"]
