"""Analyses: pure functions from a Trace to a DataFrame, one a file.

They do not draw, format, log, cache or change their input. Times are int64 nanoseconds, memory is
bytes, shares are between 0 and 1. `Profile` has each of them as a method.
"""

from .advice.advice import advice
from .device.copies import copies
from .device.device import device
from .device.device_idle import device_idle
from .device.graph_nodes import graph_nodes
from .device.idle_causes import idle_causes
from .device.kernel_launches import kernel_launches
from .device.kernel_origins import kernel_origins
from .device.kernels import kernels
from .device.roofline import roofline
from .distributed.cluster_advice import cluster_advice
from .distributed.cluster_links import cluster_links
from .distributed.cluster_steps import cluster_steps
from .distributed.collectives import collectives
from .distributed.distributed import distributed
from .input.input_operators import input_operators
from .input.input_pipeline import input_pipeline
from .input.input_queues import input_queues
from .input.loaders import loaders
from .memory.level_growth import level_growth
from .memory.memory import memory
from .memory.memory_blocks import memory_blocks
from .memory.memory_by import memory_by
from .memory.memory_growth import memory_growth
from .memory.memory_live import memory_live
from .memory.memory_operators import memory_operators
from .memory.memory_peak import memory_peak
from .source.flame import flame
from .source.hotspots import hotspots
from .source.imports import imports
from .source.line_calls import line_calls
from .source.lines import lines
from .time.account import account
from .time.breakdown import breakdown
from .time.calls import calls
from .time.cpu import cpu
from .time.cpu_use import cpu_use
from .time.host_waits import host_waits
from .time.layers import layers
from .time.one_time import one_time
from .time.operator_work import operator_work
from .time.operators import operators
from .time.overhead import overhead
from .time.overview import Overview, overview
from .time.phases import phases
from .time.step_breakdown import step_breakdown
from .time.step_trace import step_trace
from .time.steps import steps
from .time.thread_time import thread_time
from .trust.trust import trust
from .verdict.claims import Claim
from .verdict.verdict import Verdict, verdict

__all__ = [
    "Claim",
    "Overview",
    "Verdict",
    "account",
    "advice",
    "breakdown",
    "calls",
    "cluster_advice",
    "cluster_links",
    "cluster_steps",
    "collectives",
    "copies",
    "cpu",
    "cpu_use",
    "device",
    "device_idle",
    "distributed",
    "flame",
    "graph_nodes",
    "host_waits",
    "hotspots",
    "idle_causes",
    "imports",
    "input_operators",
    "input_pipeline",
    "input_queues",
    "kernel_launches",
    "kernel_origins",
    "kernels",
    "layers",
    "level_growth",
    "line_calls",
    "lines",
    "loaders",
    "memory",
    "memory_blocks",
    "memory_by",
    "memory_growth",
    "memory_live",
    "memory_operators",
    "memory_peak",
    "one_time",
    "operator_work",
    "operators",
    "overhead",
    "overview",
    "phases",
    "roofline",
    "step_breakdown",
    "step_trace",
    "steps",
    "thread_time",
    "trust",
    "verdict",
]
