"""Paddle: its profiler's JSON and protobuf files, which VisualDL shows."""

from .reader import PaddleReader

__all__ = ["PaddleReader"]
