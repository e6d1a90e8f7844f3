"""A drawn cell with account and lines: setup, a training loop, an evaluation, and what nobody recorded."""

from typing import Any, Final

import pandas as pd

from notebook_prof import Profile, Trace, TraceBuilder

MS: Final = 1_000_000
START: Final = 1_700_000_000_000_000_000
SOURCE: Final = {
    2: "X, y = make_data(4096)",
    4: "for xb, yb in loader:",
    5: "    loss = loss_fn(model(augment(xb)), yb)",
    6: "    loss.backward()",
    8: "acc = accuracy(model, test_set)",
    9: "print(f'{acc:.3f}')",
}
"""Text of the lines of the cell that run, as IPython counts them."""

CELL: Final = "\n".join({**dict.fromkeys(range(1, 10), ""), 1: "%%profile", **SOURCE}.values())
"""The cell as it was written."""

ACCOUNT: Final = (
    # from, to (ms), kind, line, loop, steps
    (0, 4, "profiler", -1, -1, 0),
    (4, 60, "code", 2, -1, 0),
    (60, 180, "outside-window", 4, 0, 6),
    *((180 + 16 * k, 196 + 16 * k, "steps", 4, 0, 1) for k in range(20)),
    (500, 548, "code", 6, -1, 0),
    (548, 560, "not-recorded", -1, -1, 0),
    (560, 1910, "code", 8, -1, 0),
    (1910, 1912, "code", 9, -1, 0),
    (1912, 1950, "profiler", -1, -1, 0),
)
"""Twenty steps of 16 ms, 1.35 s of evaluation in 1.95 s."""


def drawn_cell(
    steps: bool = True, evil: str = "", text: bool = True, raised: dict[str, Any] | None = None
) -> Trace:
    """The cell as a Trace, without steps or its text if asked. `evil` goes into every text."""
    rows = [
        (a, b, "code" if not steps and kind in ("steps", "outside-window") else kind, line,
         loop if steps else -1, count if steps else 0)
        for a, b, kind, line, loop, count in ACCOUNT
    ]  # fmt: skip
    table = pd.DataFrame(rows, columns=["ts", "dur", "kind", "line", "loop", "steps"])
    table["dur"] = MS * (table["dur"] - table["ts"])
    table["ts"] *= MS
    table.insert(4, "text", [SOURCE.get(line, "") + evil for line in table["line"]])
    metadata: dict[str, Any] = {"source": "recording", "tables": {"account": table}}
    if text:
        metadata["cell_source"] = CELL.replace("\n", f"{evil}\n")
    if raised is not None:
        metadata["raised"] = raised
    builder = TraceBuilder(metadata=metadata)
    main = builder.track("MainThread", pid=100, tid=100)
    slices: list[dict[str, Any]] = [_line(0, 4, 0, evil) | {"name": "recording" + evil}]
    slices += [_line(a, b, line, evil) for a, b, _, line, _, _ in rows if line > 0 and line != 4]
    for k in range(20):
        at = 180 + 16 * k
        lines = ((at, at + 16, 4), (at + 1, at + 9, 5), (at + 9, at + 15, 6))
        slices += [_line(*one, evil) for one in lines]
        slices.append(_operator(at + 2, at + 8, "aten::linear" + evil, "forward"))
        slices.append(_operator(at + 10, at + 14, "aten::addmm" + evil, "backward"))
    slices += [_operator(600 + 40 * k, 630 + 40 * k, "aten::linear" + evil, "other") for k in range(30)]
    for row in sorted(slices, key=lambda row: (row["ts"], -row["dur"])):
        stack = row.pop("frames", None)
        handle = builder.stack(stack) if stack else None
        builder.slices(track=main, **row, **({"stack": handle} if stack else {}))
    if steps:
        for k in range(20):
            builder.steps(step=6 + k, ts=START + MS * (180 + 16 * k), dur=16 * MS, source="loop")
    return builder.seal(window=(START, START + 1950 * MS))


def cell_profile(**options: Any) -> Profile:
    return Profile(drawn_cell(**options))


def _line(a: float, b: float, line: int, evil: str) -> dict[str, Any]:
    text = SOURCE.get(line, "").strip() + evil
    row = {"ts": START + int(MS * a), "dur": int(MS * (b - a)), "category": "python"}
    return {**row, "name": f"cell:{line}  {text}", "frames": [("<module>", "cell", line)]}


def _operator(a: float, b: float, name: str, phase: str) -> dict[str, Any]:
    row = {"ts": START + int(MS * a), "dur": int(MS * (b - a)), "category": "operator"}
    return {**row, "name": name, "phase": phase}
