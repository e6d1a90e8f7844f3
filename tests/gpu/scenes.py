"""What is run on a card: small pieces of work of every library, for tests and for the benchmark.

Each scene is made once, which allocates and warms up, and gives a body that can be run again and again and
ends with the device idle.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from notebook_prof.optional import installed

Body = Callable[[], object]

ELEMENTWISE: Final = 50
"""Additions in the CuPy scenes, each one kernel named ``cupy_add__…``."""
REPLAYS, IN_GRAPH = 5, 8
COPY_BYTES: Final = 64 << 20
COPIES: Final = 8
LEAK_BYTES: Final = 1 << 20
REHEARSAL: Final = "NBP_GPU_REHEARSAL"
"""Set by ``benchmarks.gpu --rehearse``: torch need not be imported to see that it has no GPU."""
JAX_ON_GPUS: Final = ("jax_cuda12_plugin", "jax_cuda13_plugin")


@dataclass(frozen=True)
class Scene:
    """A piece of work."""

    name: str
    needs: tuple[str, ...]
    make: Callable[[str], Body]
    collectors: tuple[str, ...] = ("torch",)

    def missing(self, device: str = "cuda", more: tuple[str, ...] = ()) -> str:
        """Return why it cannot be run here, with `more` libraries; empty if it can. JAX is not imported."""
        needs = {*self.needs, *more}
        if absent := sorted(library for library in needs if not installed(library)):
            return f"{', '.join(absent)} not installed"
        if device == "cpu":
            return ""
        if "jax" in needs and not any(map(installed, JAX_ON_GPUS)):
            return "the installed JAX has no GPU backend"
        if "numba" in needs and "NUMBA_ENABLE_CUDASIM" in os.environ:
            return "Numba's simulator launches no kernels"
        if "torch" in needs and REHEARSAL in os.environ:
            return "a rehearsal has no GPU for torch"
        if "torch" in needs:
            import torch

            return "" if torch.cuda.is_available() else "the installed torch cannot use the GPU"
        return ""


def _settle(device: str) -> None:
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def cnn(device: str = "cuda", steps: int = 5) -> Body:
    """Training steps of three convolutions."""
    import torch
    from torch import nn

    layers: list[nn.Module] = []
    for before, after in ((3, 32), (32, 64), (64, 64)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 8 * 8, 10)).to(device)
    images, labels = torch.randn(32, 3, 64, 64, device=device), torch.randint(0, 10, (32,), device=device)
    return _training(model, images, labels, steps, device)


def transformer(device: str = "cuda", steps: int = 5) -> Body:
    """Training steps of a small encoder."""
    import torch
    from torch import nn

    layer = nn.TransformerEncoderLayer(256, 4, 512, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Flatten(), nn.Linear(64 * 256, 10)).to(device)
    words, labels = torch.randn(8, 64, 256, device=device), torch.randint(0, 10, (8,), device=device)
    return _training(model, words, labels, steps, device)


def _training(model: Any, inputs: Any, labels: Any, steps: int, device: str) -> Body:
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def body() -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
        _settle(device)

    body()
    return body


def graph(device: str = "cuda") -> Body:
    """A captured graph of in-place additions, replayed; the host just adds."""
    import torch

    x = torch.ones(1 << 16, device=device)

    def replay() -> None:
        for _ in range(IN_GRAPH):
            x.add_(1)

    if device == "cuda":
        captured = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(captured):
            replay()
        replay = captured.replay

    def body() -> None:
        for _ in range(REPLAYS):
            replay()
        _settle(device)

    body()
    return body


def two_streams(device: str = "cuda") -> Body:
    """The same work on two streams, one of high priority."""
    import torch

    x = torch.ones(1 << 24, device=device)
    streams = [torch.cuda.Stream(), torch.cuda.Stream(priority=-1)] if device == "cuda" else [None, None]

    def body() -> None:
        for stream in streams:
            with torch.cuda.stream(stream):
                torch.relu(x)
        _settle(device)

    body()
    return body


def copies(device: str = "cuda") -> Body:
    """Copies to the device from pinned and from pageable memory, and back."""
    import torch

    pageable = torch.ones(COPY_BYTES, dtype=torch.uint8)
    pinned = pageable.pin_memory() if device == "cuda" else pageable.clone()
    target = torch.empty(COPY_BYTES, dtype=torch.uint8, device=device)

    def body() -> None:
        for _ in range(COPIES):
            target.copy_(pinned, non_blocking=True)
            target.copy_(pageable)
            pinned.copy_(target, non_blocking=True)
        _settle(device)

    body()
    return body


def growth(device: str = "cuda", steps: int = 8) -> Body:
    """Steps that each keep a mebibyte."""
    import torch

    import notebook_prof as nbp

    kept: list[Any] = []

    def body() -> None:
        for _ in nbp.steps(range(steps)):
            kept.append(torch.ones(LEAK_BYTES // 4, device=device))
            torch.relu(kept[-1])
        _settle(device)

    body()
    return body


def cupy_mix(device: str = "cuda") -> Body:
    """CuPy: additions, a matrix product and a Fourier transform."""
    import cupy

    x = cupy.ones(1 << 20, dtype=cupy.float32)
    a = cupy.ones((1024, 1024), dtype=cupy.float32)

    def body() -> None:
        for _ in range(ELEMENTWISE):
            x + x
        a @ a
        cupy.fft.fft(x)
        cupy.cuda.Device().synchronize()

    body()
    return body


def cupy_raw(device: str = "cuda") -> Body:
    """CuPy: a kernel of one's own, on a stream of one's own."""
    import cupy

    source = 'extern "C" __global__ void own(float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] += 1; }'
    kernel = cupy.RawKernel(source, "own")
    x = cupy.zeros(1 << 20, dtype=cupy.float32)
    stream = cupy.cuda.Stream(non_blocking=True)

    def body() -> None:
        with stream:
            for _ in range(ELEMENTWISE):
                kernel((1 << 12,), (256,), (x,))
        stream.synchronize()

    body()
    return body


def unfinished(device: str = "cuda") -> Body:
    """CuPy: kernels that still run when the cell ends; nothing waits for them."""
    import cupy

    x = cupy.ones(1 << 26, dtype=cupy.float32)

    def body() -> None:
        for _ in range(ELEMENTWISE):
            cupy.add(x, x, out=x)

    body()
    cupy.cuda.Device().synchronize()
    return body


def numba_kernel(device: str = "cuda") -> Body:
    """Numba: a compiled kernel."""
    import numpy
    from numba import cuda

    from .numba_kernel import add_one

    x = cuda.to_device(numpy.zeros(64, dtype=numpy.float32))

    def body() -> None:
        for _ in range(ELEMENTWISE):
            add_one[2, 32](x)
        cuda.synchronize()

    body()
    return body


def triton_kernel(device: str = "cuda") -> Body:
    """Triton: a compiled kernel on torch's memory."""
    import torch

    from .triton_kernel import add_one

    x = torch.zeros(1 << 12, device=device)

    def body() -> None:
        for _ in range(ELEMENTWISE):
            add_one[(4,)](x, x.numel(), BLOCK=1024)
        _settle(device)

    body()
    return body


def mixed(device: str = "cuda") -> Body:
    """CuPy and torch on the same memory, by DLPack."""
    import cupy
    import torch

    x = cupy.ones(1 << 20, dtype=cupy.float32)

    def body() -> None:
        y = torch.from_dlpack(x + x)
        cupy.from_dlpack(torch.relu(y)).sum()
        _settle(device)

    body()
    return body


def jax_product(device: str = "cuda") -> Body:
    """JAX: a jitted product."""
    import jax

    f = jax.jit(lambda x: (x @ x).sum())
    x = jax.numpy.ones((1024, 1024))

    def body() -> None:
        for _ in range(5):
            f(x).block_until_ready()

    body()
    return body


SCENES: Final = (
    Scene("torch-cnn", ("torch",), cnn),
    Scene("torch-transformer", ("torch",), transformer),
    Scene("torch-graph", ("torch",), graph),
    Scene("torch-two-streams", ("torch",), two_streams),
    Scene("torch-copies", ("torch",), copies, ("torch", "nvml")),
    Scene("torch-growth", ("torch",), growth),
    Scene("cupy", ("cupy",), cupy_mix, ("cuda", "cupy")),
    Scene("cupy-raw", ("cupy",), cupy_raw, ("cuda", "cupy")),
    Scene("cupy-unfinished", ("cupy",), unfinished, ("cuda", "cupy")),
    Scene("numba", ("numba",), numba_kernel, ("cuda",)),
    Scene("triton", ("torch", "triton"), triton_kernel),
    Scene("cupy-and-torch", ("cupy", "torch"), mixed, ("torch", "cupy")),
    Scene("jax", ("jax",), jax_product, ("jax",)),
)
BY_NAME: Final = {scene.name: scene for scene in SCENES}
