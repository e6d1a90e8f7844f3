"""The origin of a recording: the line at the top of a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from html import escape
from typing import Any, Final

from ...trace import Trace

_OLDEST_NS: Final = 10**18
"""Earlier times come from clocks that start with the machine."""
_VERSIONS: Final = {
    "python": "Python",
    "torch_version": "torch",
    "jax_version": "JAX",
    "cupy_version": "CuPy",
    "mindspore": "MindSpore",
    "viztracer": "VizTracer",
}
_OPTIONS: Final = {
    "record_shapes": "shapes",
    "with_stack": "stacks",
    "profile_memory": "memory",
    "with_modules": "modules",
    "with_flops": "FLOPs",
}
_LONGEST: Final = 120


def provenance(trace: Trace) -> dict[str, str]:
    """Return what is known of ``file recorded format host devices versions options``, by label."""
    metadata = trace.metadata
    kineto = metadata.get("kineto")
    kineto = kineto if isinstance(kineto, Mapping) else {}
    devices = Counter(str(name) for name in metadata.get("devices") or ())
    options = [text for key, text in _OPTIONS.items() if kineto.get(key)]
    if steps := metadata.get("steps_requested"):
        options.insert(0, f"steps {steps}")
    facts = {
        "file": str(metadata.get("file") or ""),
        "recorded": _date(metadata.get("start_unix_ns")),
        "format": str(metadata.get("source") or ""),
        "host": str(metadata.get("host") or ""),
        "devices": ", ".join(f"{count} × {name}" if count > 1 else name for name, count in devices.items()),
        "versions": ", ".join(_versions(metadata, kineto)),
        "options": ", ".join(options),
    }
    return {label: text[:_LONGEST] for label, text in facts.items() if text}


def header(trace: Trace) -> str:
    """Return `provenance` as escaped HTML."""
    parts = [
        f'<span title="{escape(label)}">{escape(text)}</span>' for label, text in provenance(trace).items()
    ]
    return f'<header class="nbp-provenance">{" · ".join(parts)}</header>' if parts else ""


def _date(start_ns: object) -> str:
    if not isinstance(start_ns, int) or start_ns < _OLDEST_NS:
        return ""
    try:
        return datetime.fromtimestamp(start_ns / 1e9, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return ""


def _versions(metadata: Mapping[str, Any], kineto: Mapping[str, Any]) -> Iterator[str]:
    for key, name in _VERSIONS.items():
        if metadata.get(key):
            yield f"{name} {metadata[key]}"
    if isinstance(cuda := kineto.get("cuda_runtime_version"), int):
        yield f"CUDA {cuda // 1000}.{cuda % 1000 // 10}"  # CUDA_VERSION: 1000 major + 10 minor
    if isinstance(hip := kineto.get("hip_runtime_version"), int):
        yield f"HIP {hip // 10**7}.{hip % 10**7 // 10**5}"  # HIP_VERSION: 10^7 major + 10^5 minor + patch
