"""The report's filter language, written in JavaScript, against Python's: one corpus, the same answers."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

from notebook_prof.errors import OptionError
from notebook_prof.selection import Query
from notebook_prof.views.bundle import script
from notebook_prof.views.page_queries import PageQueries

from ..filters import FILTERS, drawn_filters
from .drawn import drawn_profile
from .jupyter_page import Browser

PARSE = """(texts) => texts.map((text) => {
    try {
        const q = parseQuery(text);
        return {words: q.words, patterns: q.patterns.map((p) => p.source), conditions: q.conditions};
    } catch (error) { return error.message; }
})"""
ASK = """async (requests) => {
    const v = document.querySelector('.nbp-host').nbp, out = [];
    for (const request of requests) {
        const {content, buffers} = await v.transport.request(request);
        const bytes = (b) => Array.from(new Uint8Array(b.buffer, b.byteOffset, b.byteLength));
        out.push([content, buffers.map((b) => btoa(bytes(b).map((c) => String.fromCharCode(c)).join('')))]);
    }
    return out;
}"""


def _python(text: str) -> dict[str, Any] | str:
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
    return {
        "words": list(query.words),
        "patterns": [pattern.replace("\\/", "/") for pattern in query.patterns],
        "conditions": conditions,
    }


def _sentence(error: str) -> str:
    """Why an expression is none is said in the words of each language's own engine."""
    return re.sub(r"(is not a regular expression:).*", r"\1", error)


def test_both_parsers_read_the_same(browser: Browser) -> None:
    texts = [*FILTERS, *drawn_filters(3000)]
    browser.page.goto("about:blank")
    browser.page.evaluate(
        f"() => {{ {script(('filter/patterns', 'filter/query'))}\n window.parseQuery = parseQuery; }}"
    )
    found = browser.page.evaluate(PARSE, texts)
    refused = 0
    for text, theirs in zip(texts, found, strict=True):
        ours = _python(text)
        if isinstance(ours, str):
            refused += 1
            assert _sentence(theirs) == _sentence(ours), text
        else:
            theirs["patterns"] = [pattern.replace("\\/", "/") for pattern in theirs["patterns"]]
            assert theirs == ours, text
    assert refused > 100, "the corpus has errors too"


def test_both_keep_the_same_rows(browser: Browser, tmp_path: Path) -> None:
    profile = drawn_profile(gpu=True)
    profile.selection.update(phase=["forward", "backward"], window=("10ms", "150ms"))
    profile.to_html(tmp_path / "report.html")
    browser.page.goto((tmp_path / "report.html").as_uri())
    browser.page.wait_for_function("() => document.querySelector('.nbp-host')?.nbp?.counts.table")
    protocol = PageQueries(profile.trace, profile.selection)
    requests: list[dict[str, Any]] = []
    for text in FILTERS:
        requests += [{"t": "table", "by": by, "filter": text, "top": 1000} for by in ("name", "category")]
        requests += [{"t": "table", "by": by, "filter": text, "scope": "host"} for by in ("module", "name")]
        requests += [{"t": "search", "text": text, "px": 300}]
    for request, (theirs, texts) in zip(requests, browser.page.evaluate(ASK, requests), strict=True):
        ours, buffers = protocol.answer(request)
        assert _sentence(theirs["error"]) == _sentence(ours["error"]), request
        if request["t"] == "search":
            assert (theirs["count"], theirs["id"]) == (ours["count"], ours["id"]), request
            assert base64.b64decode(texts[0]) == bytes(buffers[0]), request
        else:
            assert theirs["rows"] == ours["rows"], request
            assert sorted(theirs["label"]) == sorted(ours["label"]), request
            assert (theirs["count"], theirs["self_ns"]) == (ours["count"], ours["self_ns"]), request
    browser.page.goto("about:blank")
