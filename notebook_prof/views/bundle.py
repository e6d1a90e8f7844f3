"""The page's code and styles: the result of ``make js``, and BokehJS from the installed wheel."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal

PAGE: Final = Path(__file__).parent / "page"
"""Folder of the built scripts, the styles and the figures of the page."""
BOKEHJS: Final = ("bokeh",)
# Read without importing Bokeh, for which the prompt of a profiled cell would wait.
VERSION: Final[str] = version("bokeh")
"""Version of Bokeh and BokehJS."""

Entry = Literal[
    "profile_widget",
    "profile_report",
    "rank_widget",
    "rank_report",
    "comparison_widget",
    "comparison_report",
    "live_widget",
    "cells_widget",
]
"""The files of ``js/src/entries``: views and reports of a profile, of ranks and of a comparison, the view of
a running recording, and the messages from a watched notebook to the editor."""


_IMPORTS: Final = re.compile(r'(?:import(?:\{[^}]*\}from)?"[^"]*";)*')
_IMPORT: Final = re.compile(r'import(?:\{([^}]*)\}from)?"[^"]*?([^"/]*)\.js";')
_EXPORTS: Final = re.compile(r"export\{([^}]*)\};\s*$")
"""Imports and exports as esbuild writes them: at the start and at the end of a file."""


@cache
def script(entry: Entry) -> str:
    """Return an entry as one self-contained ES module."""
    return joined(PAGE, entry)


def joined(folder: Path, entry: Entry) -> str:
    """Return an entry and its chunks as one ES module."""
    # Each chunk is in the folder once for all entries. It becomes a function that is called at once and
    # returns its exports.
    functions: dict[str, str] = {}
    text = _linked((folder / f"{entry}.js").read_text(encoding="utf-8"), folder / "chunks", functions)
    return "".join([*functions.values(), text])


def _linked(text: str, chunks: Path, functions: dict[str, str]) -> str:
    """Return a file whose imports are replaced by constants, and add its chunks to `functions`."""
    head = _IMPORTS.match(text)
    end = head.end() if head is not None else 0
    constants = []
    for names, chunk in _IMPORT.findall(text[:end]):
        if chunk not in functions:
            body = _linked((chunks / f"{chunk}.js").read_text(encoding="utf-8"), chunks, functions)
            body = _EXPORTS.sub(lambda last: f"return{{{_renamed(last[1], from_left=False)}}}", body)
            functions[chunk] = f"const chunk_{chunk}=(()=>{{{body}}})();\n"
        if names:
            constants.append(f"const{{{_renamed(names, from_left=True)}}}=chunk_{chunk};")
    return "".join([*constants, text[end:]])


def _renamed(names: str, *, from_left: bool) -> str:
    """Return ``a as b,c`` as properties: ``a:b,c`` for an import, ``b:a,c`` for an export."""
    pairs = [name.split(" as ") for name in names.split(",")]
    return ",".join(":".join(pair if from_left else pair[::-1]) for pair in pairs)


Style = Literal["dashboard", "ranks", "comparison", "live"]
"""Names of style sheets: the page, additions for two other pages, and the running recording."""


@cache
def stylesheet(name: Style = "dashboard") -> str:
    return (PAGE / f"{name}.css").read_text(encoding="utf-8")


def bokehjs() -> list[bytes]:
    """Return the page's BokehJS files, in the version that made the document."""
    folder = files("bokeh") / "server" / "static" / "js"
    return [(folder / f"{name}.min.js").read_bytes() for name in BOKEHJS]
