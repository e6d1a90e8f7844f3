"""Hooks that find the ends of steps in code that cannot be rewritten: optimizer steps, batch requests."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any

from .tracing import compilations

Tick = Callable[[], None]
Remove = Callable[[], None]


def optimizer_ticks(callback: Callable[[Any], None]) -> Remove:
    """Call `callback(optimizer)` after each optimizer step, through torch's public global hook."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        __tracebackhide__ = True
        callback(optimizer)

    handle = register_optimizer_step_post_hook(after_step)
    registered = handle.hooks_dict_ref()

    def leave_alone() -> None:  # TorchDynamo would trace the hook, and warn about parts that it cannot trace
        if registered is not None and registered.get(handle.id) is after_step:
            registered[handle.id] = sys.modules["torch._dynamo"].disable(after_step)

    def remove() -> None:
        compilations.drop(handle)
        handle.remove()

    compilations.add(handle, leave_alone, lambda: None)
    return remove


def dataloader_ticks(callback: Tick) -> Remove:
    """Call `callback` when any batch but the first is requested from a DataLoader iterator."""
    # At that moment, the step that used the previous batch has ended. The last step ends at the end of the
    # data. This patches a private class, so it is used only on request.
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    original = _BaseDataLoaderIter.__next__
    used: weakref.WeakSet[Any] = weakref.WeakSet()

    def fetch(self: Any) -> Any:
        if self in used:
            callback()
        batch = original(self)
        used.add(self)
        return batch

    _BaseDataLoaderIter.__next__ = fetch

    def remove() -> None:
        if _BaseDataLoaderIter.__next__ is fetch:
            _BaseDataLoaderIter.__next__ = original

    return remove
