"""Hooks in torch: ranges around calls of modules, and the ends of steps by optimizers and DataLoaders."""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

from ...trace.taxonomy import EVALUATION_SUFFIX, MODULE_PREFIX
from ..patches import Patches
from .tracing import compilations, never_compile, traces

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


def dataloader_ticks(callback: Callable[[], None]) -> Remove:
    """Call `callback` when any batch but the first is requested from a DataLoader iterator."""
    # At that moment, the step that used the previous batch has ended. The last step ends at the end of the
    # data. This patches a private class, so it is used only on request.
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    used: weakref.WeakSet[Any] = weakref.WeakSet()

    def make(original: Any) -> Any:
        def fetch(self: Any) -> Any:
            if self in used:
                callback()
            batch = original(self)
            used.add(self)
            return batch

        return fetch

    patches = Patches()
    patches.replace(_BaseDataLoaderIter, "__next__", make)
    return patches.restore


COUNTS: Final = ("module", "parameters", "parameter_bytes", "class")

Names = dict[int, str]


def parameter_counts(root: Any, names: Names) -> dict[str, tuple[int, int, str]]:
    """Return number and bytes of direct parameters (without those of children), and the class, by module."""
    # a parameter shared by several modules is counted in the first of them
    rows: dict[str, tuple[int, int, str]] = {}
    counted: set[int] = set()
    with sys.modules["torch"]._C.DisableTorchFunction():  # hides this from the user's modes and subclasses
        for module in root.modules():
            count = size = 0
            for parameter in getattr(module, "_parameters", {}).values():
                if parameter is None or id(parameter) in counted:
                    continue
                counted.add(id(parameter))
                try:
                    own, width = parameter.numel(), parameter.element_size()
                except (AttributeError, RuntimeError, TypeError, ValueError):
                    continue  # a lazy module's parameter has no size yet
                if type(own) is not int:  # a symbol: int() would add a guard
                    continue
                count, size = count + own, size + own * width
            if (name := names.get(id(module))) is not None:
                rows.setdefault(name.removeprefix(MODULE_PREFIX), (count, size, type(module).__name__))
    return rows


_HAS_ANY: Final = "_has_any_global_hook"


first_forward: Final = SimpleNamespace(ns=0)
"""When a module in training was first called since `ns` was set to 0, in Unix ns; 0 before that call.

Set by the hooks of `ModuleRanges`, and reset by the step counter.
"""


class ModuleRanges:
    """Global forward hooks that open a profiler range for each module call."""

    # A module is named by its path in the outermost called module (``features.0``), and the outermost one by
    # its class. A module that is called alone later, for example by checkpointing, keeps its path, even in a
    # new container of known modules such as ``model[:3]``. If two outermost modules contain the same path,
    # the later one's paths start with its class (``Discriminator.main.0``). The name of an outermost module's
    # range has a suffix if it is in eval mode or runs without gradients. The hooks do nothing while something
    # traces, and are removed while TorchDynamo compiles: it would inline them, and recompile when they are
    # gone.
    def __init__(self, torch: Any) -> None:
        self.counts: dict[str, tuple[int, int, str]] = {}  # `parameter_counts` of all modules
        self._hooks = torch.nn.modules.module
        self._open: Callable[[str], Any] = torch._C._profiler._RecordFunctionFast
        self._grad_enabled: Callable[[], bool] = torch.is_grad_enabled
        self._compiling, self._tracing = traces(torch)
        self.failure = ""  # the first error of a hook
        kind = type(self)
        never_compile(
            torch, kind._begin_call, kind._end_call, kind._guarded, kind._begin, kind._end, self._tracing
        )
        self._local = threading.local()
        self._cache: dict[int, tuple[weakref.ref[Any], Names]] = {}
        self._owner: dict[str, int] = {}
        self._containers: dict[tuple[type, tuple[int, ...]], str] = {}
        self._handles: list[Any] = []
        self._has_any: Callable[[], object] | None = None

    def install(self) -> None:
        """Start opening ranges. A second call does nothing."""
        if self._handles:
            return
        self._hook()
        compilations.add(self, self._unhook, self._hook)
        self._has_any = getattr(self._hooks, _HAS_ANY, None)
        if self._has_any is not None:
            setattr(self._hooks, _HAS_ANY, self._others_hook)

    def remove(self) -> None:
        """Remove the hooks and close this thread's open ranges."""
        if self._has_any is not None and getattr(self._hooks, _HAS_ANY) == self._others_hook:
            setattr(self._hooks, _HAS_ANY, self._has_any)
        self._has_any = None
        compilations.drop(self)
        self._unhook()
        opened = getattr(self._local, "opened", None)
        while opened:
            opened.pop()[1].__exit__(None, None, None)
        self._cache.clear()
        self._owner.clear()
        self._containers.clear()

    def _hook(self) -> None:
        if self._handles:
            return
        hooks = self._hooks
        self._handles.append(hooks.register_module_forward_pre_hook(self._begin_call))
        self._handles.append(hooks.register_module_forward_hook(self._end_call, always_call=True))

    def _unhook(self) -> None:
        while self._handles:
            self._handles.pop().remove()

    def _others_hook(self) -> bool:
        """Return whether there are other global hooks, about which torch warns for compiled modules."""
        ours = {handle.id for handle in self._handles}
        tables = [value for name, value in vars(self._hooks).items() if name.startswith("_global_")]
        return any(table.keys() - ours for table in tables if isinstance(table, dict))

    def _begin_call(self, module: Any, inputs: Any) -> None:
        self._guarded(self._begin, module)

    def _end_call(self, module: Any, inputs: Any, output: Any) -> None:
        self._guarded(self._end, module)

    def _guarded(self, hook: Callable[[Any], None], module: Any) -> None:
        """Call a hook. After an error, as with an unknown version of torch, calls continue without ranges."""
        if self._compiling() or self.failure:
            return
        try:
            hook(module)
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"

    def _begin(self, module: Any) -> None:
        if self._tracing() or type(module).__name__ == "OptimizedModule":
            return
        local = self._local
        opened = getattr(local, "opened", None)
        if opened is None:
            opened = local.opened = []
        if opened:
            name = local.names.get(id(module)) or MODULE_PREFIX + type(module).__name__
        else:
            local.names = self._names(module)
            name = local.names[id(module)]
            if not (module.training and self._grad_enabled()):
                name += EVALUATION_SUFFIX
            elif not first_forward.ns:
                first_forward.ns = time.time_ns()
        span = self._open(name)
        span.__enter__()
        opened.append((module, span))

    def _end(self, module: Any) -> None:
        opened = getattr(self._local, "opened", None)
        if not opened:
            return
        inner, span = opened[-1]
        if self._tracing():  # a nested call of a module that is already open
            return
        if inner is module:
            opened.pop()
            span.__exit__(None, None, None)
        elif any(entry[0] is module for entry in opened):  # an exception skipped the hooks of inner modules
            while inner is not module:
                inner, span = opened.pop()
                span.__exit__(None, None, None)

    def _names(self, root: Any) -> Names:
        entry = self._cache.get(id(root))
        if entry is not None and entry[0]() is root:
            return entry[1]
        kind = type(root).__name__
        parts = type(root), tuple(id(child) for child in root.children())
        if parts[1] and all(self._is_named(child) for child in root.modules() if child is not root):
            return self._container(root, parts)
        paths = [(id(child), path) for path, child in root.named_modules()]
        is_shared = any(self._owner.get(path or kind, id(root)) != id(root) for _, path in paths)
        prefix = self._free_prefix(kind) if is_shared else ""
        names: Names = {}
        for number, path in paths:
            full = f"{prefix}.{path}" if prefix and path else prefix or path or kind
            self._owner.setdefault(full, id(root))
            names[number] = MODULE_PREFIX + full
        for child in root.modules():
            self._cache[id(child)] = (weakref.ref(child), names)
        self._containers[parts] = names[id(root)]
        self._count(root, names)
        return names

    def _count(self, root: Any, names: Names) -> None:
        for name, row in parameter_counts(root, names).items():
            self.counts.setdefault(name, row)

    def _is_named(self, module: Any) -> bool:
        entry = self._cache.get(id(module))
        return entry is not None and entry[0]() is module

    def _container(self, root: Any, parts: tuple[type, tuple[int, ...]]) -> Names:
        """Name a new container of known modules, such as ``model[:3]``. The modules keep their names."""
        names = {
            id(child): self._cache[id(child)][1][id(child)] for child in root.modules() if child is not root
        }
        names[id(root)] = self._containers.setdefault(parts, MODULE_PREFIX + type(root).__name__)
        self._cache[id(root)] = (weakref.ref(root), names)
        self._count(root, names)
        return names

    def _free_prefix(self, kind: str) -> str:
        number, prefix = 1, kind
        while prefix in self._owner:
            number += 1
            prefix = f"{kind}_{number}"
        return prefix
