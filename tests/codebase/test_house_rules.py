"""Sizes, imports, docstrings and examples that CONTRIBUTING.md promises."""

import ast
import doctest
import graphlib
import importlib
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import notebook_prof

from .source import FILES, PACKAGE, ROOT, imported, module_name, tree

BANNED_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager"}
ROW_LOOPS = re.compile(r"\.(iterrows|itertuples)\(|\.apply\(.*axis\s*=\s*(1|\"columns\")")


def in_files(hits: Callable[[Path], list[str]], files: list[Path] = FILES) -> dict[str, list[str]]:
    """What a rule finds, by file; files without any are left out."""
    return {str(path.relative_to(ROOT)): lines for path in files if (lines := hits(path))}


def lines_of(path: Path) -> list[str]:
    """Lines of a file."""
    return path.read_text(encoding="utf-8").splitlines()


def functions() -> list[tuple[str, int]]:
    """Every function with its length in lines, docstring not counted."""
    lengths = []
    for path in FILES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
                lengths.append((f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", lines))
    return lengths


def test_files_stay_small() -> None:
    sources = [*FILES, *sorted(PACKAGE.rglob("*.js"))]
    lines = {p.relative_to(ROOT): len(p.read_text(encoding="utf-8").splitlines()) for p in sources}
    assert {p: n for p, n in lines.items() if n > 600} == {}
    assert len([p for p, n in lines.items() if n > 400]) <= 5, "a file holds one idea"


def test_small_modules_of_one_user_are_concepts() -> None:
    """What has one importer and under 70 lines joins it, unless it names a concept of the field."""
    lines = {
        module_name(p): len(p.read_text(encoding="utf-8").splitlines()) for p in FILES if not _is_package(p)
    }
    users: dict[str, set[str]] = {name: set() for name in lines}
    for path in FILES:
        for module in imported(path):
            if module in users:
                users[module].add(module_name(path))
    alone = sorted(name for name, users_of in users.items() if len(users_of) == 1 and lines[name] < 70)
    assert len(alone) <= 25, alone


def test_no_modules_import_one_another_in_a_circle() -> None:
    imports_of = {module_name(path): imported(path) for path in FILES}
    order = graphlib.TopologicalSorter({name: imports_of[name] - {name} for name in imports_of})
    order.prepare()  # raises CycleError with the modules of a circle


def _is_package(path: Path) -> bool:
    return path.name == "__init__.py"


def test_functions_stay_short() -> None:
    lengths = sorted(lines for _, lines in functions())
    assert lengths[int(0.95 * len(lengths))] < 50, [f for f in functions() if f[1] >= 50]


def test_no_row_loops_and_no_drawers_for_everything() -> None:
    assert [path for path in FILES if path.stem in BANNED_NAMES] == []
    loops = in_files(lambda path: [line for line in lines_of(path) if ROW_LOOPS.search(line)])
    assert loops == {}, "ten million rows: vectorise"


def test_nothing_committed_names_a_machine() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    # spelled in parts, so that this file does not name them either
    places = re.compile(
        "|".join(["/" + "work/", "/" + "root/", "/" + "opt/pypi", "127.0.0.1:" + r"\d{4}/simple"])
    )
    wrong = []
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if (
            path.suffix in {".py", ".md", ".toml", ".js", ".css", ".ipynb", ".sh", ".yml", ""}
            and path.is_file()
        ):
            if path.is_relative_to(ROOT / "tests" / "data"):
                continue
            text = path.read_text(encoding="utf-8", errors="replace")
            wrong += [f"{name}: {match[0]}" for match in places.finditer(text)]
    assert not wrong


def without_docstring(source: ast.Module) -> list[str]:
    """Lines and names of what can be named from outside and has no docstring."""
    missing = [] if ast.get_docstring(source) else ["1 (module)"]
    todo: list[ast.AST] = list(ast.iter_child_nodes(source))
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            public = not node.name.startswith("_")
            if public and not _is_overload(node) and not ast.get_docstring(node):
                missing.append(f"{node.lineno} {node.name}")
            if not public or not isinstance(node, ast.ClassDef):
                continue  # nobody can name what is inside a function or a private class
        todo += ast.iter_child_nodes(node)
    return missing


def test_public_things_have_docstrings() -> None:
    assert in_files(lambda path: without_docstring(tree(path))) == {}


def _is_overload(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    names = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    return bool(names & {"overload", "override", "setter"})


def test_public_names_have_an_example() -> None:
    names = [name for name in notebook_prof.__all__ if name[0] != "_" and name != "last"]
    things = {name: getattr(notebook_prof, name) for name in names if not name.endswith("_ipython_extension")}
    without = [
        name
        for name, thing in things.items()
        if not (isinstance(thing, type) and issubclass(thing, BaseException))
        and "Examples\n" not in (thing.__doc__ or "")
    ]
    assert without == [], "no runnable example"


def test_examples_run() -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failures = {
        name: failed
        for name in (module_name(path) for path in FILES if ">>>" in path.read_text(encoding="utf-8"))
        if (failed := doctest.testmod(importlib.import_module(name), optionflags=flags).failed)
    }
    assert failures == {}, "what differs is printed above"
