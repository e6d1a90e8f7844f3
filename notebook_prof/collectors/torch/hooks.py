"""Where steps end in code that cannot be edited: after the optimizer, or when a batch is asked for."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any

from .tracing import compilations

Tick = Callable[[], None]
Remove = Callable[[], None]


def optimizer_ticks(callback: Callable[[Any], None]) -> Remove:
    """Call `callback` after every step of every optimizer, by torch's public global hook.

    Parameters
    ----------
    callback : callable
        Called with the optimizer, in the thread of the step. What it raises reaches the user's code.

    Returns
    -------
    callable
        Takes the hook away; calling it twice does nothing.

    Raises
    ------
    ImportError
        If torch cannot be imported.
    """
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        __tracebackhide__ = True
        callback(optimizer)

    handle = register_optimizer_step_post_hook(after_step)
    registered = handle.hooks_dict_ref()

    def leave_alone() -> None:  # TorchDynamo would trace the hook, and warn of what it cannot trace
        if registered is not None and registered.get(handle.id) is after_step:
            registered[handle.id] = sys.modules["torch._dynamo"].disable(after_step)

    def remove() -> None:
        compilations.drop(handle)
        handle.remove()

    compilations.add(handle, leave_alone, lambda: None)
    return remove


def dataloader_ticks(callback: Tick) -> Remove:
    """Call `callback` when a DataLoader's iterator is asked for the next batch, except for its first.

    At that moment the step that used the batch before has ended; the end of the data counts too. This
    patches a private class (``_BaseDataLoaderIter``), so it is used only when asked for.

    Parameters
    ----------
    callback : callable
        Called without arguments, in the iterating thread. What it raises reaches the user's code.

    Returns
    -------
    callable
        Puts the original method back; calling it twice does nothing.

    Raises
    ------
    ImportError
        If torch cannot be imported.
    """
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
