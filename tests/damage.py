"""Damage to files, as hypothesis draws it: changed bytes, swapped values, cut ends, repeated parts."""

from __future__ import annotations

import functools
import re

from hypothesis import strategies as st

_VALUES = re.compile(rb'(?<=[:,\[ ])(?:-?\d[\d.]*|"[^"\\\n]{0,40}")')
_STRANGE = (
    b"0", b"-1", b"1e400", b"-9223372036854775809", b"18446744073709551616", b"70000", b"0.5", b"null",
    b"true", b'""', b'"x"', b'"\\ud800"', b"[]", b"{}", b"[[[1]]]", b'{"a": null}', b"NaN",
    b"99999999999999999999", b'"9223372036854775807"', b"9223372036854775807", b"4611686018427387904",
    b"9" * 5_000, b'"ProfilerStep#99999999999999999999"',
)  # fmt: skip


@functools.lru_cache(maxsize=4)
def _places(data: bytes) -> list[tuple[int, int]]:
    """Where values stand, found once for all damage to the same file."""
    return [match.span() for match in _VALUES.finditer(data)]


@st.composite
def damaged(draw: st.DrawFn, data: bytes, most: int = 4) -> bytes:
    """`data` with up to `most` changes."""
    values = _places(data)
    for _ in range(draw(st.integers(1, most))):
        kind = draw(st.sampled_from(("value", "value", "byte", "cut", "repeat", "drop")))
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        if kind == "value" and values:
            start, end = values[at % len(values)]
            if end <= len(data):
                data = data[:start] + draw(st.sampled_from(_STRANGE)) + data[end:]
        elif kind == "byte":
            data = data[:at] + draw(st.binary(min_size=1, max_size=3)) + data[at + 1 :]
        elif kind == "cut":
            data = data[: len(data) - at // 4]
        elif kind == "repeat":
            data = data[:at] + data[at : at + 200] + data[at:]
        else:
            data = data[:at] + data[at + draw(st.integers(1, 60)) :]
    return data
