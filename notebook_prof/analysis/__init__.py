"""Analyses: pure functions from a Trace to a DataFrame, one a file.

They do not draw, format, log, cache or change their input. Times are int64 nanoseconds, memory is
bytes, shares are between 0 and 1. `Profile` has each of them as a method, by topic:
`memory_peak` is ``p.memory.peak``.
"""

from .advice.advice import advice
from .critical_path.doubts import critical_path_doubts
from .critical_path.hops import critical_path_hops, critical_path_spans
from .critical_path.path import critical_path
from .critical_path.replay.answer import WhatIf
from .critical_path.replay.next_class import critical_path_next
from .critical_path.replay.slack import slack
from .critical_path.replay.what_if import what_if
from .critical_path.why import why
from .device.busy import device
from .device.copies import copies
from .device.graphs import graph_nodes
from .device.idle import device_idle, idle_causes
from .device.kernel_launches import kernel_launches
from .device.kernels import kernel_origins, kernels
from .device.roofline import roofline
from .device.sequences import kernel_sequences
from .distributed.collectives import collectives
from .distributed.communication import distributed
from .distributed.exposed_by import exposed_collectives
from .distributed.mindspore_cluster import cluster_advice, cluster_links, cluster_steps
from .input.loader_batches import loader_batches, loader_transforms, loader_workers
from .input.loader_bounds import loader_bounds, loader_throughput
from .input.operators import input_operators, input_queues
from .input.pipeline import input_pipeline, loaders
from .memory.blocks import memory_blocks
from .memory.curve import memory, memory_peak
from .memory.growth import memory_growth
from .memory.heap import memory_heap
from .memory.level_growth import level_growth
from .memory.live import memory_by, memory_live
from .memory.names import memory_left_behind, memory_names
from .memory.operators import memory_operators
from .source.annotated import annotated_source, line_steps
from .source.call_tree import bottom_up, call_tree, heaviest_stack
from .source.compilations import compilations, fused_kernels, graph_breaks
from .source.event_log import event_log
from .source.flame import flame
from .source.hotspots import hotspots
from .source.line_calls import imports, line_calls
from .source.lines import lines
from .source.sandwich import sandwich
from .time.account import account
from .time.calls import calls
from .time.cpu import cpu, cpu_use
from .time.host_waits import host_waits
from .time.layers import layers
from .time.one_time import one_time
from .time.operators import operator_work, operators
from .time.overhead import overhead
from .time.overview import Overview, overview
from .time.phases import phases
from .time.step_trace import step_trace
from .time.steps import breakdown, step_breakdown, steps
from .time.thread_time import thread_time
from .trust.trust import trust
from .verdict.claims import Claim
from .verdict.verdict import Verdict, verdict
from .work.arguments import operator_arguments
from .work.training import training

__all__ = [
    "Claim",
    "Overview",
    "Verdict",
    "WhatIf",
    "account",
    "advice",
    "annotated_source",
    "bottom_up",
    "breakdown",
    "call_tree",
    "calls",
    "cluster_advice",
    "cluster_links",
    "cluster_steps",
    "collectives",
    "compilations",
    "copies",
    "cpu",
    "cpu_use",
    "critical_path",
    "critical_path_doubts",
    "critical_path_hops",
    "critical_path_next",
    "critical_path_spans",
    "device",
    "device_idle",
    "distributed",
    "event_log",
    "exposed_collectives",
    "flame",
    "fused_kernels",
    "graph_breaks",
    "graph_nodes",
    "heaviest_stack",
    "host_waits",
    "hotspots",
    "idle_causes",
    "imports",
    "input_operators",
    "input_pipeline",
    "input_queues",
    "kernel_launches",
    "kernel_origins",
    "kernel_sequences",
    "kernels",
    "layers",
    "level_growth",
    "line_calls",
    "line_steps",
    "lines",
    "loader_batches",
    "loader_bounds",
    "loader_throughput",
    "loader_transforms",
    "loader_workers",
    "loaders",
    "memory",
    "memory_blocks",
    "memory_by",
    "memory_growth",
    "memory_heap",
    "memory_left_behind",
    "memory_live",
    "memory_names",
    "memory_operators",
    "memory_peak",
    "one_time",
    "operator_arguments",
    "operator_work",
    "operators",
    "overhead",
    "overview",
    "phases",
    "roofline",
    "sandwich",
    "slack",
    "step_breakdown",
    "step_trace",
    "steps",
    "thread_time",
    "training",
    "trust",
    "verdict",
    "what_if",
    "why",
]
