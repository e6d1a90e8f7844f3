"""Names of torch's memory: modules, optimizers, and what autograd keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from notebook_prof.collectors.system.names.watch import Roots, walk_names

from .test_memory_names import UNBOUNDED

torch = pytest.importorskip("torch")


def buffers(**namespace: Any) -> pd.DataFrame:
    return walk_names(Roots(namespace), UNBOUNDED).buffers.set_index("name")


def test_parameters_gradients_and_state_have_dotted_names() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(30, 20), torch.nn.BatchNorm1d(20))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(5, 30)).sum().backward()
    optimizer.step()
    table = buffers(optimizer=optimizer, model=model)
    kinds = table["kind"].to_dict()
    assert kinds["model.0.weight"] == "parameter"
    assert kinds["model.0.weight.grad"] == "gradient"
    assert kinds["model.1.running_mean"] == "buffer"
    assert kinds["optimizer.state[model.0.weight]['exp_avg']"] == "optimizer"
    assert table.loc["model.0.weight", "bytes"] == 2400
    assert table.loc["model.0.weight", "type"] == "float32[20, 30]"


def test_storages_count_once_and_whole() -> None:
    array = np.zeros(1000)
    base = torch.zeros(1000)
    table = buffers(base=base, part=base[10:20], shared=torch.from_numpy(array[5:]), array=array)
    assert table["bytes"].to_dict() == {"base": 4000, "array": 8000}
    assert table["kept_by"].to_dict() == {"base": "part", "array": "shared"}


def test_sparse_and_meta() -> None:
    table = buffers(sparse=torch.eye(100).to_sparse(), rows=torch.eye(50).to_sparse_csr(),
                    nothing=torch.empty(10, device="meta"))  # fmt: skip
    rows = {"rows.values()": 200, "rows.crow_indices()": 408, "rows.col_indices()": 800}
    assert table["bytes"].to_dict() == {"sparse.indices()": 1600, "sparse.values()": 400, **rows}


def test_saved_for_backward() -> None:
    x = torch.randn(100, 100, requires_grad=True)
    loss = x.exp().sin().sum()  # exp keeps its result, sin its input: the same
    table = buffers(x=x, loss=loss)
    saved = table[table["kind"] == "saved"]
    assert saved["bytes"].tolist() == [40_000]
    assert saved.index.tolist() == ["loss › SinBackward0"]
    loss.backward()
    assert not (buffers(x=x, loss=loss)["kind"] == "saved").any()


def test_hooks_of_saved_tensors_do_not_run() -> None:
    calls = []

    def pack(tensor: Any) -> Any:
        return tensor.clone()

    def unpack(tensor: Any) -> Any:
        calls.append("unpack")
        return tensor

    x = torch.randn(100, 100, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        loss = x.sin().sum()
    table = buffers(loss=loss)
    assert calls == []
    assert table.loc["loss › SinBackward0", "bytes"] == 40_000


def test_checkpoints_are_not_computed_again() -> None:
    from torch.utils.checkpoint import checkpoint

    calls = []

    def block(x: Any) -> Any:
        calls.append("block")
        return x.exp().sin()

    x = torch.randn(100, 100, requires_grad=True)
    loss = checkpoint(block, x * 2, use_reentrant=False).sum()
    table = buffers(loss=loss)
    assert calls == ["block"]
    assert (table["bytes"] == 40_000).any(), "the input of the checkpoint"


def test_what_a_function_puts_on_its_context() -> None:
    class Keeps(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.extra = torch.ones(777)
            ctx.save_for_backward(x + 1)
            return x * 1

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient

    table = buffers(loss=Keeps.apply(torch.ones(10, requires_grad=True)).sum())
    assert table.loc["loss › KeepsBackward.extra", "bytes"] == 777 * 4
    assert table.loc["loss › KeepsBackward", "bytes"] == 40


def test_tensors_with_code_of_their_own_are_not_asked() -> None:
    calls = []

    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, *args: Any, **kwargs: Any) -> Any:
            calls.append("function")
            return super().__torch_function__(*args, **kwargs)

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner: Any) -> Any:
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, *args: Any, **kwargs: Any) -> Any:
            calls.append("dispatch")
            raise NotImplementedError

    loud, wrapper = torch.zeros(100).as_subclass(Loud), Wrapper(torch.zeros(200))
    calls.clear()
    table = buffers(loud=loud, wrapper=wrapper)
    assert calls == []
    assert table["bytes"].to_dict() == {"loud": 400, "wrapper.inner": 800}


def test_modes_do_not_see_the_walk() -> None:
    from torch.overrides import TorchFunctionMode

    calls = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, function: Any, *args: Any, **kwargs: Any) -> Any:
            calls.append(function)
            return function(*args[1], **kwargs)

    x = torch.zeros(100)
    with Mode():
        calls.clear()
        table = buffers(x=x)
        assert calls == []
    assert table["bytes"].to_dict() == {"x": 400}
