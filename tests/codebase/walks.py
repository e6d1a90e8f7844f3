"""Count the files of the ten walks of `docs/architecture.md`: ``python -m tests.codebase.walks``.

A walk lists the files that somebody reads to follow it. Six of them run here on small samples: each stop in
Python has to be called, or its file to be where a class comes from. The last number says in how many files
of ours a function was called meanwhile.
"""

from __future__ import annotations

import re
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeAlias

from ..asking import asked
from .source import PACKAGE, ROOT

Stop: TypeAlias = tuple[str, str, str]
"""A file, and in it a function or a class, perhaps with a method."""

STOP = re.compile(r"`((?:js/src/)?\w+(?:/\w+)*\.(?:py|js))`(?:\s+`(\w+)(?:\.(\w+))?`)?")
KINETO = ROOT / "tests" / "data" / "torch213_cpu" / "mini_noschedule.pt.trace.json.gz"
RANKS = [KINETO.with_name(f"ddp_gloo_rank{rank}.pt.trace.json.gz") for rank in (0, 1)]


def walks() -> dict[str, list[Stop]]:
    """Give the stops of each walk."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    parts = re.split(r"^\*\*(.+?)\.\*\*", text[text.index("## Ten walks") :], flags=re.MULTILINE)[1:]
    return {title: STOP.findall(part) for title, part in zip(parts[::2], parts[1::2], strict=True)}


def files(stops: list[Stop]) -> set[str]:
    """Give the files of a walk."""
    return {file for file, _, _ in stops}


def called(run: Callable[[], object]) -> set[tuple[str, str]]:
    """Give file and name of every function of ours that runs, in all threads."""
    codes: dict[int, CodeType] = {}
    inside = f"{PACKAGE}/"

    # a tracer that returns None is told of calls of Python functions alone; a profiler of all of C too
    def note(frame: FrameType, event: str, argument: Any) -> None:
        codes[id(frame.f_code)] = frame.f_code

    threading.settrace(note)
    sys.settrace(note)
    try:
        run()
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
    return {
        (code.co_filename.removeprefix(inside), code.co_name)
        for code in list(codes.values())
        if code.co_filename.startswith(inside) and code.co_name != "<module>"
    }


def runs() -> dict[str, Callable[[], object]]:
    """Give what runs each walk, as far as it needs neither a kernel nor a browser."""
    import notebook_prof as nbp
    from notebook_prof.views.page_queries import PageQueries

    p = nbp.open_profile(KINETO)
    queries = PageQueries(p.trace, p.selection)

    def ask(**question: Any) -> dict[str, Any]:
        return asked(queries, **question)[0]

    meta = ask(t="meta")
    a, b = meta["span"]

    def brush() -> None:
        queries.select({"window": [a, (a + b) // 2]}, "timeline", p.selection.revision)
        ask(t="timeline", a=a, b=b, px=300, rows=[track["row"] for track in meta["tracks"]])
        ask(t="table", by="name")

    def report() -> None:
        with tempfile.TemporaryDirectory() as folder:
            p.export.html(Path(folder, "report.html"))

    return {
        "A file": lambda: nbp.open_profile(KINETO).operators(),
        "A brush": brush,
        "A gap": lambda: ask(t="why", track=meta["tracks"][0]["track"], at=(a + b) // 2),
        "A comparison": lambda: str(nbp.compare(p, nbp.open_profile(KINETO)).verdict),
        "Ranks": lambda: nbp.read_ranks(RANKS, processes=1).stragglers(),
        "A report": report,
    }


def missed(stops: list[Stop], found: set[tuple[str, str]]) -> list[str]:
    """Give the stops that a run did not come through; what only a page or a display calls is left out."""
    seen = {file for file, _ in found}
    return [
        f"{file} {name}"
        for file, name, method in stops
        if not file.startswith(("js/", "jupyter/", "comparison/page/", "ranks/page/"))
        and ((file, method or name) not in found if name[:1].islower() or method else file not in seen)
    ]


def main() -> int:
    """Print the counts, and what a run did not come through."""
    wrong = 0
    run_of = runs()
    for title, stops in walks().items():
        line = f"{title}: {len(files(stops))} files"
        if title in run_of:
            found = called(run_of[title])
            line += f", {len({file for file, _ in found})} in which code ran"
            for stop in missed(stops, found):
                wrong += 1
                line += f"\n    not called: {stop}"
        print(line)
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
