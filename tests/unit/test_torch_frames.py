"""Python calls of the kernel and of our hooks are left out; the cell's stay."""

from __future__ import annotations

import json
from typing import Any

from notebook_prof.collectors.torch.result import users_only
from notebook_prof.readers.kineto import KinetoColumns, read_columns
from notebook_prof.trace import ImportReport

CELL = "/somewhere/ipykernel_77/123456.py(1): <module>"


def columns(*rows: tuple[str, int, int, int, str]) -> KinetoColumns:
    """Rows of name, thread, start µs, end µs, category."""
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": cat, "name": name, "pid": 5, "tid": tid, "ts": a, "dur": b - a, "args": {}}
        for name, tid, a, b, cat in rows
    ]
    return read_columns(json.dumps({"traceEvents": events}).encode(), ImportReport())


def kept(*rows: tuple[str, int, int, int, str]) -> list[str]:
    result = users_only(columns(*rows))
    return [result.name.values[code] for code in result.name.codes]


def python(name: str, tid: int, start: int, end: int) -> tuple[str, int, int, int, str]:
    return name, tid, start, end, "python_function"


def test_only_what_is_inside_the_cell_stays() -> None:
    assert kept(
        python("<frozen runpy>(88): _run_code", 1, 0, 100),
        python("IPython/core/interactiveshell.py(3786): run_code", 1, 0, 99),
        python(CELL, 1, 10, 90),
        python("model.py(3): forward", 1, 20, 30),
        python("IPython/core/events.py(70): trigger", 1, 92, 95),
        ("aten::mm", 1, 25, 26, "cpu_op"),
        ("aten::late", 1, 96, 97, "cpu_op"),
        python("threading.py(1002): _bootstrap", 2, 0, 100),
        python("ipykernel/iostream.py(168): _thread_main", 2, 1, 99),
        python("loader.py(9): fetch", 3, 30, 40),
    ) == [CELL, "model.py(3): forward", "aten::mm", "aten::late", "loader.py(9): fetch"]


def test_our_hooks_go_with_what_they_call() -> None:
    assert kept(
        python("model.py(3): forward", 1, 0, 100),
        python("site/notebook_prof/collectors/torch/hooks.py(205): _begin_call", 1, 10, 20),
        python("<built-in method __enter__ of RecordFunctionFast>", 1, 12, 18),
        ("nn.Module#layer", 1, 13, 40, "cpu_op"),
        python("site/notebook_prof/collectors/torch/hooks.py(40): fetch", 1, 50, 60),
        python("data.py(1): __getitem__", 1, 52, 58),
        python("notebook_prof/collectors/torch/loader/fetching.py(90): fetch", 1, 70, 80),
        python("data.py(1): __getitem__", 1, 72, 78),
    ) == ["model.py(3): forward", "nn.Module#layer", "data.py(1): __getitem__", "data.py(1): __getitem__"]


def test_the_start_and_the_stop_of_a_window_are_one_call_each() -> None:
    assert kept(
        python(CELL, 1, 0, 100),
        python("site/notebook_prof/session/engine.py(261): start", 1, 1, 10),
        python("<built-in method acquire of _thread.lock object>", 1, 2, 3),
        python("train.py(7): step", 1, 20, 30),
        python("site/notebook_prof/session/window.py(300): _change_state", 1, 80, 90),
        python("notebook_prof/session/engine.py(265): stop", 1, 81, 89),
    ) == [
        CELL,
        "site/notebook_prof/session/engine.py(261): start",
        "train.py(7): step",
        "notebook_prof/session/engine.py(265): stop",
    ]


def test_a_script_keeps_everything() -> None:
    rows = (python("train.py(1): <module>", 1, 0, 9), python("model.py(3): forward", 1, 2, 3))
    assert kept(*rows) == [row[0] for row in rows]
    assert kept() == []
