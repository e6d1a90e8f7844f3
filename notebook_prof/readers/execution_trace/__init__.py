"""Execution traces: graphs of operators, of PyTorch and of MLCommons Chakra."""

from .reader import ExecutionTraceReader

__all__ = ["ExecutionTraceReader"]
