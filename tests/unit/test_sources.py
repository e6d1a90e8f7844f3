"""Where the code that ran is written, in the text that its file has now."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import psutil
import pytest

from notebook_prof.collectors import line_sources as module
from notebook_prof.collectors.line_sources import Place, Sources, parts_of
from notebook_prof.collectors.statements import offer, sources
from notebook_prof.runs.identity import tokens

TWINS = """\
class A:
    def run(self):
        x = 1
        return x
class B:
    def run(self):
        # two
        y = [
            2]
        return y
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "twins.py"


@pytest.fixture
def texts() -> Iterator[Sources]:
    """The texts of a recording that is being put together."""
    offer(None)
    yield sources()
    offer(None)


def codes(text: str, file: Path) -> dict[str, CodeType]:
    """Code objects of a text, by their qualified names."""
    return {
        part.function: part.code for part in parts_of(compile(text, str(file), "exec", dont_inherit=True))
    }


def place(texts: Sources, file: Path, function: str, line: int) -> tuple[str, int] | None:
    """Where a line is written; None if that is unknown."""
    seen = Place(function, 1, line)
    found = texts.place(str(file), seen)
    return None if (str(file), seen) in texts.lost else (found.function, found.line)


def test_a_file_from_before_this_process_is_what_was_imported(
    file: Path, texts: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(TWINS)
    monkeypatch.setattr(module, "_began_s", lambda: file.stat().st_ctime + 1)
    texts.ran = list(codes(TWINS.replace("x", "z"), file).values())  # as a hook of import may change it
    assert place(texts, file, "A.run", 3) == ("A.run", 3)
    assert not texts.is_older(str(file))


def test_torch_compile_rewrites_functions_whose_text_is_right(file: Path, texts: Sources) -> None:
    file.write_text(TWINS)
    code = codes(TWINS, file)["A.run"]
    texts.ran = [code.replace(co_names=(*code.co_names, "__compiled_fn_1_abc"))]
    assert place(texts, file, "A.run", 3) == ("A.run", 3)
    assert not texts.is_lost(texts.ran[0])


@pytest.mark.parametrize("text", ["def run(:\n", ""])
def test_a_text_that_does_not_compile_is_nobodys(file: Path, texts: Sources, text: str) -> None:
    texts.ran = list(codes(TWINS, file).values())
    file.write_text(text)
    assert place(texts, file, "A.run", 3) is None
    assert texts.is_lost(texts.ran[1])


def test_a_program_with_odd_separators_in_a_text_is_one_line() -> None:
    assert tokens("%%profile\nx = 'a\u2028b'  # \x0c") == tokens("x = 'a\u2028b'")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere psutil is required")
def test_the_begin_of_the_process_is_known_without_psutil(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = psutil.Process().create_time()  # in whole seconds since boot
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert module._began_s.__wrapped__() == pytest.approx(expected, abs=2)
