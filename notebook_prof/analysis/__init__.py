"""Analyses: pure functions from a Trace to a DataFrame, one a file.

They do not draw, format, log, cache or change their input. Times are int64 nanoseconds, memory is
bytes, shares are between 0 and 1. `Profile` has each of them as a method.
"""

from .account import account
from .advice import advice
from .breakdown import breakdown
from .calls import calls
from .claims import Claim
from .cluster_advice import cluster_advice
from .cluster_links import cluster_links
from .cluster_steps import cluster_steps
from .collectives import collectives
from .copies import copies
from .cpu import cpu
from .cpu_use import cpu_use
from .device import device
from .device_idle import device_idle
from .distributed import distributed
from .flame import flame
from .graph_nodes import graph_nodes
from .host_waits import host_waits
from .hotspots import hotspots
from .idle_causes import idle_causes
from .imports import imports
from .input_operators import input_operators
from .input_pipeline import input_pipeline
from .input_queues import input_queues
from .kernel_launches import kernel_launches
from .kernel_origins import kernel_origins
from .kernels import kernels
from .layers import layers
from .level_growth import level_growth
from .line_calls import line_calls
from .lines import lines
from .loaders import loaders
from .memory import memory
from .memory_blocks import memory_blocks
from .memory_by import memory_by
from .memory_growth import memory_growth
from .memory_live import memory_live
from .memory_operators import memory_operators
from .memory_peak import memory_peak
from .one_time import one_time
from .operator_work import operator_work
from .operators import operators
from .overhead import overhead
from .overview import Overview, overview
from .phases import phases
from .roofline import roofline
from .step_breakdown import step_breakdown
from .step_trace import step_trace
from .steps import steps
from .thread_time import thread_time
from .trust import trust
from .verdict import Verdict, verdict

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
