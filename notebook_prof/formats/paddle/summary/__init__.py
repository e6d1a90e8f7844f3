"""The tables of ``paddle.profiler.Profiler.summary()`` as DataFrames, for traces of every format."""

from .events import Events
from .memory import memory_table
from .operators import kernel_table, operator_table, user_table
from .overview import device_table, distribution_table, model_table, overview_table

__all__ = [
    "Events",
    "device_table",
    "distribution_table",
    "kernel_table",
    "memory_table",
    "model_table",
    "operator_table",
    "overview_table",
    "user_table",
]
