"""The options of collectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal, get_args

from ..errors import OptionError, nearest

PythonMode = Literal["sample", "calls"]
EngineName = Literal["auto", "py-spy", "thread"]
GONE: Mapping[str, str] = {"alarm": "its signals interrupted calls into C; use 'thread'"}
"""Removed engines, with the reason and their replacement."""


@dataclass(frozen=True, slots=True)
class CollectorOptions:
    """The options of collectors. Each collector reads those that concern it.

    Attributes
    ----------
    shapes : bool or None
        Input shapes of operators (torch). They make stopping and building the table two to three times
        slower. None records them, unless an earlier recording of the same cell took longer to stop than the
        cell ran.
    memory : bool
        Allocations and frees with their addresses (torch).
    modules : bool
        One slice for every call of a module, named by its attribute path (torch).
    stack : bool
        Python function calls beside the operators (torch); ×1.1 on large operators, ×2 on tiny ones.
    python : {"sample", "calls"} or None
        How the `python` collector works: it samples lines, or traces every call. ``None`` lets it choose.
    min_duration_ns : int
        Shorter Python calls are dropped.
    devices : tuple of int or None
        Keep device work, memory and counters of these GPUs only; None for all. `jax` keeps all work.
    pcie : bool
        PCIe throughput too (nvml). Each reading keeps the collector's thread busy for 20 ms.
    engine : {"auto", "py-spy", "thread"}
        The sampler of Python stacks: py-spy, from outside the process, or a thread inside it. ``auto`` uses
        py-spy if that may read this process, and the thread until it has attached. ``py-spy`` waits for it.
    heap : bool
        Record which code had allocated the host's heap at its peak, and what is kept.
    children : str
        A folder in which child processes write traces of ``torch.profiler``: those that appear there during
        the recording become tracks of it. Empty for none.

    Raises
    ------
    OptionError
        For an unknown `python` mode or engine, a negative duration, no device or a negative one, or `heap`
        together with `stack` or ``python="calls"``: each needs the interpreter's profile function.

    Examples
    --------
    >>> CollectorOptions(stack=True).shapes
    True
    """

    shapes: bool | None = True
    memory: bool = True
    modules: bool = True
    stack: bool = False
    python: PythonMode | None = None
    min_duration_ns: int = 0
    devices: tuple[int, ...] | None = None
    pcie: bool = False
    engine: EngineName = "auto"
    heap: bool = False
    children: str = ""

    def __post_init__(self) -> None:
        modes = get_args(PythonMode)
        if self.python is not None and self.python not in modes:
            raise OptionError(
                f"python={self.python!r} is not a way to record: {nearest(str(self.python), modes)}"
            )
        engines = get_args(EngineName)
        if self.engine not in engines:
            known = nearest(str(self.engine), engines)
            raise OptionError(f"engine={self.engine!r} is not an engine: {GONE.get(self.engine, known)}")
        if self.devices is not None and (not self.devices or min(self.devices) < 0):
            raise OptionError(f"devices={self.devices!r}: give numbers of GPUs from 0, as in (0, 1)")
        if self.heap and (self.stack or self.python == "calls"):
            other = "stack" if self.stack else "python='calls'"
            raise OptionError(
                f"heap and {other} were both given: each needs the interpreter's profile function; "
                "record twice"
            )
        if self.min_duration_ns < 0:
            raise OptionError(
                f"min_duration_ns={self.min_duration_ns} is negative; give nanoseconds, 0 for all"
            )

    @property
    def unusual(self) -> str:
        """The options that differ from the defaults, for example ``stack=True python='calls'``."""
        values = [(field.name, getattr(self, field.name), field.default) for field in fields(self)]
        return " ".join(
            f"{name}={value!r}" for name, value, usual in values if value is not None and value != usual
        )
