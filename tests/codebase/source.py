"""The package's own source, as the rules of the house see it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "notebook_prof"
FILES = sorted(PACKAGE.rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    """The parsed file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def module_name(path: Path) -> str:
    """Dotted name of a file of the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> frozenset[str]:
    """Dotted names of all files of the package."""
    return frozenset(module_name(path) for path in FILES)


def room(module: str) -> str:
    """First part of a module's name below the package; empty for the package itself."""
    return module.split(".")[1] if "." in module else ""


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Everything in the parsed file."""
    return tuple(ast.walk(tree(path)))


def _for_type_checkers(node: ast.If) -> bool:
    parts = ast.walk(node.test)
    return any("TYPE_CHECKING" in (getattr(part, "id", ""), getattr(part, "attr", "")) for part in parts)


@cache
def imports(path: Path) -> tuple[tuple[int, str, bool], ...]:
    """Every import: line, absolute module name, and whether it is for type checkers only."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[tuple[int, str, bool]]:
    here = module_name(path)
    package = here if path.name == "__init__.py" else here.rpartition(".")[0]
    typing_only = {
        inner
        for node in nodes(path)
        if isinstance(node, ast.If) and _for_type_checkers(node)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in nodes(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, node in typing_only
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            target = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                is_folder = (ROOT / Path(*target.split("."))).is_dir() and not node.module
                yield node.lineno, f"{target}.{alias.name}" if is_folder else target, node in typing_only


@cache
def imported(path: Path) -> frozenset[str]:
    """Modules of the package that a file imports, wherever in it."""
    ours = modules()
    here = module_name(path)
    package = here if path.name == "__init__.py" else here.rpartition(".")[0]
    names: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            target = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{target}.{alias.name}"
                names.add(inner if inner in ours and not _binds(target, alias.name) else target)
    return ours & names


@cache
def _binds(package: str, name: str) -> bool:
    """Whether a package binds a name itself, which then hides the module of that name."""
    path = ROOT.joinpath(*package.split("."), "__init__.py")
    return path.exists() and any(
        alias.asname or (alias.name == name and node.module)
        for node in tree(path).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if (alias.asname or alias.name) == name
    )
