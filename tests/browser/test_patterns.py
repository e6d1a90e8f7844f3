"""The report's own regular expressions against RE2, and what would freeze a page that goes back."""

from __future__ import annotations

import random

from notebook_prof.errors import OptionError
from notebook_prof.selection import Query
from notebook_prof.views.bundle import script

from .jupyter_page import Browser

PATTERNS = (
    *("conv", "^aten::", "backward$", "a.c", "[a-f]+x", "[^a-z]", "a|b|", "(?:conv|mm)+", "x*", "x+?y"),
    *("(a)(b)?c", r"\bmm\b", r"\d+", r"\D\W\S", r"[\d_]x", r"a{2}", r"a{1,3}b", r"a{2,}", r"\.", r"\x41"),
    *(r"[\]a]", "[]a]", "[a-]", r"^$", r"(?P<n>a)b", r"\Aaten", r"mm\z", "((a*)*)*b", "(a?){9}a{9}"),
    *("[A-Z]{3}", r"\Bm", "ß|ä", "a{0}b", "{", "}"),
)
REFUSED = ("(", "a)", "[a", "*a", "a**", "(?=a)", "(?<!a)b", r"\1", "a{2000}", "[z-a]", "\\")
FREEZING = ("(a+)+$", "(a|a)*b", "(a|aa)+$", "(.*a){20}", "(?:a?){40}a{40}", "(([a-z])+.)+[A-Z]([a-z])+$")
RUN = """([pairs]) => pairs.map(([pattern, texts]) => {
    try { const p = new Pattern(pattern); return texts.map((text) => p.test(text)); }
    catch (error) { return error.message; }
})"""


def texts() -> list[str]:
    drawn = random.Random(5)
    words = [
        "aten::mm",
        "aten::conv2d_backward",
        "",
        "aab",
        "x\ny",
        "aaab",
        "AAB",
        "mm",
        "mmm",
        "a-c",
        "12_x",
    ]
    letters = "aabbcxyz:_.-]\n 19AZ{}"
    return [*words, "äß"] + ["".join(drawn.choices(letters, k=drawn.randrange(14))) for _ in range(300)]


def test_they_find_what_re2_finds(browser: Browser) -> None:
    browser.page.goto("about:blank")
    browser.page.evaluate(f"() => {{ {script(('filter/patterns',))}\n window.Pattern = Pattern; }}")
    names = texts()
    found = browser.page.evaluate(RUN, [[[pattern, names] for pattern in PATTERNS]])
    for pattern, theirs in zip(PATTERNS, found, strict=True):
        ours = Query(patterns=(pattern,)).finds_in(names).tolist()
        differ = [name for name, a, b in zip(names, ours, theirs, strict=True) if a != b]
        assert not differ, (pattern, differ[:5])
    for pattern, theirs in zip(
        REFUSED, browser.page.evaluate(RUN, [[[p, [""]] for p in REFUSED]]), strict=True
    ):
        assert isinstance(theirs, str), pattern
        try:
            Query.parse(f"/{pattern}/")
        except OptionError:
            continue
        raise AssertionError(pattern)


def test_no_pattern_freezes_the_page(browser: Browser) -> None:
    browser.page.goto("about:blank")
    browser.page.evaluate(f"() => {{ {script(('filter/patterns',))}\n window.Pattern = Pattern; }}")
    found = browser.page.evaluate(RUN, [[[pattern, ["a" * 41 + "!"] * 100] for pattern in FREEZING]])
    assert [len(answers) for answers in found] == [100] * len(FREEZING)
    assert not any(found[0])
