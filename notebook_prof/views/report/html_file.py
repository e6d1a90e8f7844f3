"""An HTML file that contains its scripts and data: no network, no foreign scripts."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt


def html_page(scripts: Sequence[str], modules: Sequence[str], body: str, style: str, title: str) -> str:
    """Return the file as text; its Content-Security-Policy allows only these scripts, by their hashes."""
    # Scripts run in order after the body, then modules. Text from a trace in `body` must be escaped, or go
    # into `data_blocks`.
    hashes = " ".join(f"'sha256-{_digest(text)}'" for text in (*scripts, *modules)) or "'none'"
    policy = f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
    policy += "img-src data: blob:; font-src data:"
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy, quote=True)}">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>"
    )
    code = "".join(f"<script>{text}</script>" for text in scripts)
    code += "".join(f'<script type="module">{text}</script>' for text in modules)
    return f"{head}{body}{code}</body></html>\n"


def data_blocks(parts: Mapping[str, str]) -> str:
    """Return texts of `json_text` by id, as elements for ``getElementById``."""
    return "".join(
        f'<script type="application/json" id="{escape(name, quote=True)}">{text}</script>'
        for name, text in parts.items()
    )


def json_text(value: object) -> str:
    """Write JSON for a script element, such that nothing in it ends the element."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def deflated(values: npt.NDArray[Any], delta: bool = False, real: bool = False) -> dict[str, Any]:
    """Return a column for ``inflate`` of ``js/src/report/file/inflate.js``; `delta` stores differences."""
    # Smallest integers that hold the values (floats beyond 32 bits), shuffled by byte, deflated, base64.
    numbers = np.diff(values, prepend=0) if delta else np.asarray(values)
    low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    kinds = ("u1", "u2", "u4", "i4") if low >= 0 else ("i4",)
    kind = (
        "f8" if real else next((k for k in kinds if np.iinfo(k).min <= low and high <= np.iinfo(k).max), "f8")
    )
    raw = np.ascontiguousarray(numbers.astype("<" + kind)).view(np.uint8).reshape(-1, np.dtype(kind).itemsize)
    text = base64.b64encode(zlib.compress(np.ascontiguousarray(raw.T).tobytes(), 6)).decode("ascii")
    return {"data": text, "type": kind, "delta": delta}


def deflated_json(value: object) -> str:
    """Return deflated base64 JSON for ``inflateJson`` of ``js/src/report/file/inflate.js``."""
    raw = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    return base64.b64encode(zlib.compress(raw, 9)).decode("ascii")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
