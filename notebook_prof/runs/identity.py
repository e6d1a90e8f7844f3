"""The identity of a run: its cell, notebook, kernel and revision; and the search for the previous run."""

from __future__ import annotations

import difflib
import io
import os
import tokenize
import uuid
import zlib
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from .. import own_processes
from ..trace.source_lines import text_lines
from .store import Store

ALIKE: Final = 0.6
"""Two sources with at least this share of equal tokens are the same cell, if nothing else decides."""
ALIKE_HERE: Final = 0.8
"""The same threshold within one kernel, in which other cells of the notebook run too."""
RELATED: Final = 0.3
"""Below this, a cell has a new program, and its runs are not compared with earlier ones."""
_LOOK_BACK: Final = 40
_GIT_S: Final = 1.0
_LAYOUT: Final = {tokenize.NEWLINE: "\n", tokenize.INDENT: "\x01", tokenize.DEDENT: "\x02"}
_NO_PROGRAM: Final = (tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER)

_kernel = uuid.uuid4().hex[:16]


def kernel_id() -> str:
    """Return this process's name in the history."""
    return _kernel


def _after_fork() -> None:
    global _kernel
    _kernel = uuid.uuid4().hex[:16]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@dataclass(frozen=True)
class Identity:
    """What identifies a cell when the history is searched for its runs."""

    # Unix ns of the recording; only runs before it are searched
    at_ns: int
    kernel: str
    notebook: str
    cell: str  # the front-end's id; in all fields, empty means unknown
    name: str
    source: str


@dataclass(frozen=True)
class Link:
    """A run, and why it counts as a run of the same cell."""

    run: int
    lineage: int  # first run of that cell
    # ``cell``, ``name`` or ``source`` (program) if that is the same; otherwise, for example, ``87 % alike``
    why: str


def of_run(me: Identity, link: Link | None) -> dict[str, Any]:
    """Return the columns of the history that identify a run and the one before it."""
    before = {} if link is None else {"lineage": link.lineage, "earlier": link.run}
    return {
        **{name: getattr(me, name) for name in ("at_ns", "kernel", "notebook", "cell", "name")},
        "cell_hash": cell_hash(me.source),
        "link": "" if link is None else link.why,
        **before,
    }


@lru_cache(maxsize=256)
def tokens(source: str) -> tuple[str, ...]:
    """Return the program in a source: its tokens, without comments, blank lines and our magic."""
    lines = text_lines(source.lstrip())
    if lines and lines[0].startswith(("%%profile", "%profile")):
        lines = lines[1:]
    magics = tuple(line.strip() for line in lines if line.lstrip().startswith(("%", "!")))
    body = "\n".join("" if line.lstrip().startswith(("%", "!")) else line for line in lines)
    try:
        read = tokenize.generate_tokens(io.StringIO(body + "\n").readline)
        words = [_LAYOUT.get(one.type, one.string) for one in read if one.type not in _NO_PROGRAM]
    except (tokenize.TokenError, SyntaxError):
        words = [line.strip() for line in lines if line.strip()]
    return (*magics, *words)


def cell_hash(source: str) -> str:
    """Return a hash that is equal for sources with the same program."""
    return blake2b("\0".join(tokens(source)).encode("utf-8", "replace"), digest_size=12).hexdigest()


def likeness(a: str, b: str) -> float:
    """Return how similar two sources are, 0–1; 1 if only comments differ."""
    return difflib.SequenceMatcher(None, tokens(a), tokens(b), autojunk=False).ratio()


def earlier_run(store: Store, me: Identity) -> Link | None:
    """Return the run to compare with: one with the same name, cell or program, or the most similar one."""
    # failed runs are skipped; a cell with a new program starts over
    select = "id, coalesce(lineage, id), source"
    newest = "ORDER BY at_ns DESC LIMIT 1"
    same: list[tuple[str, str, tuple[Any, ...]]] = []
    if me.cell:
        same.append(("cell", "notebook = ? AND cell = ?", (me.notebook, me.cell)))
    same.append(("source", "cell_hash = ?", (cell_hash(me.source),)))
    if not tokens(me.source):
        same = [("name", "name = ? AND cell_hash = ?", (me.name, cell_hash(me.source)))] if me.name else []
    for why, where, parameters in same:
        rows = store.select(
            select, f"WHERE NOT failed AND at_ns < ? AND {where} {newest}", (me.at_ns, *parameters)
        )
        if rows and (why != "cell" or likeness(me.source, _text(rows[0][2])) >= RELATED):
            return Link(rows[0][0], rows[0][1], why)
    return _most_alike(store, me) if tokens(me.source) else None


def _most_alike(store: Store, me: Identity) -> Link | None:
    rows = store.select(
        "id, coalesce(lineage, id), source, kernel",
        "WHERE NOT failed AND at_ns < ? AND notebook = ? AND (cell = '' OR ? = '' OR cell = ?) "
        "ORDER BY at_ns DESC LIMIT ?",
        (me.at_ns, me.notebook, me.cell, me.cell, _LOOK_BACK),
    )
    best: tuple[float, Link] | None = None
    for run, lineage, source, kernel in rows:
        share = likeness(me.source, _text(source))
        enough = share >= (ALIKE_HERE if kernel == me.kernel else ALIKE)
        if enough and (best is None or share > best[0]):
            best = share, Link(run, lineage, f"{100 * share:.0f} % alike")
    return None if best is None else best[1]


def _text(source: bytes) -> str:
    return zlib.decompress(source).decode("utf-8")


def revision_of(folder: Path) -> str:
    """Return the checked-out commit of a folder; empty without git."""
    if not any((parent / ".git").exists() for parent in (folder, *folder.parents)):
        return ""  # without a process
    return _git(folder, "rev-parse", "--quiet", "--verify", "HEAD").strip()


def is_dirty(folder: Path) -> bool | None:
    """Return whether tracked files differ from the commit; None if git takes more than 1 s."""
    printed = _git(folder, "status", "--porcelain", "--branch", "--untracked-files=no")
    branch, _, files = printed.partition("\n")
    return bool(files.strip()) if branch.startswith("##") else None


def _git(folder: Path, *words: str) -> str:
    """Return what git prints; empty if it fails or takes more than 1 s."""
    with suppress(OSError):
        printed = own_processes.run(["git", "--no-optional-locks", "-C", str(folder), *words], _GIT_S)
        return "" if printed is None else printed[0]
    return ""


def load_now() -> float | None:
    """Return the average number of threads that wanted a core in the last minute; None if unknown."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None
