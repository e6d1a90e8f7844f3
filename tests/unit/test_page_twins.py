"""The page's own answers against Python's: cases are written here and answered in Node.js by js/test."""

from __future__ import annotations

import base64
import json
import random
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from notebook_prof.errors import OptionError
from notebook_prof.profiles.profile import Profile
from notebook_prof.selection import Query
from notebook_prof.service.answers import MAX_ROWS
from notebook_prof.service.store import ViewStore
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.units import format_bytes, format_clock, format_count, format_ns, format_share
from notebook_prof.views.page_queries import PageQueries
from notebook_prof.views.report import report
from notebook_prof.views.report.html_file import data_blocks, json_text
from notebook_prof.views.report.report import trace_blocks
from notebook_prof.views.report.report_columns import payload

from ..browser.drawn import drawn_profile
from ..draws import EXPLORE
from ..filters import FILTERS, drawn_filters
from ..many import KEPT, many_slices
from ..node import node
from .test_arguments_in_file import made
from .test_drawn_rows import folded_trace
from .test_units import CLOCKS

TIMELINE = {"t": "timeline", "a": 0.0, "b": 2e8, "px": 900, "rows": [0, 1, 2, 3, 4, 5]}
REQUESTS: list[dict[str, Any]] = [
    {"t": "table", "by": "name"},
    {"t": "table", "by": "module", "sort": "total_ns"},
    {"t": "table", "by": "category", "sort": "mean_ns"},
    {"t": "table", "by": "name", "sort": "max_ns", "by_side": True},
    {"t": "table", "by": "name", "waits": False},
    {"t": "table", "by": "name", "sort": "device_ns", "by_side": True},
    {"t": "table", "by": "name", "sort": "total_ns", "by_side": True, "descending": False},
    {"t": "table", "by": "name", "filter": "conv self>1ms", "scope": "host"},
    {"t": "table", "by": "name", "filter": "/^aten::(add|copy)_$/", "sort": "label", "descending": False},
    {"t": "memory", "a": 0.0, "b": 2e8, "px": 900},
    {"t": "memory", "a": 1e7, "b": 3e7, "px": 5},
    {"t": "phases"},
    {"t": "account"},
    {**TIMELINE, "max_quads": 4000},
    {**TIMELINE, "a": 1e7, "b": 9e7, "px": 300, "max_quads": 50, "tint": "phase"},
    {**TIMELINE, "max_quads": 400, "find": "conv self>10us"},
    {**TIMELINE, "rows": [0, 1, 2], "max_quads": 400, "find": "count>3"},
    {"t": "strip", "px": 500},
    {"t": "strip", "px": 300, "tint": "module"},
    {"t": "strip", "px": 300, "tint": "step"},
    {"t": "legend", "tint": "name"},
    {"t": "legend", "tint": "module"},
    {"t": "legend", "tint": "step"},
    {"t": "detail", "id": 40},
    {"t": "find", "id": 40, "by": 1},
    {"t": "counters", "a": 1e7, "b": 1.5e8, "px": 40, "tracks": [3, 4, 5]},
    {"t": "table", "by": "name", "scope": "device"},
    {"t": "table", "by": "name", "start": 3, "top": 4, "sort": "count"},
    {"t": "neighbour", "id": 12, "to": "parent"},
    {"t": "neighbour", "id": 4, "to": "child"},
    {"t": "neighbour", "id": 12, "to": "next"},
    {"t": "neighbour", "id": -1, "row": 1, "at": 20_000_000},
    {"t": "search", "text": "conv self>1ms", "px": 200, "at": 30_000_000},
    {"t": "search", "text": "/add_$/", "px": 200, "id": 40, "by": -1},
    {"t": "search", "text": "count>3", "px": 20},
    {"t": "calls", "names": ["aten::conv2d", "ProfilerStep#1"], "step": 1, "device": False, "place": 0},
    {"t": "calls", "names": ["f", "gemm"], "step": None, "device": True, "place": 1},
    {**TIMELINE, "a": -1e8, "b": 3e8, "px": 400, "rows": [0, 1, 2, 5], "max_quads": 10, "tint": "module"},
    {"t": "selected", "a": -1e8, "b": 3e8},
    {"t": "selected", "a": 31_000_000.5, "b": 50_000_000.25},
]
SELECTIONS: list[dict[str, Any]] = [
    {},
    {"window": (31_000_000, 120_000_123)},
    {"name": "aten::conv2d"},
    {"step": [4, 5], "phase": "forward", "window": ("20ms", "90ms")},
    {"category": "kernel"},
    {"category": "kernel", "track": [0, 1, 2]},
    {"name": ["ProfilerStep#1", "aten::conv2d"]},
]
PATTERNS = (
    *("conv", "^aten::", "backward$", "a.c", "[a-f]+x", "[^a-z]", "a|b|", "(?:conv|mm)+", "x*", "x+?y"),
    *("(a)(b)?c", r"\bmm\b", r"\d+", r"\D\W\S", r"[\d_]x", r"a{2}", r"a{1,3}b", r"a{2,}", r"\.", r"\x41"),
    *(r"[\]a]", "[]a]", "[a-]", r"^$", r"(?P<n>a)b", r"\Aaten", r"mm\z", "((a*)*)*b", "(a?){9}a{9}"),
    *("[A-Z]{3}", r"\Bm", "ß|ä", "a{0}b", "{", "}"),
)
REFUSED = ("(", "a)", "[a", "*a", "a**", "(?=a)", "(?<!a)b", r"\1", "a{2000}", "[z-a]", "\\")


def _tangled() -> Profile:
    """Recursion, a call passed on, a slice that outlasts its parent, and work launched from deep inside."""
    classes = pd.DataFrame({"module": ["net"], "parameters": 0, "parameter_bytes": 0, "class": ["Net"]})
    builder = TraceBuilder(metadata={"tables": {"modules": classes}})
    main = builder.track("main", pid=1, tid=1)
    stream = builder.track("stream 7", "stream", device=0, stream=7)
    names = ["f", "f", "mm", "f", "aten::div_", "aten::div_", "long", "late", "inside late"]
    ts = np.array([0, 5, 10, 12, 60, 61, 80, 95, 97]) * 10**6
    dur = np.array([50, 40, 20, 10, 9, 7, 20, 30, 1]) * 10**6
    host = builder.slices(ts=ts, dur=dur, name=names, track=main, step=[0] * 6 + [1] * 3, module="net")
    marks = builder.track("steps", pid=1, tid=2)
    acquire = "<built-in method acquire of _thread.lock object at 0x7f{}>"

    def add(ms: list[int], dur_ms: list[int], name: Any, category: str, track: int) -> Any:
        times = {"ts": np.array(ms) * 10**6, "dur": np.array(dur_ms) * 10**6}
        return builder.slices(**times, name=name, category=category, track=track)

    add([0, 80], [80, 50], ["ProfilerStep#0", "ProfilerStep#1"], "annotation", marks)
    add([140], [1], "cudaStreamSynchronize", "sync", marks)
    add([150, 152], [1, 1], [acquire.format("a0"), acquire.format("b0")], "python", marks)
    work = add([20, 70, 110], [30, 15, 40], "gemm", "kernel", stream)
    builder.flows("launch", host[[3, 5, 8]], work)
    add([65, 72], [90, 5], ["epoch", "inner"], "annotation", stream)
    builder.steps(step=[0, 1], ts=[0, 80 * 10**6], dur=[80 * 10**6, 50 * 10**6], source="loop")
    return Profile(builder.seal())


def _drawn_trace(seed: int) -> Trace:
    """Slices at random, of which some overlap in part, with launched work, steps, phases and modules."""
    rng = np.random.default_rng(seed)
    builder = TraceBuilder()
    names = ["f", "g", "aten::mm", "aten::conv2d", "backward", "cell:7  y = f(x)", "train.py:3  g()"]
    frames = [("main", "train.py", 3), ("step", "train.py", 9), ("<listcomp>", "", 0), ("mm", "net.py", 0)]
    stacks = [-1, *(builder.stack(frames[: i % 4 + 1] + frames[i // 2 :] * 12) for i in range(5))]
    hosts = []
    for k in range(int(rng.integers(1, 4))):
        n = int(rng.integers(5, 150))
        hosts.append(
            builder.slices(
                ts=np.sort(rng.integers(0, 10**8, n)),
                dur=rng.integers(10**4, 10 ** int(rng.integers(5, 8)), n),
                name=[names[i] for i in rng.integers(0, len(names), n)],
                track=builder.track(f"thread {k}", pid=1, tid=k),
                category=[("operator", "python", "annotation")[i] for i in rng.integers(0, 3, n)],
                phase=[("forward", "backward", "data")[i] for i in rng.integers(0, 3, n)],
                step=rng.integers(0, 4, n),
                module=[("net", "net.layer")[i] for i in rng.integers(0, 2, n)],
                stack=[stacks[i % len(stacks)] for i in range(n)],
            )
        )
    if seed % 3:
        n = int(rng.integers(3, 40))
        work = builder.slices(
            ts=np.cumsum(rng.integers(10**5, 2 * 10**6, n)),
            dur=rng.integers(10**4, 10**5, n),
            name=[("gemm", "relu")[i] for i in rng.integers(0, 2, n)],
            category="kernel",
            track=builder.track("stream 7", "stream", device=0, stream=7),
        )
        builder.flows("launch", rng.choice(np.concatenate(hosts), n), work)
    edges = np.arange(4) * 25 * 10**6
    builder.steps(step=np.arange(4), ts=edges, dur=np.full(4, 25 * 10**6), source="loop")
    return builder.seal()


def _questions(
    profile: Profile, state: dict[str, Any], requests: list[dict[str, Any]], protocol: PageQueries
) -> list[dict[str, Any]]:
    profile.selection.clear()
    profile.selection.update(**state)
    plain = {key: value for key, value in profile.selection.to_state().items() if key != "revision"}
    out = []
    for request in requests:
        while (answer := protocol.answer(request))[0].get("pending"):
            time.sleep(0.05)  # a busy machine
        content, buffers = answer
        texts = [base64.b64encode(part).decode("ascii") for part in buffers]
        out.append({"state": plain, "request": request, "content": content, "buffers": texts})
    profile.selection.clear()
    return out


def _case(
    name: str, profile: Profile, folder: Path, cases: list[tuple[dict[str, Any], Any]]
) -> dict[str, Any]:
    """A report and what the kernel answers to each request under each state."""
    protocol = PageQueries(profile.trace, profile.selection)
    questions = [each for state, requests in cases for each in _questions(profile, state, requests, protocol)]
    path = folder / f"{name}.html"
    if len(profile.trace.slices) > report.MOST_SLICES:
        path.write_text(data_blocks(trace_blocks(profile.trace, "", report.MOST_BYTES, with_tabs=False)))
    else:
        # without the tabs, which take longer than everything else
        given = payload(ViewStore(profile.trace, fold=True), None, len(profile.trace.slices) + 1)
        panels = {"tabs": {}, "focus": True}
        path.write_text(data_blocks({"nbp-given": json_text(given), "nbp-panels": json_text(panels)}))
    return {"name": name, "file": str(path), "questions": questions}


def _requests_of(trace: Trace, rng: random.Random) -> list[dict[str, Any]]:
    """Requests about a drawn trace."""
    end = max(trace.span.end, 1)
    a, b = sorted((rng.uniform(-0.2, 1.0) * end, rng.uniform(0.1, 1.2) * end))
    rows = list(range(ViewStore(trace, fold=True).columns.n_rows))[:MAX_ROWS]
    slices = [rng.randrange(len(trace.slices)) for _ in range(3)]
    window = {"a": a, "b": max(b, a + 1), "px": rng.choice([7, 90, 900])}
    neighbours = [
        {"t": "neighbour", "id": i, "to": to} for i in slices for to in ("next", "previous", "parent")
    ]
    names = trace.slices["name"]
    calls = [{"t": "calls", "names": [names[i]], "step": i % 4, "device": i % 2 > 0, "id": i} for i in slices]
    return [
        *({"t": "table", "by": by, "scope": "all", "top": 1000} for by in ("name", "category")),
        {"t": "timeline", **window, "rows": rows, "max_quads": rng.choice([3, 4000]), "tint": "category"},
        {"t": "strip", "px": 50},
        {"t": "phases"},
        {"t": "account"},
        {"t": "memory", **window},
        {"t": "selected", "a": window["a"], "b": window["b"]},
        *({"t": "detail", "id": i} for i in slices),
        *({"t": "find", "id": i, "by": by} for i in slices for by in (1, -1)),
        *calls,
        *neighbours,
        {"t": "search", "text": "depth=0", "px": 30, "at": int(a)},
        {"t": "search", "text": "line=7", "px": 30, "at": int(a)},
        {"t": "table", "by": "name", "filter": "line!=train.py:3", "top": 1000},
    ]


def _drawn_case(number: int, folder: Path) -> dict[str, Any]:
    trace, rng = _drawn_trace(number), random.Random(number)
    names = trace.slices["name"].astype(str).tolist()
    span = max(trace.span.end, 2)
    states: list[dict[str, Any]] = [
        {},
        {"window": (rng.randrange(span // 2 + 1), span // 2 + 1 + rng.randrange(span))},
        {"name": sorted({rng.choice(names), rng.choice(names)})},
        {"category": [str(trace.slices["category"].astype(str).iloc[0])]},
        {"line": ["cell:7", "nowhere:1"]},
    ]
    requests = _requests_of(trace, rng)
    return _case(f"drawn {number}", Profile(trace), folder, [(state, requests) for state in states])


def _filtered(folder: Path) -> dict[str, Any]:
    requests: list[dict[str, Any]] = []
    for text in FILTERS:
        requests += [{"t": "table", "by": by, "filter": text, "top": 1000} for by in ("name", "category")]
        requests += [{"t": "table", "by": by, "filter": text, "scope": "host"} for by in ("module", "name")]
        requests += [{"t": "search", "text": text, "px": 300}]
    state = {"phase": ["forward", "backward"], "window": ("10ms", "150ms")}
    return _case("filters", drawn_profile(gpu=True), folder, [(state, requests)])


def _totals(folder: Path) -> list[dict[str, Any]]:
    """Reports that hold a part of their slices one by one, and of the others sums."""
    out = []
    with pytest.MonkeyPatch.context() as patch:
        for name, profile, most in (
            ("many", Profile(many_slices()), KEPT),
            ("few", drawn_profile(gpu=True), 300),
        ):
            patch.setattr(report, "MOST_SLICES", most)
            groupings = PageQueries(profile.trace, profile.selection).answer({"t": "meta"})[0]["groupings"]
            requests = [{"t": "table", "by": by, "top": 1000} for by in groupings]
            out.append(_case(name, profile, folder, [({}, requests)]))
    return out


def _parsed(text: str) -> dict[str, Any] | str:
    try:
        query = Query.parse(text)
    except OptionError as error:
        return str(error)
    conditions = [
        [c.field, c.operator, [list(v) if isinstance(v, tuple) else v for v in c.value]]
        if isinstance(c.value, tuple)
        else list(c)
        for c in query.conditions
    ]
    patterns = [pattern.replace("\\/", "/") for pattern in query.patterns]
    return {"words": list(query.words), "patterns": patterns, "conditions": conditions}


def _names() -> list[str]:
    drawn = random.Random(5)
    words = ["aten::mm", "aten::conv2d_backward", "", "x\ny", "aab", "aaab", "AAB", "mm", "mmm", "a-c"]
    letters = "aabbcxyz:_.-]\n 19AZ{}"
    return [*words, "12_x", "12_x", "äß"] + [
        "".join(drawn.choices(letters, k=drawn.randrange(14))) for _ in range(300)
    ]


def _patterns() -> dict[str, Any]:
    names = _names()
    matches = [
        [pattern, Query(patterns=(pattern,)).finds_in(names).astype(int).tolist()] for pattern in PATTERNS
    ]
    return {"names": names, "found": matches, "refused": list(REFUSED)}


def _numbers() -> list[list[Any]]:
    rng = random.Random(3)
    sizes = [0, 1, 7, 999, 999.9, 1023, 1024, 1234, 999_999, 45_600_000, 125e9, 3.6e12]
    sizes += [rng.uniform(0, 10) * 10 ** rng.randrange(14) for _ in range(200)]
    clocks = [list(each) for each, _ in CLOCKS]
    drawn = [(1.7**k * 1e6 + k, 10.0 ** (k % 12), 1.7**k * 2e6) for k in range(40)]
    clocks += [[sign * a, b, c] for a, b, c in drawn for sign in (1, -1)]
    return [
        *(["time", [x], format_ns(x)] for x in (*sizes, -45_600_000)),
        # the page goes on with the smaller unit up to 1024 of it
        *(
            ["bytes", [x], text]
            for x in map(int, sizes)
            if not re.match(r"1(\.\d+)? [KMGT]", text := format_bytes(x))
        ),
        *(["share", [x], format_share(x)] for x in (0, 1e-6, 0.8231, 1, *(rng.random() for _ in range(50)))),
        *(["count", [x], format_count(x)] for x in map(int, sizes)),
        *(["clock", each, format_clock(*each)] for each in clocks),
    ]


def test_the_page_answers_as_python_does(tmp_path: Path) -> None:
    """All tests of js/test, with Python's cases."""
    arguments = Profile(made(300, 40))
    cases = {
        "reports": [
            *(
                _case(name, profile, tmp_path, [(state, REQUESTS) for state in SELECTIONS])
                for name, profile in (
                    ("training", drawn_profile(gpu=True)),
                    ("tangled", _tangled()),
                    ("folded", Profile(folded_trace())),
                )
            ),
            _case("arguments", arguments, tmp_path, [({}, [{"t": "detail", "id": i} for i in range(40)])]),
            # 72: an edge of a bin lies within a nanosecond
            *(_drawn_case(seed, tmp_path) for seed in (*range(5 if EXPLORE else 2), 72)),
        ],
        "filtered": [_filtered(tmp_path)],
        "totals": _totals(tmp_path),
        "filters": [[text, _parsed(text)] for text in [*FILTERS, *drawn_filters(1000)]],
        "patterns": _patterns(),
        "numbers": _numbers(),
    }
    assert sum(isinstance(parsed, str) for _, parsed in cases["filters"]) > 30, "the corpus has errors too"
    for pattern in REFUSED:
        with pytest.raises(OptionError):
            Query.parse(f"/{pattern}/")
    path = tmp_path / "cases.json"
    path.write_text(json.dumps(cases))
    done = node("vitest", "run", "--no-isolate", NBP_CASES=str(path))
    assert not done.returncode, done.stdout[-6000:] + done.stderr[-2000:]
    assert re.search(r"Tests\s+\d+ passed \(\d+\)", done.stdout), "none was left out: " + done.stdout[-600:]
