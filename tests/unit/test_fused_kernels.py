"""What fused kernels were made of: of modules as Inductor writes them, and of one that it really wrote."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import MethodType, ModuleType, SimpleNamespace
from typing import Any

import pytest

import notebook_prof as nbp
from notebook_prof.collectors.torch.fused_kernels import FUSED_KERNELS, put_fused_kernels
from notebook_prof.service.answers.arguments import arguments_of
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.views.tabs.overview import overview

TRITON = """# AOT ID: ['0_inference']
# kernel path: /tmp/torchinductor_me/ab/cab.py
# Topologically Sorted Source Nodes: [relu, h_1], Original ATen: [aten.relu, aten.mul]
# Source node to ATen node mapping:
#   h_1 => mul
#   relu => relu
# Graph fragment:
#   %relu : [num_users=1] = call_function[target=torch.ops.aten.relu.default](args = (%mm,), kwargs = {})
triton_poi_fused_mul_relu_0 = async_compile.triton('triton_poi_fused_mul_relu_0', '''
import triton
''', device_str='cuda')


def call(args):
        # Topologically Sorted Source Nodes: [h], Original ATen: [aten.mm]
        extern_kernels.mm(arg0_1, arg1_1, out=buf0)
        # Topologically Sorted Source Nodes: [relu, h_1], Original ATen: [aten.relu, aten.mul]
        stream0 = get_raw_stream(0)
        triton_poi_fused_mul_relu_0.run(buf1, 1024, stream=stream0)
"""


def node(name: str, target: str, line: int) -> SimpleNamespace:
    file = "/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py"
    library = f'File "{file}", line 9, in forward\n    F.x()'
    trace = f'  File "/home/me/model.py", line {line}, in forward\n    {name} = f({target})\n  {library}\n'
    return SimpleNamespace(op="call_function", name=name, target=target, stack_trace=trace)


@pytest.fixture
def trace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Trace:
    """A recording of a process in which a function of the module `model` was compiled."""
    (tmp_path / "cab.py").write_text(TRITON)
    loaded = SimpleNamespace(__file__=str(tmp_path / "cab.py"))
    gone = SimpleNamespace(__file__=str(tmp_path / "gone.py"))
    cache = SimpleNamespace(PyCodeCache=SimpleNamespace(modules=[gone, loaded]))
    monkeypatch.setitem(sys.modules, "torch._inductor.codecache", cache)

    class GraphModule:
        def named_parameters(self) -> None: ...

    owner: Any = GraphModule()
    nodes = [node(*one) for one in (("h", "matmul", 3), ("relu", "relu", 4), ("h_1", "mul", 5))]
    owner._graph = SimpleNamespace(nodes=nodes)

    def compiled() -> None: ...

    vars(compiled)["named_parameters"] = MethodType(GraphModule.named_parameters, owner)
    model = ModuleType("model")
    vars(model)["__compiled_fn_1_f7b82ebf"] = compiled
    monkeypatch.setitem(sys.modules, "model", model)
    b = TraceBuilder()
    main, stream = b.track("main"), b.track("stream 7", "stream", device=0, stream=7)
    kernel = "triton_poi_fused_mul_relu_0"
    launch = b.slices(ts=0, dur=9, name=kernel, track=main)
    where = {"track": stream, "device": 0, "stream": 7}
    work = b.slices(ts=[5, 30], dur=[20, 20], name=kernel, category="kernel", **where)
    b.flows("launch", launch, work[:1])
    put_fused_kernels(b)
    return b.seal()


def test_a_kernel_opens_into_operators_and_lines(trace: Trace, tmp_path: Path) -> None:
    p = nbp.Profile(trace)
    table = p.compilations.kernels()
    rows = table[["line", "exact", "slices", "total_ns"]].values.tolist()
    assert rows == [[4, True, 2, 40], [5, True, 2, 40]]
    row = int(trace.slices.index[trace.slices["category"] == "kernel"][0])
    arguments = dict(arguments_of(trace, row))
    lines = "/home/me/model.py:4  relu = f(relu); /home/me/model.py:5  h_1 = f(mul)"
    assert (arguments["fused operators"], arguments["fused lines"]) == ("relu, mul", lines)
    panel = overview(trace, {})
    calls = [getattr(part, "call", "") for part in getattr(panel, "parts", ())]
    assert "p.compilations.kernels()" in calls
    p.save(tmp_path / "run.nbprof")
    assert nbp.open_profile(tmp_path / "run.nbprof").compilations.kernels().equals(table)


def test_nothing_is_read_where_nothing_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch._inductor.codecache", raising=False)
    b = TraceBuilder()
    put_fused_kernels(b)
    assert FUSED_KERNELS not in (b.seal().metadata.get("tables") or {})


def shifted(x: Any, w: Any) -> Any:
    h = x @ w
    h = h.relu() * 2
    return h.sin() + h


def test_a_kernel_that_inductor_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    if shutil.which("g++") is None:
        pytest.skip("Inductor needs g++ for kernels of the host")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch.compiler.reset()
    # no compilation to probe vector units, no precompiled header, no process pool
    cheap = {"cpp.simdlen": 1, "cpp_cache_precompile_headers": False, "compile_threads": 1}
    function = torch.compile(shifted)
    with torch._inductor.config.patch(cheap), nbp.profile("torch", memory=False) as p:
        function(torch.ones(8, 8), torch.ones(8, 8))
    table = p.compilations.kernels()
    table = table[table["file"] == str(Path(__file__))]
    first = shifted.__code__.co_firstlineno
    assert table["line"].tolist() == [first + 2, first + 3], "the product is no part of it"
    assert table["exact"].all()
    assert set(table["operators"].iloc[0].split(", ")) == {"add", "mul", "relu", "sin"}
