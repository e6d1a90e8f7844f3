"""Asks a page's protocol until it answers."""

from __future__ import annotations

import time
from typing import Any

import numpy as np


def answered(queries: Any, question: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """Return an answer; like a page, ask again while it is pending."""
    content, buffers = queries.answer(question)
    while content.get("pending"):
        time.sleep(0.001)
        content, buffers = queries.answer(question)
    return content, buffers


def asked(queries: Any, **question: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return content and columns of an answer that does not fail."""
    content, buffers = answered(queries, question)
    assert not content.get("failed"), content
    named = zip(content.get("columns", ()), buffers, strict=True)
    return content, {name: np.frombuffer(part, f"<{kind}") for (name, kind), part in named}
