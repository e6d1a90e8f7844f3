"""Finds torch's tensors, modules and optimizers, and everything that autograd keeps for the backward pass."""

from __future__ import annotations

import sys
from collections import deque
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import GetSetDescriptorType
from typing import Any, Final

from .buffers import (
    HOST,
    AttributeGetters,
    derives,
    fields_of,
    mro,
    referents,
    type_dict,
    type_module,
    type_name,
)
from .walk import Plan, Walk

PARAMETER, GRADIENT, BUFFER, OPTIMIZER, SAVED, TENSOR = (
    "parameter", "gradient", "buffer", "optimizer", "saved", "tensor",
)  # fmt: skip
_MANY: Final = 32


class TorchObjects:
    """Handles the types of torch, if it is imported."""

    # `left` counts the functions of autograd's graph that were not reached, and `unread` the saved tensors
    # that this torch cannot show without unpacking them.
    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self.unread = self.left = 0
        torch = sys.modules.get("torch")
        # missing while another thread is importing torch
        self._tensor_base: Any = getattr(getattr(torch, "_C", None), "TensorBase", None)
        self._roots: list[tuple[Any, str]] = []
        self._getters: dict[int, tuple[type, tuple[Any, ...]]] = {}
        if self._tensor_base is None:
            return
        self._function = torch._C._FunctionBase  # type: ignore[union-attr]
        self._storage = torch._C.StorageBase  # type: ignore[union-attr]
        self._parameter, self._module, self._optimizer, self._tensor_type = (
            getattr(sys.modules.get(module), name, None)
            for module, name in (
                ("torch.nn.parameter", "Parameter"),
                ("torch.nn.modules.module", "Module"),
                ("torch.optim.optimizer", "Optimizer"),
                ("torch", "Tensor"),
            )
        )
        own = type_dict(self._tensor_base)
        names = ("is_leaf", "grad", "grad_fn", "dtype", "shape", "layout")
        self._get = {name: own[name].__get__ for name in names}

    def quiet(self) -> AbstractContextManager[Any]:
        """Return a context in which neither ``__torch_function__`` nor any mode runs."""
        guard = getattr(getattr(sys.modules.get("torch"), "_C", None), "DisableTorchFunction", None)
        return nullcontext() if self._tensor_base is None or guard is None else guard()

    def is_module(self, obj: object) -> bool:
        return self._tensor_base is not None and derives(type(obj), self._module)

    def plan(self, cls: type) -> Plan | None:
        """Return a function that visits instances; None for types of other libraries."""
        if self._tensor_base is None:
            return None
        if derives(cls, self._tensor_base):
            fields = fields_of(cls, self._tensor_type, self._parameter)
            return partial(self._tensor, fields, _dispatches(mro(cls)))
        if derives(cls, self._module):
            return partial(self._parts, fields_of(cls))
        if derives(cls, self._optimizer):
            return partial(self._state, fields_of(cls))
        if derives(cls, self._storage):
            return partial(self._add_storage, "")
        if type_name(cls) == "SavedTensor" and type_module(cls).startswith("torch."):
            return self._saved
        return None

    def _tensor(self, fields: AttributeGetters, dispatches: bool, obj: Any, name: str, kind: str) -> None:
        walk, get = self._walk, self._get
        walk.label_of[id(obj)] = name
        if derives(type(obj), self._parameter):
            kind = PARAMETER
        if not dispatches:  # otherwise, reading any attribute may run user code; its parts are tensors
            self._add_elements(obj, name, kind or TENSOR)
        if get["is_leaf"](obj):
            gradient = get["grad"](obj)  # only for leaves, since other tensors would warn
            if gradient is not None:
                walk.add(gradient, f"{name}.grad", GRADIENT)
        else:
            self._roots.append((obj, name))
        if fields and referents(obj):
            walk.attributes(fields, obj, name, kind)
        elif not fields:
            for one in referents(obj):  # attributes that were set on the tensor
                if type(one) is dict:
                    walk.add(one, name, kind)

    def _add_elements(self, obj: Any, name: str, kind: str) -> None:
        get = self._get
        layout = str(get["layout"](obj))
        if layout == "torch.strided":
            storage = self._tensor_base.untyped_storage(obj)
            self._add_storage(self._text(obj), storage, name, kind)
            return
        parts: tuple[str, ...] = ("_values", "_indices") if layout == "torch.sparse_coo" else ()
        if layout in ("torch.sparse_csr", "torch.sparse_bsr"):
            parts = ("values", "crow_indices", "col_indices")
        elif layout in ("torch.sparse_csc", "torch.sparse_bsc"):
            parts = ("values", "ccol_indices", "row_indices")
        for part in parts:
            self._walk.add(getattr(self._tensor_base, part)(obj), f"{name}.{part.strip('_')}()", kind)

    def _add_storage(self, text: str, storage: Any, name: str, kind: str) -> None:
        address = storage.data_ptr()  # the address is 0 on the meta device
        if address:
            device = storage.device
            number = HOST if device.type == "cpu" else device.index or 0
            log, size = self._walk.log, storage.nbytes()
            log.add(address, size, name, kind or TENSOR, device=number, text=text)

    def _parts(self, fields: AttributeGetters, obj: Any, name: str, kind: str) -> None:
        """Queue the parts of a module by their dotted names."""
        walk = self._walk
        for attribute, value in fields.values(obj):
            inner = {"_parameters": PARAMETER, "_buffers": BUFFER, "_modules": ""}.get(attribute)
            if inner is not None and derives(type(value), dict):
                for key, part in list(dict.items(value)):
                    if part is not None and type(key) is str:
                        walk.add(part, walk.longer(name, f".{key}"), inner)
            else:
                walk.add(value, walk.longer(name, f".{attribute}"), kind)

    def _state(self, fields: AttributeGetters, obj: Any, name: str, kind: str) -> None:
        self._walk.attributes(fields, obj, name, OPTIMIZER)

    # autograd's graph

    def follow_graphs(self) -> None:
        """Add everything that autograd keeps for the backward pass, starting from every visited tensor."""
        # hooks of saved tensors (checkpoints, offloading) are never run, but the objects that they keep are
        # followed
        visited: dict[int, Any] = {}
        while self._roots and not self._walk.over:
            queue = deque(
                (node, name) for obj, name in self._roots if (node := self._get["grad_fn"](obj)) is not None
            )
            self._roots.clear()
            with self._walk.timed():
                self._visit(queue, visited)
            self._walk.run()

    def _visit(self, queue: deque[tuple[Any, str]], visited: dict[int, Any]) -> None:
        while queue:
            if not len(visited) % _MANY and self._walk.over:
                self.left += len(queue)
                return
            node, name = queue.popleft()
            if id(node) in visited:
                continue
            visited[id(node)] = node
            try:
                queue.extend((one, name) for one in self._look_at(node, name))
            except RuntimeError:  # another thread is freeing the graph
                continue

    def _look_at(self, node: Any, name: str) -> list[Any]:
        """Queue the objects that a function of the graph has saved. Returns the preceding functions."""
        cls = type(node)
        cached = self._getters.get(id(cls))
        if cached is None:
            cached = self._getters[id(cls)] = cls, _graph_getters(cls)
        before, saved = cached[1]
        label = self._walk.longer(name, f" › {type_name(cls)}")
        for get in saved:
            try:
                values = get(node)
            except RuntimeError:  # the backward pass has freed it
                continue
            for one in values if type(values) in (list, tuple) else (values,):
                if one is not None:
                    self._saved(one, label, SAVED)
        if derives(cls, self._function):  # attributes that a user's Function has set on its ctx
            self._walk.attributes(fields_of(cls), node, label, SAVED)
        return [] if before is None else [one for one, _ in before(node) if one is not None]

    def _saved(self, obj: Any, name: str, kind: str) -> None:
        """Add a SavedTensor of a function of the graph, or in a frame of ``torch.utils.checkpoint``."""
        if not hasattr(type(obj), "data"):
            self.unread += 1
            return
        hook, data = obj.unpack_hook, obj.data
        if hook is not None:
            self._walk.add(data, name, SAVED)
            self._walk.add(hook, name, SAVED)
            return
        if data is None or _dispatches(mro(type(data))):
            return
        storage = self._tensor_base.untyped_storage(data)
        self._add_storage(self._text(data), storage, name, SAVED)

    def _text(self, obj: Any) -> str:
        return f"{str(self._get['dtype'](obj)).removeprefix('torch.')}{list(self._get['shape'](obj))}"


def _graph_getters(cls: type) -> tuple[Any, tuple[Any, ...]]:
    """Return the getters of a graph function's predecessors and of its saved values."""
    before, saved = None, {}
    for base in mro(cls):
        for name, value in type_dict(base).items():
            if type(value) is not GetSetDescriptorType:
                continue
            if name == "next_functions" and before is None:
                before = value.__get__
            elif name.startswith("_raw_saved_") and name not in saved:
                saved[name] = value.__get__
    return before, tuple(saved.values())


def _dispatches(bases: tuple[type, ...]) -> bool:
    """Return whether a tensor type handles operators in Python code."""
    for base in bases:
        if type_module(base) == "torch" and type_name(base) == "Tensor":
            return False
        if "__torch_dispatch__" in type_dict(base):
            return True
    return False
