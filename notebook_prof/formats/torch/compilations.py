"""TorchDynamo's record of a compilation as a row: the same from a process and from its log."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

COMPILATIONS: Final = "compilations"
"""Name of the table in ``metadata["tables"]``."""

_RESUMED: Final = re.compile(r"torch_dynamo_resume_in_(?P<function>.+)_at_(?P<line>\d+)")
_USER_LINE: Final = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_GUARD: Final = re.compile(r"(?:\d+/\d+: )?(?P<guard>.*?)(?:\s+#.*)?")
_MOST_CHARACTERS: Final = 300
_TIMES: Final = (
    ("duration_us", "entire_frame_compile_time_s"),
    ("aot_autograd_cumulative_compile_time_us", "backend_compile_time_s"),
    ("inductor_cumulative_compile_time_us", "inductor_compile_time_s"),
    ("inductor_code_gen_cumulative_compile_time_us", "code_gen_time_s"),
)
"""Each holds the next: TorchDynamo calls AOTAutograd, which calls Inductor, which generates code. The second
name is that of PyTorch before 2.6, in seconds."""


def compilation_row(read: Callable[[str], Any], file_of: Callable[[str], str] = str) -> dict[str, Any]:
    """Return a row of the table: times in ns, and text cut to what people read.

    Parameters
    ----------
    read : callable
        A field of TorchDynamo's ``CompilationMetrics`` by its name; None where there is none.
    file_of : callable
        What a file is called.

    Examples
    --------
    >>> row = compilation_row({"start_time": 1.5, "entire_frame_compile_time_s": 0.25, "co_name": "f"}.get)
    >>> row["ts"], row["dur"], row["dynamo_ns"], row["function"]
    (1500000000, 250000000, 250000000, 'f')
    """
    total, backend, inductor, codegen = (_ns(read, *names) for names in _TIMES)
    total = max(total, backend, inductor, codegen)
    backward = read("is_forward") is False
    backend = total if backward else max(backend, inductor)  # the graph of a backward is there already
    name = str(read("co_name") or "")
    resumed = _RESUMED.fullmatch(name)
    recompiled = str(read("recompile_reason") or "")
    where = _USER_LINE.findall(recompiled)
    guard = _GUARD.fullmatch(recompiled.partition("\n")[0])
    hits = ("inductor_fx_local_cache_hit_count", "aotautograd_local_cache_hit_count")
    return {
        "ts": _ns(read, "start_time_us", "start_time"),
        "dur": total,
        "id": str(read("compile_id") or ""),
        "function": resumed["function"] if resumed else name,
        "file": _named(str(read("co_filename") or ""), file_of),
        "line": int(resumed["line"]) if resumed else _number(read("co_firstlineno")),
        "resumed": resumed is not None,
        "backward": backward,
        "dynamo_ns": max(total - backend, 0),
        "aot_ns": max(backend - inductor, 0),
        "inductor_ns": max(inductor - codegen, 0),
        "codegen_ns": codegen,
        "operators": _number(read("graph_op_count")),
        "guards": _number(read("guard_count")),
        "cached": any(_number(read(hit)) for hit in hits),
        "guard": guard["guard"].strip()[:_MOST_CHARACTERS] if recompiled and guard else "",
        "guard_file": _named(where[-1][0], file_of) if where else "",
        "guard_line": int(where[-1][1]) if where else 0,
        "restart": "; ".join(sorted(map(_first_sentence, read("restart_reasons") or ()))),
        "failure": _first_sentence(read("fail_reason") or ""),
    }


def _ns(read: Callable[[str], Any], microseconds: str, seconds: str) -> int:
    """Return a time under the name that is there."""
    value = read(microseconds)
    if isinstance(value, int | float):
        return int(value) * 1000
    value = read(seconds)
    return round(value * 1e9) if isinstance(value, int | float) else 0


def _number(value: Any) -> int:
    return int(value) if isinstance(value, int | float) else 0


def _named(path: str, file_of: Callable[[str], str]) -> str:
    return file_of(path) if path else ""


def _first_sentence(text: object) -> str:
    return str(text).strip().partition("\n")[0].strip()[:_MOST_CHARACTERS]
