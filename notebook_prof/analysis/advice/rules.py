"""Rules of `advice`: each looks at the measured run and gives a Finding, or None."""

from .arrays import RULES as ARRAY_RULES
from .concurrency import pool_overhead, threads_take_turns
from .copies import pageable_copies, sync_points
from .device_use import low_occupancy, tensor_cores_unused
from .finding import Finding, Run
from .host_overhead import launch_bound, small_operators, unfused_optimizer
from .keeping import fragmented_memory, memory_growth_rule, near_full_memory, small_allocations
from .loading import input_bound, items_one_by_one, loader_workers
from .waiting import communication_exposed

RULES = (
    input_bound,
    loader_workers,
    items_one_by_one,
    communication_exposed,
    launch_bound,
    unfused_optimizer,
    sync_points,
    pageable_copies,
    low_occupancy,
    tensor_cores_unused,
    *ARRAY_RULES,
    threads_take_turns,
    pool_overhead,
    memory_growth_rule,
    near_full_memory,
    fragmented_memory,
    small_allocations,
)

__all__ = ["RULES", "Finding", "Run", "small_operators"]
