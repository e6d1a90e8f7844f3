"""What traces the user's code gives the same in a recording as without one."""

from __future__ import annotations

import copy
import io
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

import notebook_prof as nbp

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

X = torch.ones(2, 16)
Way = Callable[[], Any]
WAYS: list[Way] = []
_ADDRESSES = re.compile(r"___torch_mangle_\d+|0x[0-9a-f]+|\b\d{13,}\b")


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = Inner(), nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.inner(x))


class Items(torch.utils.data.Dataset[Any]):
    """Makes items by a transform that is called as `call` says."""

    def __init__(self, transform: Any, call: Callable[[Any, Any], Any]) -> None:
        self.transform, self.call = transform, call

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return self.call(self.transform, torch.full((16,), float(index)))


def net() -> Any:
    torch.manual_seed(0)
    return Net().eval()


def way(function: Way) -> Way:
    WAYS.append(function)
    return function


class Compiled(list[str]):
    """A back end that keeps the graphs that it is given."""

    def __init__(self) -> None:
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()

    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.append(graph.print_readable(print_output=False))
        return graph.forward

    def result(self, calls: Iterator[Any]) -> Any:
        """What the calls gave, the graphs, and how many frames were compiled for them."""
        return [str(one) for one in calls], list(self), dict(torch._dynamo.utils.counters["frames"])


@way
def jit_trace() -> Any:
    traced = torch.jit.trace(net(), X)
    return traced.inlined_graph, traced(X)


@way
def jit_script() -> Any:
    scripted = torch.jit.script(net())
    return scripted.code, scripted(X)


@way
def compiled_module() -> Any:
    backend = Compiled()
    compiled = torch.compile(net(), backend=backend)
    return backend.result(compiled(X) for _ in range(2))


@way
def compiled_function_with_a_break() -> Any:
    backend, module = Compiled(), net()

    def function(x: Any) -> Any:
        y = module.inner(x)
        torch._dynamo.graph_break()
        return module.head(y)

    compiled = torch.compile(function, backend=backend)
    return backend.result(compiled(X) for _ in range(2))


@way
def compiled_training_step() -> Any:
    backend, module = Compiled(), net().train()
    optimizer = torch.optim.SGD(module.parameters(), 0.1)

    def step() -> Any:
        optimizer.zero_grad()
        loss = module(X).sum()
        loss.backward()
        optimizer.step()
        return loss

    compiled = torch.compile(step, backend=backend)
    return backend.result(compiled() for _ in range(2))[:2]  # a hook is a frame more


@way
def compiled_in_a_dataset() -> Any:
    backend, module = Compiled(), nn.Sequential(nn.Linear(16, 4), nn.ReLU())
    nn.init.ones_(module[0].weight)
    nn.init.ones_(module[0].bias)
    compiled = torch.compile(lambda x: module(x) + 1, backend=backend, fullgraph=True)
    items = Items(module, lambda transform, x: compiled(x).detach())
    return backend.result(iter(torch.utils.data.DataLoader(items, batch_size=2)))


@way
def exported() -> Any:
    sizes = ({0: torch.export.Dim("batch")},)
    return (
        [torch.export.export(net(), (X,), strict=strict) for strict in (True, False)],
        torch.export.export(net(), (torch.ones(3, 16),), dynamic_shapes=sizes, strict=False),
    )


@way
def onnx() -> Any:
    for name in ("onnx", "onnxscript"):
        pytest.importorskip(name)
    file = io.BytesIO()
    torch.onnx.export(net(), (X,), file, dynamo=False)
    return file.getvalue(), torch.onnx.export(net(), (X,), dynamo=True, verbose=False).model_proto.graph


@way
def tensorboard_graph() -> Any:
    pytest.importorskip("tensorboard")
    from torch.utils.tensorboard._pytorch_graph import graph

    return graph(net(), X)[0]


@way
def fake_tensors() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    shapes = ShapeEnv()
    with FakeTensorMode(shape_env=shapes, allow_non_fake_inputs=True) as mode:
        made = net()(torch.ones(2, 16))
        module = nn.Linear(16, 4)
        module.weight = nn.Parameter(mode.from_tensor(torch.ones(7, 16)))
        module.bias = None
        return made, module(X).shape, shapes.guards


@way
def make_fx() -> Any:
    from torch.fx.experimental.proxy_tensor import make_fx

    module = net()
    return [
        make_fx(lambda x: module(x).sum(), tracing_mode=mode, _allow_non_fake_inputs=True)(X).code
        for mode in ("real", "fake", "symbolic")
    ]


@way
def transforms_of_functions() -> Any:
    from torch.func import functional_call, grad, jacrev, stack_module_state

    modules = [net() for _ in range(3)]
    parameters, buffers = stack_module_state(modules)
    base = copy.deepcopy(modules[0]).to("meta")
    weights = {name: one.detach() for name, one in modules[0].named_parameters()}
    return (
        torch.vmap(lambda p, b, x: functional_call(base, (p, b), (x,)), (0, 0, None))(parameters, buffers, X),
        grad(lambda p: functional_call(modules[0], p, (X,)).sum())(weights),
        jacrev(modules[0])(X).sum(),
    )


@way
def fx() -> Any:
    return torch.fx.symbolic_trace(net()).code


@way
def modes_and_subclasses_of_the_users() -> Any:
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    calls: list[str] = []

    def note(function: Any, args: Any, kwargs: Any) -> Any:
        calls.append(getattr(function, "__name__", str(function)))
        return function(*args, **(kwargs or {}))

    class Dispatch(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return note(function, args, kwargs)

    class Function(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return note(function, args, kwargs)

    class Tensor(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append(function.__name__)
            return super().__torch_function__(function, types, args, kwargs or {})

    for mode in (Dispatch(), Function()):
        module = net()
        with mode:
            module(X)
    module = nn.Linear(16, 4)
    module.weight = nn.Parameter(torch.ones(4, 16).as_subclass(Tensor))
    calls.append("subclass")
    module(X)
    return calls


def outcome(function: Way) -> tuple[str, list[tuple[str, str]], str]:
    """The result of a way to trace, its warnings and its output."""
    output = io.StringIO()
    with warnings.catch_warnings(record=True) as caught, redirect_stdout(output), redirect_stderr(output):
        warnings.simplefilter("always")
        result = _ADDRESSES.sub("", str(function()))
    texts = {
        f"{one.category.__name__}: {one.message}" for one in caught if one.category is not ResourceWarning
    }
    return result, sorted(texts), output.getvalue()


@pytest.mark.parametrize("function", WAYS, ids=lambda one: one.__name__)
def test_tracing_is_as_without_a_recording(function: Way) -> None:
    outcome(function)  # some say what they say once only
    bare = outcome(function)
    before = list(sys.meta_path), list(warnings.filters)
    with nbp.profile("torch"):
        recorded = outcome(function)
    assert recorded == bare
    assert (list(sys.meta_path), list(warnings.filters)) == before
    assert outcome(function) == bare


def user_profiles(folder: Path) -> Iterator[tuple[str, str]]:
    """Run a module under profilers of the user's: what each is called, and all that it has recorded."""
    module = net()
    for options in ({}, {"with_stack": True, "with_modules": True}):
        with torch.profiler.profile(**options) as one:
            module(X)
        one.export_chrome_trace(str(folder / "trace.json"))
        yield f"profile {options}", (folder / "trace.json").read_text() + str(one.key_averages())
    with torch.autograd.profiler.profile() as two:
        module(X)
    yield "autograd", str(two.key_averages())
    observer = torch.profiler.ExecutionTraceObserver()
    observer.register_callback(str(folder / "graph.json"))
    observer.start()
    module(X)
    observer.stop()
    observer.unregister_callback()
    yield "observer", (folder / "graph.json").read_text()


def test_the_users_profiler_has_no_range_of_ours(tmp_path: Path) -> None:
    with nbp.profile("torch"):
        net()(X)
        for name, text in user_profiles(tmp_path):
            assert "aten::" in text, name
            assert "nn.Module#" not in text, name
            assert "collectors/torch/" not in text, name
