"""Kernels for tests."""

from __future__ import annotations

from typing import Any

from jupyter_client.manager import KernelManager, start_new_kernel


def start_kernel(patience_s: float, **options: Any) -> tuple[KernelManager, Any]:
    """Start a Python kernel; anew if another process takes one of its ports before it does."""
    try:
        return start_new_kernel(patience_s, "python3", **options)
    except RuntimeError as error:
        if "died" not in str(error):
            raise
    return start_new_kernel(patience_s, "python3", **options)
