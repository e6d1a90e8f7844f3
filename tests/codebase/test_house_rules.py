"""Sizes, imports, docstrings and examples that CONTRIBUTING.md promises."""

import ast
import doctest
import graphlib
import importlib
import inspect
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import notebook_prof.analysis

from .source import FILES, PACKAGE, ROOT, imported, module_name, nodes, tree

BANNED_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager"}
ROW_LOOPS = re.compile(r"\.(iterrows|itertuples)\(|\.apply\(.*axis\s*=\s*(1|\"columns\")")


def in_files(hits: Callable[[Path], list[str]], files: list[Path] = FILES) -> dict[str, list[str]]:
    """What a rule finds, by file; files without any are left out."""
    return {str(path.relative_to(ROOT)): lines for path in files if (lines := hits(path))}


def test_files_stay_small() -> None:
    sources = [*FILES, *sorted(PACKAGE.rglob("*.js"))]
    lines = {p.relative_to(ROOT): len(p.read_text("utf-8").splitlines()) for p in sources}
    assert {p: n for p, n in lines.items() if n > 600} == {}
    assert len([p for p, n in lines.items() if n > 400]) <= 5, "a file holds one idea"


def test_small_modules_of_one_user_are_concepts() -> None:
    """What has one importer and under 70 lines joins it, unless it names a concept of the field."""
    modules = [path for path in FILES if path.name != "__init__.py"]
    lines = {module_name(path): len(path.read_text("utf-8").splitlines()) for path in modules}
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


def test_functions_stay_short() -> None:
    """Of twenty functions nineteen have fewer than 50 lines, docstring not counted."""
    lengths = {}
    for path in FILES:
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
                lengths[f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"] = lines
    longest = sorted(lengths, key=lambda name: -lengths[name])
    assert lengths[longest[len(longest) // 20]] < 50, longest[:100]


def test_no_row_loops_and_no_drawers_for_everything() -> None:
    assert [path for path in FILES if path.stem in BANNED_NAMES] == []
    loops = in_files(lambda path: [match[0] for match in ROW_LOOPS.finditer(path.read_text("utf-8"))])
    assert loops == {}, "ten million rows: vectorise"


def test_nothing_committed_names_a_machine() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    # spelled in parts, so that this file does not name them either
    parts = ["/" + "work/", "/" + "root/", "/" + "opt/pypi", "127.0.0.1:" + r"\d{4}/simple"]
    places = re.compile("|".join(parts))
    written = {".py", ".md", ".toml", ".js", ".css", ".ipynb", ".sh", ".yml", ""}
    paths = [ROOT / name for name in listed.stdout.splitlines() if not name.startswith("tests/data/")]
    texts = [path for path in paths if path.suffix in written and path.is_file()]
    assert in_files(lambda path: places.findall(path.read_text("utf-8", "replace")), texts) == {}


def without_docstring(things: dict[str, object]) -> list[str]:
    """What users can name and has no docstring: functions and classes, and what ours have inside."""
    missing = []
    for name, thing in things.items():
        if isinstance(thing, property):
            thing = thing.fget
        if not (inspect.isroutine(thing) or isinstance(thing, type)):
            continue
        if not inspect.getdoc(thing):
            missing.append(name)
        if isinstance(thing, type) and thing.__module__.startswith(PACKAGE.name):
            inside = {f"{name}.{key}": part for key, part in vars(thing).items() if key[0] != "_"}
            bases = {base.__name__: base for base in thing.__bases__ if base not in things.values()}
            missing += without_docstring(inside | bases)
    return missing


def test_public_things_have_docstrings() -> None:
    """Modules and classes, and what a user can call. Of other functions the name may say it."""
    assert [path for path in FILES if not ast.get_docstring(tree(path))] == []
    classes = {path: [x for x in nodes(path) if isinstance(x, ast.ClassDef)] for path in FILES}
    assert [
        x.name for own in classes.values() for x in own if not ast.get_docstring(x) and x.name[0] != "_"
    ] == []
    of_analysis = {name: getattr(notebook_prof.analysis, name) for name in notebook_prof.analysis.__all__}
    ours = {name: getattr(notebook_prof, name) for name in notebook_prof.__all__ if name != "last"}
    assert without_docstring(ours | of_analysis) == []

    class Example:
        def told(self) -> None:
            """Told."""

        @property
        def silent(self) -> int:
            return 1

    Example.__module__ = PACKAGE.name
    assert without_docstring({"Example": Example}) == ["Example", "Example.silent"]


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
        for name in (module_name(path) for path in FILES if ">>>" in path.read_text("utf-8"))
        if (failed := doctest.testmod(importlib.import_module(name), optionflags=flags).failed)
    }
    assert failures == {}, "what differs is printed above"
