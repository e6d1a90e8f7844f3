"""Rules of `advice`: each looks at the measured run and gives a Finding, or None."""

from .copies import pageable_copies, sync_points
from .device_use import low_occupancy, tensor_cores_unused
from .finding import Finding, Run
from .host_overhead import launch_bound, small_operators, unfused_optimizer
from .keeping import fragmented_memory, memory_growth_rule, near_full_memory, small_allocations
from .starting import compilation, warm_up
from .waiting import communication_exposed, input_bound, loader_workers

RULES = (
    input_bound,
    loader_workers,
    communication_exposed,
    launch_bound,
    small_operators,
    unfused_optimizer,
    sync_points,
    pageable_copies,
    low_occupancy,
    tensor_cores_unused,
    memory_growth_rule,
    near_full_memory,
    fragmented_memory,
    small_allocations,
    compilation,
    warm_up,
)

__all__ = ["RULES", "Finding", "Run"]
