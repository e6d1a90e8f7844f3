"""What bounds a run of which only Python was recorded: a line, a loop, a library, or waiting."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

import numpy as np

from ..trace import Trace
from ..trace.intervals import IntArray
from ..units import format_items, format_ns, format_share
from .facts import Facts
from .frames import Frames, frames
from .scope import Scope, ints

_LINE: Final = re.compile(r"(?P<file>[^\s:]+):(?P<line>\d+)  (?P<text>.+)")
_LOOP: Final = re.compile(r"(?:async\s+)?(?:for|while)\b.*:\s*(?:#.*)?")
_PRODUCT: Final = re.compile(r"[\w\])]\s*@\s*[\w(\[]")
_WAITS: Final = re.compile(
    r"(?:^|[\s.<(])(?:lock\.acquire|acquire of _thread|time\.sleep|sleep>|_wait_for_tstate_lock|Thread\.join"
    r"|Condition\.wait|Event\.wait|(?:Simple)?Queue\.get|select\.\w+|epoll|waitpid|Popen\.wait|sock(?:et)?\.recv)"
    r"|^wait \(threading\.py|^_wait_for_tstate_lock|^\S+:\d+  (?:\w+ = )?(?:time\.)?sleep\("
    r"|(?:^|[\s.])(?:block_until_ready|try_to_block|BlockHostUntilReady)\b"
)
_PACKAGES: Final = re.compile(r"(?:site|dist)-packages[\\/](?P<name>[^\\/]+)")
_BINARY: Final = re.compile(r"<(?:built-in|slot wrapper).* (?P<name>\w+) of .*numpy|^(?P<pure>numpy\.[\w.]+)")
_SPELLED: Final = {"numpy": "NumPy", "scipy": "SciPy", "sklearn": "scikit-learn", "torch": "PyTorch"}
_MOSTLY: Final = 0.5


@dataclass(frozen=True, slots=True)
class PythonVerdict:
    """What `verdict` says of a run without a framework; the fields are those of `Verdict`."""

    kind: str
    sentence: str
    share: float
    evidence: dict[str, Any]
    select: dict[str, Any]


def python_verdict(trace: Trace, facts: Facts, mine: Scope) -> PythonVerdict:
    """Say where the time of a thread of Python goes.

    Parameters
    ----------
    trace : Trace
    facts : Facts
        Its `top` is what the thread ran, by self time; not empty.
    mine : Scope
        Slices of that thread.

    Returns
    -------
    PythonVerdict
        ``wait-bound``: at least half of the time is waiting for locks, sockets, processes or the clock;
        ``library-bound``: the function that takes most is a library's; else ``python-bound``.
    """
    sync = mine.slices["name"].cat.categories[
        np.unique(mine.codes("name")[mine.among("category", ("sync",))])
    ]
    waits = np.array([name in sync or _waits(str(name)) for name in facts.top["name"]], dtype=bool)
    waited = int(facts.top["self_ns"].to_numpy()[waits].sum())
    if waited >= _MOSTLY * facts.total_ns:
        return _waiting(facts, waits, waited)
    first = facts.top[~waits].iloc[0] if not waits.all() else facts.top.iloc[0]
    name, spent = str(first["name"]), int(first["self_ns"])
    known = frames(trace)
    row = _longest(mine, name)
    library = _library(str(known.file[known.code[row]]), name)
    if library and not _LINE.fullmatch(name):
        return _in_library(facts, mine, known, row, library, name)
    share = min(spent / max(facts.total_ns, 1), 1.0)
    of = f"{format_share(share)} of the time ({format_ns(spent)} of {format_ns(facts.total_ns)})"
    evidence = {"name": name, "self_ns": spent}
    return PythonVerdict("python-bound", _own_sentence(name, of), share, evidence, {"name": name})


def is_wait(scope: Scope) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which slices wait: of category sync, or for a lock, a socket, a process, the clock or a runtime."""
    named = np.array([*map(_waits, scope.slices["name"].cat.categories.astype("str")), False], dtype=bool)
    return np.asarray(named[scope.codes("name")] | scope.among("category", ("sync",)))


def compute_sentence(share: float, spent: int, total: int, name: str, own: int, calls: int) -> str:
    """What `verdict` says where a runtime's threads compute while Python waits."""
    return (
        f"Compute-bound on the CPU: the runtime's threads run operators {format_share(share)} of the time "
        f"({format_ns(spent)} of {format_ns(total)}) while Python waits for them; "
        f"{_cut(name)} takes {format_ns(own)} in {format_items(calls, 'call')}."
    )


def _waits(name: str) -> bool:
    return _WAITS.search(name) is not None


def _own_sentence(name: str, of: str) -> str:
    line = _LINE.fullmatch(name)
    if line is None:
        return f"Python-bound: {_cut(name)} itself takes {of}."
    text, place = _cut(line["text"]), f"{line['file']}:{line['line']}"
    if _LOOP.fullmatch(line["text"]):
        return f"Python-bound: the loop `{text}` in {place} takes {of}."
    product = ", a matrix product," if _PRODUCT.search(line["text"]) and not text.startswith("@") else ""
    return f"One line takes {of}: `{text}`{product} in {place}."


def _waiting(facts: Facts, waits: np.ndarray[Any, np.dtype[np.bool_]], waited: int) -> PythonVerdict:
    first = facts.top[waits].iloc[0]
    share = min(waited / max(facts.total_ns, 1), 1.0)
    sentence = (
        f"Wait-bound: the program waits {format_share(share)} of the time "
        f"({format_ns(waited)} of {format_ns(facts.total_ns)}), mostly in {_cut(str(first['name']))}."
    )
    names = [str(name) for name in facts.top[waits]["name"]]
    return PythonVerdict(
        "wait-bound", sentence, share, {"waited_ns": waited, "name": names[0]}, {"name": names}
    )


def _in_library(facts: Facts, mine: Scope, known: Frames, row: int, library: str, name: str) -> PythonVerdict:
    """All self time in that library, the function with most of it, and the user's line that called it."""
    files = np.array([_library(str(file), "") == library for file in known.file], dtype=bool)
    inside = files[known.code[mine.rows]]
    words = mine.slices["name"].cat.categories
    inside |= np.append([_library("", str(word)) == library for word in words], False)[mine.codes("name")]
    spent = int(mine.self_ns[inside].sum())
    share = min(spent / max(facts.total_ns, 1), 1.0)
    caller = _caller(mine, row)
    called = f", called from {caller}" if caller else ""
    line = int(known.line[known.code[row]])
    where = f"{_cut(name[:-1])}:{line})" if name.endswith(".py)") and line > 0 else _cut(name)
    sentence = (
        f"Library-bound: {format_share(share)} of the time "
        f"({format_ns(spent)} of {format_ns(facts.total_ns)}) is in {_SPELLED.get(library, library)}, "
        f"most of it in {where}{called}."
    )
    evidence = {"library": library, "library_ns": spent, "name": name}
    return PythonVerdict("library-bound", sentence, share, evidence, {"name": name})


def _caller(mine: Scope, row: int) -> str:
    """The nearest line around a slice that is not a library's, as ``line in file:number``."""
    slices = mine.slices
    parent = ints(slices["parent"])
    words = slices["name"]
    while (row := int(parent[row])) >= 0:
        if line := _LINE.fullmatch(str(words.iloc[row])):
            return f"`{_cut(line['text'])}` in {line['file']}:{line['line']}"
    return ""


def _library(file: str, name: str) -> str:
    """The installed package that a file or the name of a compiled function belongs to; empty for others."""
    if found := _PACKAGES.search(file):
        return PurePath(found["name"]).stem
    return "numpy" if _BINARY.search(name) else ""


def _longest(mine: Scope, name: str) -> int:
    """The slice of this name with the most self time."""
    code = int(mine.slices["name"].cat.categories.get_indexer([name])[0])
    own: IntArray = np.where(mine.codes("name") == code, mine.self_ns, -1)
    return int(mine.rows[int(own.argmax())])


def _cut(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
