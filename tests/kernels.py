"""Starts kernels for tests."""

from __future__ import annotations

from typing import Any

from jupyter_client.manager import KernelManager, start_new_kernel


def start_kernel(patience_s: float, **options: Any) -> tuple[KernelManager, Any]:
    """Start a Python kernel. Try once more if it dies, since another process may have taken a port."""
    try:
        return start_new_kernel(patience_s, "python3", **options)
    except RuntimeError as error:
        if "died" not in str(error):
            raise
    return start_new_kernel(patience_s, "python3", **options)
