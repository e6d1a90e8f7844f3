"""Where the code that ran is written, in the text that its file has now."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest

from notebook_prof.collectors import line_sources as module
from notebook_prof.runs.identity import tokens


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "twins.py"


def test_a_program_with_odd_separators_in_a_text_is_one_line() -> None:
    assert tokens("%%profile\nx = 'a\u2028b'  # \x0c") == tokens("x = 'a\u2028b'")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere psutil is required")
def test_the_begin_of_the_process_is_known_without_psutil(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = psutil.Process().create_time()  # in whole seconds since boot
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert module._began_s.__wrapped__() == pytest.approx(expected, abs=2)
