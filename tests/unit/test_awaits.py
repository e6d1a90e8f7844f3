"""The lines at which tasks of an event loop are suspended, as another thread sees them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pandas as pd
import pytest

from notebook_prof import Trace, TraceBuilder
from notebook_prof.analysis import lines
from notebook_prof.collectors.machine import has_gil
from notebook_prof.collectors.python.awaits import Awaits, Line
from notebook_prof.trace.redaction import without_source

from ..recorded import in_threads

pytestmark = pytest.mark.skipif(not has_gil(), reason="tasks are looked at under the GIL only")


def looked(awaits: Awaits, *, times: int = 1) -> list[str]:
    """Texts of the lines at which tasks were suspended in this many looks of a second each."""
    begin = 1_000_000_000_000_000_000
    for second in range(times):
        awaits.look(begin + second * 10**9, begin + (second + 1) * 10**9)
    builder = TraceBuilder()
    awaits.put(builder, (begin, begin + times * 10**9), {})
    return sorted(lines(builder.seal())["text"])


async def seen_from_outside(awaits: Awaits | None) -> list[str]:
    """What another thread sees while the loop waits for it."""
    assert awaits is not None
    found: list[str] = []

    def look() -> None:
        deadline = time.monotonic() + 60
        while not found and time.monotonic() < deadline:
            time.sleep(0.01)  # until the loop is idle
            found.extend(looked(awaits))

    await asyncio.to_thread(look)
    return found


def test_innermost_lines_of_tasks_that_await_no_task() -> None:
    async def sleeps() -> None:
        await asyncio.sleep(600)

    async def passes_on() -> None:
        await sleeps()

    async def gathers(task: asyncio.Task[None]) -> None:
        await asyncio.gather(task)

    async def main() -> list[str]:
        awaits = Awaits.of_this_thread()
        first = asyncio.create_task(passes_on())
        tasks = [first, asyncio.create_task(gathers(first))]
        found = await seen_from_outside(awaits)
        for task in tasks:
            task.cancel()
        return found

    assert asyncio.run(main()) == ["await asyncio.sleep(600)", "await asyncio.to_thread(look)"]


def test_nothing_of_an_awaited_object_is_called() -> None:
    called: list[str] = []

    class Watched:
        def __await__(self) -> Iterator[None]:
            return Steps()

    class Steps:
        def __iter__(self) -> Steps:
            return self

        def __next__(self) -> None:
            time.sleep(0.01)

        def __getattribute__(self, name: str) -> object:
            called.append(name)
            return object.__getattribute__(self, name)

        def __hash__(self) -> int:
            called.append("__hash__")
            return 1

    async def main() -> list[str]:
        awaits = Awaits.of_this_thread()
        task = asyncio.create_task(of_the_user())
        await asyncio.sleep(0)
        called.clear()
        assert awaits is not None
        chains: list[frozenset[Line]] = []
        in_threads(lambda: chains.append(awaits._suspended()))
        assert called == []
        task.cancel()
        return [code.co_name for chain in chains for code, _ in chain]

    async def of_the_user() -> None:
        await Watched()

    assert "of_the_user" in asyncio.run(main())


def recorded() -> Trace:
    """A cell that awaits in line 3 for 7 of 10 ns, of which a slice shows 4, and in a file."""
    rows = [(0, 4, "cell", 3, "await a()"), (4, 3, "cell", 3, "await a()"), (5, 2, "/w/b.py", 9, "await b()")]
    table = pd.DataFrame(rows, columns=["ts", "dur", "file", "line", "text"])
    builder = TraceBuilder(metadata={"tables": {"awaits": table}})
    line = {"name": "cell:3  await a()", "category": "python", "track": builder.track("main")}
    builder.slices(ts=0, dur=4, **line)
    return builder.seal(window=(0, 10))


def test_lines_have_the_time_that_tasks_awaited_there() -> None:
    def awaited(**arguments: object) -> dict[int, tuple[int, int]]:
        rows = lines(recorded(), **arguments).set_index("line")  # type: ignore[arg-type]
        return {line: (row["total_ns"], row["awaited_ns"]) for line, row in rows.iterrows()}

    assert awaited() == {3: (4, 7), 9: (0, 2)}
    assert awaited(window=(3, 6)) == {3: (1, 3), 9: (0, 1)}
    assert lines(without_source(recorded())).empty, "without source, lines have no names"
    assert awaited(category="python") == {3: (4, 0)}, "only a window cuts what was awaited"
    whole = lines(recorded(), window=(0, 10), remainder=True)
    assert whole["self_ns"].sum() == 4
    assert whole["awaited_ns"].tolist() == [7, 2, 0]
