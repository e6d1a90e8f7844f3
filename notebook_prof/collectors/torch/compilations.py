"""What ``torch.compile`` compiled while a cell ran: TorchDynamo's own record of each compilation."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from ...trace.builder import TraceBuilder
from ...trace.report import ImportReport
from ..python.assemble import OTHER_CELLS
from ..python.frames import CELL, owner_of

COMPILATIONS: Final = "compilations"
"""Name of the table in ``metadata["tables"]``."""

_RESUMED: Final = re.compile(r"torch_dynamo_resume_in_(?P<function>.+)_at_(?P<line>\d+)")
_USER_LINE: Final = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_GUARD: Final = re.compile(r"(?:\d+/\d+: )?(?P<guard>.*?)(?:\s+#.*)?")
_MOST_CHARACTERS: Final = 300
_TIMES: Final = (
    "duration_us",
    "aot_autograd_cumulative_compile_time_us",
    "inductor_cumulative_compile_time_us",
    "inductor_code_gen_cumulative_compile_time_us",
)
"""Each holds the next: TorchDynamo calls AOTAutograd, which calls Inductor, which generates code."""


class CompilationWatch:
    """Remembers when watching began; TorchDynamo keeps the rest, of its latest 64 compilations."""

    def __init__(self) -> None:
        self._begin_us = 0

    def watch(self) -> None:
        """Count compilations from now on; a second call does nothing."""
        self._begin_us = self._begin_us or time.time_ns() // 1000

    def put(self, builder: TraceBuilder, report: ImportReport) -> None:
        """Add the table of compilations, where there were any."""
        dynamo = sys.modules.get("torch._dynamo.utils")
        recorded = getattr(dynamo, "_compilation_metrics", None)
        if not recorded or not self._begin_us:
            return
        cells = builder.metadata.get(OTHER_CELLS, {})
        metrics = [one for one in list(recorded) if _number(one, "start_time_us") >= self._begin_us]
        rows = [_row(one, cells) for one in metrics]
        if rows:
            builder.table(COMPILATIONS, pd.DataFrame(rows))
        if len(rows) == getattr(recorded, "maxlen", None):
            report.add(
                "compilations-forgotten",
                "loss",
                len(rows),
                effect="TorchDynamo remembers its latest compilations only: earlier ones are not listed",
                advice="torch._dynamo.utils.set_compilation_metrics_limit(1000) before the cell keeps more",
            )


def _row(metrics: Any, cells: Mapping[str, str]) -> dict[str, Any]:
    """Return a row of the table: times in ns, and text cut to what people read."""
    total, backend, inductor, codegen = (_number(metrics, name) * 1000 for name in _TIMES)
    backward = getattr(metrics, "is_forward", None) is False
    backend = total if backward else backend  # its graph is there already
    name = str(getattr(metrics, "co_name", None) or "")
    resumed = _RESUMED.fullmatch(name)
    recompiled = str(getattr(metrics, "recompile_reason", None) or "")
    where = _USER_LINE.findall(recompiled)
    guard = _GUARD.fullmatch(recompiled.partition("\n")[0])
    hits = ("inductor_fx_local_cache_hit_count", "aotautograd_local_cache_hit_count")
    return {
        "ts": _number(metrics, "start_time_us") * 1000,
        "dur": total,
        "id": str(getattr(metrics, "compile_id", None) or ""),
        "function": resumed["function"] if resumed else name,
        "file": _file(str(getattr(metrics, "co_filename", None) or ""), cells),
        "line": int(resumed["line"]) if resumed else _number(metrics, "co_firstlineno"),
        "resumed": resumed is not None,
        "backward": backward,
        "dynamo_ns": max(total - backend, 0),
        "aot_ns": max(backend - inductor, 0),
        "inductor_ns": max(inductor - codegen, 0),
        "codegen_ns": codegen,
        "operators": _number(metrics, "graph_op_count"),
        "guards": _number(metrics, "guard_count"),
        "cached": any(_number(metrics, hit) for hit in hits),
        "guard": guard["guard"].strip()[:_MOST_CHARACTERS] if recompiled and guard else "",
        "guard_file": _file(where[-1][0], cells) if where else "",
        "guard_line": int(where[-1][1]) if where else 0,
        "restart": "; ".join(sorted(map(_first_sentence, getattr(metrics, "restart_reasons", None) or ()))),
        "failure": _first_sentence(getattr(metrics, "fail_reason", None) or ""),
    }


def _number(metrics: Any, name: str) -> int:
    value = getattr(metrics, name, None)
    return int(value) if isinstance(value, int | float) else 0


def _file(path: str, cells: Mapping[str, str]) -> str:
    return cells.get(path, "cell") if path and owner_of(path) == CELL else path


def _first_sentence(text: object) -> str:
    return str(text).strip().partition("\n")[0].strip()[:_MOST_CHARACTERS]
