"""What `docs/architecture.md` says of the code is so."""

import re

from .floor_plan import PLAN, drawn
from .source import PACKAGE, ROOT, tree

TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FILE = re.compile(r"`((?:[a-z_]+/)+[a-z_]+\.py)`")
STOP = re.compile(r"`((?:js/src/)?\w+(?:/\w+)*\.(?:py|js))`(?:\s+`(\w+)(?:\.(\w+))?`)?")


def walks() -> dict[str, list[tuple[str, str, str]]]:
    """Give the stops of each walk: a file, and in it a function or a class, perhaps with a method."""
    parts = re.split(r"^\*\*(.+?)\.\*\*", TEXT[TEXT.index("## Ten walks") :], flags=re.MULTILINE)[1:]
    return {title: STOP.findall(part) for title, part in zip(parts[::2], parts[1::2], strict=True)}


def test_the_plan_is_drawn_from_the_imports() -> None:
    assert PLAN.read_text(encoding="utf-8") == drawn(), "run python -m tests.codebase.floor_plan"


def test_every_file_that_is_named_exists() -> None:
    named = [name for name in FILE.findall(TEXT) if not name.startswith("tests/")]
    assert len(named) > 30
    assert [name for name in named if not (PACKAGE / name).is_file()] == []


def test_every_stop_of_a_walk_exists() -> None:
    stops = {stop for stops in walks().values() for stop in stops}
    assert len(stops) > 80
    for file, name, method in stops:
        path = ROOT / file if file.startswith("js/") else PACKAGE / file
        assert path.is_file(), f"there is no {file}"
        if not name:
            continue
        named = [node for node in tree(path).body if getattr(node, "name", None) == name]
        assert named, f"{file} has no {name}"
        inner = {getattr(node, "name", None) for node in getattr(named[0], "body", [])}
        assert not method or method in inner, f"{file} {name} has no {method}"


def test_walks_are_short() -> None:
    """So many files may somebody have to read who follows one."""
    most = {"A cell": 30, "A file": 14, "A brush": 17, "A gap": 13, "A comparison": 20, "Ranks": 16}
    most |= {"A report": 14, "A new format": 2, "A new advice rule": 5, "A new tab": 5}
    counts = {title: len({file for file, *_ in stops}) for title, stops in walks().items()}
    assert counts.keys() == most.keys()
    assert {title: count for title, count in counts.items() if count > most[title]} == {}
