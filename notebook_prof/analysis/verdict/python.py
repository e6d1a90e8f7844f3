"""What bounds a run if only Python was recorded: a line, a loop, a library, or waiting."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import DEVICE_CATEGORIES, Trace
from ...units import format_share
from ..scope import Scope, ints, on_host
from ..source.frames import SourceFrames, frames, is_python
from ..source.lines import CELL, lines
from ..time.cpu import cpu
from ..time.host_states import waits_by_name
from ..time.phases import stepping_track
from .claims import Sentence, Source, Verdict, cite, cite_ns, cite_share, fill, say, short
from .inputs import FEWEST, LITTLE, MOST, NEARLY_ALL, VerdictInputs


def line_select(row: Any) -> dict[str, Any]:
    """Return a selection of the slices of one row of `lines`."""
    return {"name": f"{_file(row['file'])}:{row['line']}  {row['text']}".rstrip()}


def line_words(row: Any) -> tuple[str, ...]:
    """Return a line in words and its text, like ``line 7, `x = f(y)```; with its file outside of the cell."""
    line_name = f"line {row['line']}" if row["file"] == CELL else f"{_file(row['file'])}:{row['line']}"
    return (line_name, f", `{short(row['text'], 60)}`" if row["text"] else "")


def _file(path: object) -> str:
    return str(path).replace("\\", "/").rpartition("/")[2]


_LINE: Final = re.compile(r"(?P<file>[^\s:]+):(?P<line>\d+)  (?P<text>.+)")
_LOOP: Final = re.compile(r"(?:async\s+)?(?:for|while)\b.*:\s*(?:#.*)?")
_PRODUCT: Final = re.compile(r"[\w\])]\s*@\s*[\w(\[]")
_PACKAGES: Final = re.compile(r"(?:site|dist)-packages[\\/](?P<name>[^\\/]+)")
_BINARY: Final = re.compile(r"<(?:built-in|slot wrapper).* (?P<name>\w+) of .*numpy|^(?P<pure>numpy\.[\w.]+)")
_SPELLED: Final = {"numpy": "NumPy", "scipy": "SciPy", "sklearn": "scikit-learn", "torch": "PyTorch"}
_TRIFLE: Final = 0.01
_SUSPENDED: Final = 2
"""Maximum number of lines named for suspended tasks."""
_WORKERS: Final = (
    ("other thread", "other threads", ("python", "native")),
    ("child process", "child processes", ("child",)),
)


def python_verdict(facts: VerdictInputs) -> Verdict:
    """Judge where the time of a Python thread goes; the `top` of `facts` must not be empty."""
    trace, thread = facts.trace, facts.thread
    words = thread.slices["name"].cat.categories
    sync = words[np.unique(thread.codes("name")[thread.among("category", ("sync",))])]
    waits = np.array([name in sync or waits_by_name(str(name)) for name in facts.top["name"]], dtype=bool)
    waited = int(facts.top["self_ns"].to_numpy()[waits].sum())
    if waited >= MOST * facts.total_ns:
        return _waiting(facts, waits, waited)
    first = facts.top[~waits].iloc[0] if not waits.all() else facts.top.iloc[0]
    name, spent = str(first["name"]), int(first["self_ns"])
    source_lines = frames(trace)
    own = np.where(thread.among("name", (name,)), thread.self_ns, -1)
    row = int(thread.rows[int(own.argmax())])  # the longest slice of this name
    library = library_of(str(source_lines.file[source_lines.code[row]]), name)
    share = spent / max(facts.total_ns, 1)
    if facts.few is not None and facts.few.count < FEWEST:
        sentence = say(facts.samples(), f" cannot tell what bounds {facts.whole}.")
        return Verdict("mixed", sentence, share)
    if library and not _LINE.fullmatch(name):
        return _in_library(facts, source_lines, row, library, name)
    if share < _TRIFLE:
        sentence = say(f"Nothing that was recorded takes {format_share(_TRIFLE, 0)} of {facts.whole}.")
        return Verdict("mixed", sentence, share)
    of = facts.part_of_whole(spent, facts.self_time(name), {"name": name})
    file = str(source_lines.file[source_lines.code[row]])
    of_python = str(trace.slices["category"].iloc[row]) == "python" and is_python(trace, name, file)
    if share < LITTLE or not of_python:
        sentence = say(f"What bounds it is unknown; {short(name, 60)} has the most self time: ", of, ".")
        return Verdict("mixed", sentence, share, {"name": name})
    line = _LINE.fullmatch(name)
    sentence = fill("Python-bound: {} itself takes {}.", short(name, 60), of)
    if line is not None:
        text, location = short(line["text"], 60), f"{line['file']}:{line['line']}"
        product = ", a matrix product," if _PRODUCT.search(line["text"]) and not text.startswith("@") else ""
        sentence = fill("One line takes {}: `{}`{} in {}.", of, text, product, location)
        if _LOOP.fullmatch(line["text"]):
            sentence = fill("Python-bound: the loop `{}` in {} takes {}.", text, location, of)
    return Verdict("python-bound", sentence, share, {"name": name})


def library_of(file: str, name: str) -> str:
    """Return the installed package to which a file, or a compiled function's name, belongs; else empty."""
    if package := _PACKAGES.search(file):
        return PurePath(package["name"]).stem
    return "numpy" if _BINARY.search(name) else ""


def spelled(library: str) -> str:
    """Return the name of a package as its authors write it."""
    return _SPELLED.get(library, library)


def _waiting(facts: VerdictInputs, waits: np.ndarray[Any, np.dtype[np.bool_]], waited: int) -> Verdict:
    names = [str(name) for name in facts.top[waits]["name"]]
    most = int(facts.top[waits].iloc[0]["self_ns"]) > MOST * waited
    elsewhere = meanwhile(facts, (facts.extent.start, facts.extent.end))
    sentence = fill(
        "Wait-bound: {} waits {}, {} in {}{}.",
        "the program" if elsewhere else _who_waits(facts),
        facts.part_of_whole(waited, facts.self_time(tuple(names)), {"name": names}),
        "mostly" if most else "longest",
        short(names[0], 60),
        elsewhere,
    )
    return Verdict("wait-bound", sentence, waited / max(facts.total_ns, 1), {"name": names})


def _who_waits(facts: VerdictInputs) -> str:
    """Return "the program", or the thread's name if other threads were recorded and may have computed."""
    tracks = facts.trace.tracks.set_index("track")
    others = np.unique(on_host(facts.trace).values("track"))
    name = str(tracks["name"][stepping_track(facts.trace)])
    if len(others) == 1:
        return "the program"
    return name if "thread" in name.lower() else f"thread {short(name, 40)}"


def meanwhile(facts: VerdictInputs, window: tuple[int, int], told: Any = None) -> Sentence:
    """Name the other threads and processes that worked in this window, while the recorded thread waited."""
    # `told` is the row of the line that waited, if the sentence names it
    during = {"window": window}
    table, recorded = cpu(facts.trace, **during), facts.trace.metadata.get("cpu")
    if isinstance(recorded, Mapping):
        table = table[table["tid"] != recorded.get("tid")]
    enough, pieces, ran = LITTLE * (window[1] - window[0]), [], []
    for one, several, kinds in _WORKERS:
        rows = table[table["kind"].isin(kinds)]
        if rows["cpu_ns"].sum() < max(enough, 1):
            continue
        # leave out processes that did next to nothing, if others did nearly all of the work
        busy = rows[(rows["cpu_ns"] >= enough) & (rows["pid"] >= 0)]
        if busy["cpu_ns"].sum() >= NEARLY_ALL * rows["cpu_ns"].sum():
            rows = busy
        seen = rows[(rows["pid"] >= 0) & (rows["cpu_ns"] >= _TRIFLE * rows["cpu_ns"].max())]
        counted = seen["cpu_ns"].sum() >= NEARLY_ALL * rows["cpu_ns"].sum()
        rows = seen if counted else rows[rows["cpu_ns"] > 0]  # ignore those that ended at once
        where = {"pid": tuple(rows["pid"].tolist()), "tid": tuple(rows["tid"].tolist()), "kind": kinds}
        spent = cite_ns(int(rows["cpu_ns"].sum()), Source("cpu", "cpu_ns", where, during))
        number = cite(str(len(rows)), len(rows), Source("cpu", "cpu_ns", where, during, "count"))
        who = say(number, f" {one if len(rows) == 1 else several}") if counted else say(several)
        pieces.append(say(who, " used ", spent, " of CPU time"))
        ran.append(rows)
    if not pieces:
        return say()
    return say(", while ", say(*pieces, between=" and "), _because(facts, window, told, pd.concat(ran)))


def awaited(facts: VerdictInputs, window: tuple[int, int], told: Any) -> Sentence:
    """Name the lines at which tasks were suspended in this window, while no task ran."""
    table = lines(facts.trace, window=window)
    table = table[table["awaited_ns"] >= LITTLE * (window[1] - window[0])]
    others = table[(table["file"] != told["file"]) | (table["line"] != told["line"])]
    pieces = []
    for row in others.nlargest(_SUSPENDED, "awaited_ns").to_dict("records"):
        (name, text), where = line_words(row), {"file": str(row["file"]), "line": int(row["line"])}
        source = Source("lines", "awaited_ns", where, {"window": window})
        pieces.append(say(cite(name, int(row["awaited_ns"]), source), text))
    return say(", with tasks suspended at ", say(*pieces, between=" and at ")) if pieces else say()


_ENGINES: Final = re.compile(r"EngineCore|vllm|sglang|ray::", re.IGNORECASE)
"""Names of processes of inference engines."""
_FRAMEWORKS: Final = re.compile(r"[\\/](?:torch[\\/](?!utils[\\/])|vllm[\\/]|sglang[\\/]|jax[\\/])")
_LOADER: Final = re.compile(r"loader \d+")
_OWN_SWITCH: Final = " (`VLLM_ENABLE_V1_MULTIPROCESSING=0` runs it in this process)"


def engine(facts: VerdictInputs, part: Any) -> Sentence | None:
    """Say that a part of the cell waits for a child process whose kernels are not in the recording."""
    window = (int(part["ts"]), int(part["ts"]) + int(part["dur"]))
    during = {"window": window}
    table = cpu(facts.trace, **during)
    table = table[(table["kind"] == "child") & (table["pid"] >= 0)]
    if not len(table) or pd.isna(part["wait_ns"]):
        return None
    row = table.loc[table["cpu_ns"].idxmax()]
    if row["cpu_ns"] < NEARLY_ALL * table["cpu_ns"].sum():  # many share the work
        return None
    pid, name = int(row["pid"]), str(row["name"])
    if not (_ENGINES.search(name) or _runs_framework(facts.trace, pid)):
        return None
    where = {"part": str(part["part"]), "ts": window[0]}
    share = cite_share(
        int(part["wait_ns"]) / max(int(part["dur"]), 1),
        Source("account", "wait_ns", where), Source("account", "dur", where),
    )  # fmt: skip
    process = cite(f"process {pid}", pid, Source("cpu", "pid", {"pid": pid, "tid": -1}, during))
    slices, tracks = facts.trace.slices, facts.trace.tracks
    own = tracks.loc[tracks["pid"] == pid, "track"]
    if (slices["track"].isin(own) & slices["category"].isin(["operator", *DEVICE_CATEGORIES])).any():
        return say("; for ", share, " of it, this process waits for ", process, f" `{short(name)}`")
    return say(
        "; for ", share, " of it, this process waits for ", process, f" `{short(name)}`, whose kernels are "
        "not recorded here: `--children FOLDER` imports what its profiler writes there",
        _OWN_SWITCH if re.search("EngineCore|vllm", name, re.IGNORECASE) else "",
    )  # fmt: skip


def _runs_framework(trace: Trace, pid: int) -> bool:
    """Return whether a process was seen in a framework's code, and loads no data."""
    own = trace.tracks[trace.tracks["pid"] == pid]
    if own["name"].str.match(_LOADER).any():
        return False
    rows = np.flatnonzero(trace.slices["track"].isin(own["track"]))
    known = frames(trace)
    files = known.file[np.unique(known.code[rows])] if len(rows) else ()
    return any(_FRAMEWORKS.search(str(file)) for file in files)


def _because(facts: VerdictInputs, window: tuple[int, int], told: Any, ran: pd.DataFrame) -> Sentence:
    """Name the user's line that these threads ran most of the time, unless it is the line that waited."""
    # `ran`: rows of `cpu`. Lines that sleep or wait used none of the CPU time that the sentence gives.
    tracks = facts.trace.tracks
    here = tracks["tid"].isin(ran["tid"]) | tracks["pid"].isin(ran.loc[ran["kind"] == "child", "pid"])
    here &= (tracks["kind"] == "thread") & (tracks["track"] != stepping_track(facts.trace))
    others = tracks.loc[here.fillna(False), "track"]
    during: dict[str, Any] = {"window": window, "track": tuple(others.tolist())}
    table = lines(facts.trace, **during) if len(others) else facts.hot.table.head(0)
    table = table[[not waits_by_name(f"cell:1  {text}") for text in table["text"]]]
    if not len(table):
        return say()
    row = table.loc[table["self_ns"].idxmax()]
    if int(row["self_ns"]) <= MOST * int(table["self_ns"].sum()):
        return say()
    where = {"file": str(row["file"]), "line": int(row["line"])}
    if told is not None and line_words(told) == line_words(row):
        return say()
    name, text = line_words(row)
    line = cite(name, int(row["line"]), Source("lines", "line", where, during), select=line_select(row))
    return say(", most of it in ", line, text)


def _in_library(
    facts: VerdictInputs, source_lines: SourceFrames, row: int, library: str, name: str
) -> Verdict:
    """Judge a library: its self time, its longest function, and the user's line that calls it."""
    thread = facts.thread
    files = np.array([library_of(str(file), "") == library for file in source_lines.file], dtype=bool)
    inside = files[source_lines.code[thread.rows]]
    inside |= thread.named(lambda word: library_of("", word) == library)
    words = thread.slices["name"].cat.categories
    names = tuple(str(words[code]) for code in np.unique(thread.codes("name")[inside]))
    spent = int(thread.self_ns[thread.among("name", names)].sum())
    caller = _caller(thread, row)
    called = f", called from {caller}" if caller else ""
    line = int(source_lines.line[source_lines.code[row]])
    where = f"{short(name[:-1], 60)}:{line})" if name.endswith(".py)") and line > 0 else short(name, 60)
    own = int(facts.top.loc[facts.top["name"] == name, "self_ns"].iloc[0])
    most = "most of it" if own > MOST * spent else "longest"
    part = facts.part_of_whole(spent, facts.self_time(names), {"name": list(names)})
    sentence = fill("Library-bound: {} is in {}, {} in {}{}.", part, spelled(library), most, where, called)
    return Verdict("library-bound", sentence, spent / max(facts.total_ns, 1), {"name": name})


def _caller(thread: Scope, row: int) -> str:
    """Return the nearest user's line around a slice, as ``line in file:number``; empty if there is none."""
    slices = thread.slices
    parent = ints(slices["parent"])
    words = slices["name"]
    while (row := int(parent[row])) >= 0:
        if line := _LINE.fullmatch(str(words.iloc[row])):
            return f"`{short(line['text'], 60)}` in {line['file']}:{line['line']}"
    return ""
