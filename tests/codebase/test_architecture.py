"""What `docs/architecture.md` says of the code is so."""

import re

from .floor_plan import PLAN, drawn
from .source import PACKAGE, ROOT, tree

TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
STOP = re.compile(r"`([a-z_/]+\.py)` (?:`(\w+)(?:\.(\w+))?`)?")
FILE = re.compile(r"`((?:[a-z_]+/)+[a-z_]+\.py)`")


def test_the_plan_is_drawn_from_the_imports() -> None:
    assert PLAN.read_text(encoding="utf-8") == drawn(), "run python -m tests.codebase.floor_plan"


def test_every_file_that_is_named_exists() -> None:
    named = [name for name in FILE.findall(TEXT) if not name.startswith("tests/")]
    assert len(named) > 30
    assert [name for name in named if not (PACKAGE / name).is_file()] == []


def test_every_stop_of_a_walk_exists() -> None:
    """A stop is a file, and behind it a function or a class, perhaps with a method."""
    walks = TEXT[TEXT.index("## Five walks") :]
    stops = STOP.findall(walks)
    assert len(stops) > 30
    for file, name, method in stops:
        named = [node for node in tree(PACKAGE / file).body if getattr(node, "name", None) == name]
        assert not name or named, f"{file} has no {name}"
        inner = {getattr(node, "name", None) for node in getattr(named[0], "body", [])} if named else set()
        assert not method or method in inner, f"{file} {name} has no {method}"
