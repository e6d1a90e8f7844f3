"""Analyses: pure functions from a Trace to a DataFrame, one per file.

They do not draw, format, log, cache or change their input. Times are int64 nanoseconds, memory is
bytes, shares are between 0 and 1. `Profile` has each of them as a method, by topic:
`memory_peak` is ``p.memory.peak``.

Modules are imported on first use: there are a hundred, and a verdict needs half of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from ..formats.mindspore.cluster import cluster_advice as cluster_advice
    from ..formats.mindspore.cluster import cluster_links as cluster_links
    from ..formats.mindspore.cluster import cluster_steps as cluster_steps
    from .advice.advice import advice as advice
    from .critical_path.hops import critical_path_doubts as critical_path_doubts
    from .critical_path.hops import critical_path_hops as critical_path_hops
    from .critical_path.path import critical_path as critical_path
    from .critical_path.replay.answer import WhatIf as WhatIf
    from .critical_path.replay.what_if import critical_path_next as critical_path_next
    from .critical_path.replay.what_if import what_if as what_if
    from .critical_path.why import why as why
    from .device.busy import copies as copies
    from .device.busy import device as device
    from .device.graphs import graph_nodes as graph_nodes
    from .device.idle import device_idle as device_idle
    from .device.idle import idle_causes as idle_causes
    from .device.kernel_launches import kernel_launches as kernel_launches
    from .device.kernels import kernels as kernels
    from .device.roofline import roofline as roofline
    from .distributed.collectives import collectives as collectives
    from .distributed.communication import distributed as distributed
    from .distributed.communication import exposed_collectives as exposed_collectives
    from .input.loader_batches import loader_batches as loader_batches
    from .input.loader_batches import loader_transforms as loader_transforms
    from .input.loader_batches import loader_workers as loader_workers
    from .input.loader_bounds import loader_bounds as loader_bounds
    from .input.loader_bounds import loader_throughput as loader_throughput
    from .input.operators import input_operators as input_operators
    from .input.operators import input_queues as input_queues
    from .input.pipeline import input_pipeline as input_pipeline
    from .input.pipeline import loaders as loaders
    from .memory.blocks import memory_blocks as memory_blocks
    from .memory.blocks import memory_heap as memory_heap
    from .memory.blocks import memory_operators as memory_operators
    from .memory.curve import memory as memory
    from .memory.curve import memory_by as memory_by
    from .memory.curve import memory_live as memory_live
    from .memory.curve import memory_peak as memory_peak
    from .memory.curve import memory_processes as memory_processes
    from .memory.growth import level_growth as level_growth
    from .memory.growth import memory_growth as memory_growth
    from .memory.names import memory_left_behind as memory_left_behind
    from .memory.names import memory_names as memory_names
    from .notebook.cells import cells as cells
    from .notebook.metrics import metrics as metrics
    from .notebook.path import path as path
    from .source.annotated import annotated_source as annotated_source
    from .source.annotated import line_steps as line_steps
    from .source.call_tree import bottom_up as bottom_up
    from .source.call_tree import call_tree as call_tree
    from .source.call_tree import event_log as event_log
    from .source.call_tree import heaviest_stack as heaviest_stack
    from .source.compilations import compilations as compilations
    from .source.compilations import fused_kernels as fused_kernels
    from .source.compilations import graph_breaks as graph_breaks
    from .source.flame import flame as flame
    from .source.flame import sandwich as sandwich
    from .source.hotspots import hotspots as hotspots
    from .source.line_calls import imports as imports
    from .source.line_calls import line_calls as line_calls
    from .source.lines import lines as lines
    from .time.account import account as account
    from .time.cpu import cpu as cpu
    from .time.cpu import cpu_use as cpu_use
    from .time.layers import layers as layers
    from .time.one_time import one_time as one_time
    from .time.operators import calls as calls
    from .time.operators import operator_work as operator_work
    from .time.operators import operators as operators
    from .time.overview import Overview as Overview
    from .time.overview import overview as overview
    from .time.phases import phases as phases
    from .time.step_trace import step_trace as step_trace
    from .time.steps import breakdown as breakdown
    from .time.steps import step_breakdown as step_breakdown
    from .time.steps import steps as steps
    from .time.thread_time import host_waits as host_waits
    from .time.thread_time import thread_time as thread_time
    from .trust.trust import trust as trust
    from .verdict.claims import Claim as Claim
    from .verdict.claims import Verdict as Verdict
    from .verdict.verdict import verdict as verdict
    from .work.arguments import operator_arguments as operator_arguments
    from .work.training import training as training

__all__ = lazy(__name__)
