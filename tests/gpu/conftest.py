"""A card, or the reason why there is none."""

from __future__ import annotations

import pytest

from notebook_prof.collectors.nvml import NvmlCollector
from notebook_prof.optional import installed


@pytest.fixture(scope="session", autouse=True)
def card() -> None:
    """Skip everything here where there is no NVIDIA GPU."""
    state = NvmlCollector.availability()
    if not state.ok:
        pytest.skip(f"needs an NVIDIA GPU: {state.reason}")


@pytest.fixture(scope="session")
def cuda_torch(card: None) -> object:
    """PyTorch on CUDA."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("the installed torch cannot use the GPU")
    return torch


@pytest.fixture(scope="session")
def cupy(card: None) -> object:
    """CuPy."""
    if not installed("cupy"):
        pytest.skip("cupy is not installed")
    import cupy

    return cupy
