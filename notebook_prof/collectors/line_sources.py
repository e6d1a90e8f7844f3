"""Finds the source text of code that ran, even if its file was edited since."""

from __future__ import annotations

import ast
import functools
import importlib.util
import linecache
import marshal
import os
import sys
import textwrap
import time
import tokenize
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, NamedTuple

from ..trace.source_lines import text_lines

CELLS: Final[dict[str, list[str]]] = {}
"""Lines of cells, by file, where `linecache` numbers lines differently from the interpreter."""

_HEADER_BYTES: Final = 16
"""Size of the header of a byte code file."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_COMPILED: Final = ("__compiled_fn", "__resume_at")
"""Name prefixes in functions rewritten by torch.compile. They appear in no source text."""


class CodePart(NamedTuple):
    """A code object: a module, a class, a function, or a part of an expression."""

    name: str
    function: str  # qualified name
    first_line: int
    last_line: int
    code: CodeType


class Place(NamedTuple):
    """A line of a function."""

    function: str
    first_line: int
    line: int


class Home(NamedTuple):
    """The current place of a part's code."""

    part: CodePart
    written: CodePart
    lines: dict[int, int]  # current line by line of the part's code

    def place(self, line: int) -> Place:
        """Return the current place of a line of the part."""
        earlier = [one for one in self.lines if one <= line]
        at = self.lines[max(earlier)] if earlier else self.written.first_line
        return Place(self.written.function, self.written.first_line, at)


class _Edited(NamedTuple):
    lines: Sequence[str]
    parts: list[CodePart]
    ran: list[CodePart]
    homes: dict[int, Home]  # by position in `ran`; missing for parts that are not in this text
    is_older: bool
    older: int  # the first `older` parts of `ran` are from before a reload


class Reloads:
    """An import finder that finds nothing, and keeps the code of every module before a reload."""

    def __init__(self) -> None:
        self.last_ns: dict[str, int] = {}  # absolute time of the last reload, by file
        self.codes: dict[str, list[CodeType]] = {}  # the code before each reload, by file

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> None:
        """Called by Python's import system before it runs a module; `target` is set for a reload."""
        with suppress(Exception):  # the user's import goes on in any case
            if type(target) is ModuleType and isinstance(file := vars(target).get("__file__"), str):
                self.codes.setdefault(file, []).extend(_code_of([vars(target)], file))
                self.last_ns[file] = time.time_ns()


class Sources:
    """Source texts during one recording. `ran` has the code objects that are known to have run."""

    # A file that has not changed since this process began is taken as it is. Of a changed one, three texts
    # may be known: the current one, that of when its code first ran in the recording, and that of linecache.
    # The first that contains all of the code that ran is used.
    def __init__(self) -> None:
        self.ran: Sequence[CodeType] = ()
        self.reloads = Reloads()
        self.lost: set[tuple[str, Place]] = set()  # lines with unknown text, by file
        self.told: set[str] = set()  # edited files in the report
        self._seen: dict[str, list[str]] = {}
        self._edited: dict[str, _Edited | None] = {}

    def see(self, file: str) -> str:
        """Return the text of a file when its code first ran in the recording."""
        lines = self._seen[file] = lines_now(file)
        return "".join(lines)

    def lines(self, file: str) -> Sequence[str]:
        edited = self._of(file)
        return lines_now(file) if edited is None else edited.lines

    def is_older(self, file: str) -> bool:
        """Return whether `lines` returns an older text than the file's."""
        edited = self._of(file)
        return edited is not None and edited.is_older

    def home(self, code: CodeType) -> Home | None:
        """Return the current place of code that ran; None if the file is unchanged or lacks that code."""
        if (edited := self._of(code.co_filename)) is None:
            return None
        return next((home for home in edited.homes.values() if home.part.code is code), None)

    def is_lost(self, code: CodeType) -> bool:
        """Return whether the file no longer contains code that ran. If so, add its lines to `lost`."""
        edited = self._of(code.co_filename)
        lost = [part for part in edited.ran if part.code is code] if edited is not None else []
        if not lost or self.home(code) is not None:
            return False
        places = (Place(lost[0].function, code.co_firstlineno, line) for *_, line in code.co_lines() if line)
        self.lost |= {(code.co_filename, place) for place in places}
        return True

    def place(self, file: str, seen: Place, first_ns: int = 0) -> Place:
        """Return the current place of a line that ran. If unknown, return `seen` and add it to `lost`."""
        # `first_ns` is when the line was first seen. After the last reload only new code can run.
        if (edited := self._of(file)) is None:
            return seen
        name, line = seen.function.rpartition(".")[2], seen.line
        is_newest = first_ns > self.reloads.last_ns.get(file, first_ns)
        found = {
            number: part
            for number, part in enumerate(edited.ran)
            if part.name == name and part.first_line <= line <= part.last_line
            if not (is_newest and number < edited.older)
        }
        same = {number: part for number, part in found.items() if part.function == seen.function} or found
        homes = [edited.homes.get(number) for number in same]
        places = {None if home is None else home.place(line) for home in homes}
        if not found:  # it was not imported: a script, another process
            inside = [part for part in edited.parts if part.name == name]
            places = {seen} if any(part.first_line <= line <= part.last_line for part in inside) else {None}
        place = places.pop() if len(places) == 1 else None
        if place is None:
            self.lost.add((file, seen))
        return place or seen

    def _of(self, file: str) -> _Edited | None:
        if file not in self._edited:
            now = lines_now(file)
            self._edited[file] = self._compared(file, now) if _written_since(file, _began_s()) else None
        return self._edited[file]

    def _compared(self, file: str, now: Sequence[str]) -> _Edited:
        ran = [
            part
            for code in self.ran
            if code.co_filename == file and not any(name.startswith(_COMPILED) for name in code.co_names)
            for part in parts_of(code)
        ]
        before: list[CodePart] = []
        if not ran:
            before = [part for code in self.reloads.codes.get(file, ()) for part in parts_of(code)]
            ran = [*before, *(part for code in _imported(file) for part in parts_of(code))]
        # linecache has the text from when a line of the file was first shown
        had = [tuple(lines) for lines in (now, self._seen.get(file), linecache.getlines(file)) if lines]
        bare = [_bare(part.code) for part in ran]
        texts: list[_Edited] = []
        for lines in dict.fromkeys(had or [()]):
            code = compiled(lines, file)
            parts = list(parts_of(code)) if code is not None else []
            alike: dict[tuple[str, CodeType], list[CodePart]] = {}
            for part in parts:
                alike.setdefault((part.name, _bare(part.code)), []).append(part)
            found = {n: _home(part, alike.get((part.name, bare[n]), ())) for n, part in enumerate(ran)}
            if not texts and None in found.values():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    rewritten = list(_rewritten(lines, file))
                found |= {
                    n: _rewritten_home(ran[n], parts, rewritten) for n, home in found.items() if home is None
                }
            homes = {number: home for number, home in found.items() if home is not None}
            texts.append(_Edited(lines, parts, ran, homes, bool(texts), len(before)))
        return next((text for text in texts if len(text.homes) == len(ran)), texts[0])


def _home(part: CodePart, alike: Sequence[CodePart]) -> Home | None:
    """Find a part among parts that are equal except for line numbers; None if there are none."""
    if not alike:
        return None
    far = [(one.function != part.function, abs(one.first_line - part.first_line)) for one in alike]
    written = alike[far.index(min(far))]
    pairs = zip(_lines_by_offset(part.code), _lines_by_offset(written.code), strict=True)
    # if only line breaks changed, the first line counts
    return Home(part, written, dict(sorted((pair for pair in pairs if all(pair)), reverse=True)))


def _rewritten_home(
    part: CodePart, parts: Sequence[CodePart], rewritten: Sequence[tuple[CodePart, dict[int, int]]]
) -> Home | None:
    """Find a part that IPython's autoreload compiled from ``ast.unparse``; None if there is none."""
    for other, lines in rewritten:
        if other[1:4] == part[1:4] and _bare(other.code) == _bare(part.code):
            at = Home(part, part, lines).place(part.last_line).line
            around = [one for one in parts if one.name == part.name and one.first_line <= at <= one.last_line]
            if around:
                return Home(part, max(around, key=lambda one: one.first_line), lines)
    return None


def _bare(code: CodeType) -> CodeType:
    """Return a code object without its line numbers."""
    constants = tuple(_bare(one) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.replace(co_firstlineno=1, co_linetable=b"", co_consts=constants)


def _lines_by_offset(code: CodeType) -> list[int]:
    """Return the line of each instruction; 0 for none."""
    return [line or 0 for begin, end, line in code.co_lines() for _ in range(begin, end, 2)]


def _rewritten(lines: Sequence[str], file: str) -> Iterator[tuple[CodePart, dict[int, int]]]:
    """Yield functions as IPython's autoreload compiles them, each with a map to the file's line numbers."""
    # IPython 9 and later compile only the edited functions, each from the output of ast.unparse.
    with suppress(SyntaxError, ValueError, RecursionError):
        for node, in_class in _definitions(ast.parse("".join(lines))):
            text = textwrap.dedent(ast.unparse(node))
            if in_class:
                text = "class __autoreload_class__:\n" + textwrap.indent(text, "    ")
            tree = ast.parse(text)
            made = next(one for one in ast.walk(tree) if isinstance(one, type(node)))
            where = dict(_line_pairs(made, node))
            for decorators in dict.fromkeys((tuple(made.decorator_list), ())):
                made.decorator_list = list(decorators)
                code: CodeType = compile(tree, file, "exec", dont_inherit=True)
                yield from ((part, where) for part in parts_of(code))


def _definitions(tree: ast.AST, in_class: bool = False) -> Iterator[tuple[_Function, bool]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node, in_class
        elif isinstance(node, ast.ClassDef):
            yield from _definitions(node, True)


def _line_pairs(made: ast.AST, written: ast.AST) -> Iterator[tuple[int, int]]:
    """Yield pairs of line numbers: of a statement in the unparsed function, and in the file."""
    kinds = ast.stmt | ast.excepthandler
    statements = ([one for one in ast.walk(tree) if isinstance(one, kinds)] for tree in (made, written))
    for one, other in zip(*statements, strict=True):
        decorated = zip(getattr(one, "decorator_list", ()), getattr(other, "decorator_list", ()), strict=True)
        yield from ((a.lineno, b.lineno) for a, b in ((one, other), *decorated))


def newest_file(function: str, line: int, files: Sequence[str]) -> str | None:
    """Return the last of these files in which a function of this name has this line; None without one."""
    name = function.rpartition(".")[2]
    for file in reversed(files):
        code = compiled(lines_now(file), file)
        parts = parts_of(code) if code is not None else ()
        if any(part.name == name and part.first_line <= line <= part.last_line for part in parts):
            return file
    return None


def lines_now(file: str) -> list[str]:
    """Return the current lines of a file, even if `linecache` is out of date; empty if unreadable."""
    if file in CELLS:
        return CELLS[file]
    size, mtime, _, path = (*linecache.cache.get(file, ()), *(None,) * 4)[:4]
    if isinstance(mtime, float):
        with suppress(OSError, SyntaxError, UnicodeError):
            stat = os.stat(str(path))
            if (size, mtime) != (stat.st_size, stat.st_mtime):
                return _read(str(path), stat.st_mtime_ns, stat.st_size)
    try:
        return linecache.getlines(file)
    except ValueError:  # the file's name contains a NUL character
        return []


@functools.lru_cache(maxsize=16)
def _read(file: str, mtime_ns: int, size: int) -> list[str]:
    """Read the lines of a file and leave `linecache` alone, since its text may be what ran."""
    with tokenize.open(file) as stream:
        return [f"{line}\n" for line in text_lines(stream.read())]


def _written_since(file: str, begin_s: float) -> bool:
    if linecache.cache.get(file, (0, None))[1:2] == (None,):
        return False  # a cell, of which a debugger may have written a file
    try:
        stat = os.stat(file)
    except (OSError, ValueError):
        return False
    return max(stat.st_mtime, stat.st_ctime) >= begin_s  # a copy may keep the time of what it copies


@functools.lru_cache(maxsize=1)
def _began_s() -> float:
    """Return when this process began."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])  # since the machine was booted
    except OSError:
        import psutil

        return float(psutil.Process().create_time())
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - age_s


def _imported(file: str) -> Iterator[CodeType]:
    """Yield the code of a module's current functions and methods."""
    # an attribute of a lazy module would load it
    modules = [
        object.__getattribute__(module, "__dict__")
        for name, module in tuple(sys.modules.items())
        if name != "__main__" and issubclass(type(module), ModuleType)
    ]
    return _code_of([names for names in modules if names.get("__file__") == file], file)


def _code_of(modules: Sequence[dict[str, Any]], file: str) -> Iterator[CodeType]:
    waiting: list[Any] = list(modules)
    own = [names.get("__name__") for names in waiting]
    kinds = (FunctionType, staticmethod, classmethod, property, type)
    known: set[int] = set()
    while waiting:
        one = waiting.pop()
        if type(one) is FunctionType:
            waiting.append(one.__dict__.get("__wrapped__"))
            if one.__code__.co_filename == file:
                yield one.__code__
        elif type(one) in (staticmethod, classmethod):
            waiting.append(one.__func__)
        elif type(one) is property:
            waiting += (one.fget, one.fset, one.fdel)
        elif type(one) is dict:
            waiting += [value for value in tuple(one.values()) if issubclass(type(value), kinds)]
        elif issubclass(type(one), type) and id(one) not in known:
            known.add(id(one))
            names = dict(type.__getattribute__(one, "__dict__"))
            waiting += [names] if names.get("__module__") in own else []


def parts_of(code: CodeType, outer: str = "") -> Iterator[CodePart]:
    """Yield a code object and all nested ones."""
    lines = [line for *_, line in code.co_lines() if line]
    name = getattr(code, "co_qualname", f"{outer}{code.co_name}")
    yield CodePart(code.co_name, name, code.co_firstlineno, max(lines, default=code.co_firstlineno), code)
    inner = f"{name}.<locals>." if code.co_flags & 1 else f"{name}."  # 1: CO_OPTIMIZED, a function
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from parts_of(constant, "" if code.co_name == "<module>" else inner)


def compiled(lines: Sequence[str], file: str) -> CodeType | None:
    """Compile a module or cell; None if it does not compile."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            code: CodeType = compile("".join(lines), file, "exec", flags=flags, dont_inherit=True)
            return code
    except (SyntaxError, ValueError, RecursionError):
        return None


def cached_code(file: str) -> CodeType | None:
    """Return a module's cached byte code."""
    try:
        with open(importlib.util.cache_from_source(file), "rb") as stream:
            data = stream.read()
        if data[:4] != importlib.util.MAGIC_NUMBER:
            return None
        code = marshal.loads(data[_HEADER_BYTES:])
    except (OSError, ValueError, EOFError, TypeError, NotImplementedError):
        return None
    return code if isinstance(code, CodeType) else None
