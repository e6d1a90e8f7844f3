"""What the methods of a Profile are called that are functions of this package under another name."""

from __future__ import annotations

from typing import Final

ADDED: Final = {
    "annotated_source": "lines.source",
    "line_steps": "lines.steps",
    "memory_names": "memory.names",
    "memory_left_behind": "memory.left_behind",
    "critical_path_hops": "critical_path.hops",
    "critical_path_next": "critical_path.next",
    "critical_path_spans": "critical_path.spans",
    "critical_path_doubts": "critical_path.doubts",
    "graph_breaks": "compilations.graph_breaks",
    "operator_arguments": "operators.arguments",
    "fused_kernels": "compilations.kernels",
    "exposed_collectives": "distributed.exposed",
    "kernel_sequences": "device.sequences",
}
"""Those that came after the namespaces: no method of a Profile ever had their name."""

METHODS: Final = {
    **ADDED,
    "memory_peak": "memory.peak",
    "memory_live": "memory.live",
    "memory_by": "memory.by",
    "memory_growth": "memory.growth",
    "memory_heap": "memory.heap",
    "level_growth": "memory.level_growth",
    "memory_blocks": "memory.blocks",
    "memory_operators": "memory.operators",
    "step_breakdown": "steps.breakdown",
    "step_trace": "steps.trace",
    "one_time": "steps.one_time",
    "overhead": "steps.overhead",
    "input_pipeline": "input.pipeline",
    "input_queues": "input.queues",
    "input_operators": "input.operators",
    "loaders": "input.loaders",
    "loader_workers": "input.workers",
    "loader_transforms": "input.transforms",
    "loader_batches": "input.batches",
    "loader_bounds": "input.bounds",
    "loader_throughput": "input.throughput",
    "device_idle": "device.idle",
    "idle_causes": "device.idle_causes",
    "kernel_launches": "device.launches",
    "copies": "device.copies",
    "graph_nodes": "device.graph_nodes",
    "roofline": "device.roofline",
    "kernel_origins": "kernels.origins",
    "operator_work": "operators.work",
    "calls": "operators.calls",
    "line_calls": "lines.calls",
    "imports": "lines.imports",
    "cpu_use": "cpu.use",
    "thread_time": "cpu.states",
    "host_waits": "cpu.waits",
    "breakdown": "distributed.breakdown",
    "collectives": "distributed.collectives",
    "cluster_steps": "mindspore.cluster_steps",
    "cluster_links": "mindspore.cluster_links",
    "cluster_advice": "mindspore.cluster_advice",
}
"""Function → dotted name of the method; those left out are methods of the same name."""
