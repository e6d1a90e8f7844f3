"""Watching an import, and ``os.fork`` without a warning about our threads."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from notebook_prof.collectors.patches import ImportWatch

NAME = "watched_by_a_test"


@contextmanager
def watching(told: Callable[[], object], name: str = NAME) -> Iterator[ImportWatch]:
    watch = ImportWatch(name, told)
    watch.watch()
    try:
        yield watch
    finally:
        watch.unwatch()


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f"{NAME}.py").write_text("import json\nfound = __spec__.loader is __loader__\n")
    yield tmp_path / f"{NAME}.py"
    sys.modules.pop(NAME, None)


def test_it_tells_once_the_module_is_complete(source: Path) -> None:
    told: list[bool] = []
    before, without = list(sys.meta_path), find_spec(NAME)
    with watching(lambda: told.append(sys.modules[NAME].found)) as watch:
        assert find_spec(NAME) is not None
        assert without is not None
        assert told == []
        module = importlib.import_module(NAME)
        watch.unwatch()
    assert (told, sys.meta_path == before) == ([True], True)
    assert type(module.__loader__) is type(without.loader)
    assert Path(module.__file__ or "") == source


def test_nothing_is_told_afterwards(source: Path) -> None:
    told: list[int] = []
    with watching(lambda: told.append(1)):
        spec = find_spec(NAME)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert told == []


def test_an_error_of_the_module_is_its_own(source: Path) -> None:
    source.write_text("1 / 0\n")
    told: list[int] = []
    with watching(lambda: told.append(1)), pytest.raises(ZeroDivisionError) as caught:
        importlib.import_module(NAME)
    files = {Path(frame.filename).name for frame in traceback.extract_tb(caught.value.__traceback__)}
    assert told == []
    if sys.version_info >= (3, 11):
        assert "patches.py" not in files


def test_a_module_that_is_not_there_stays_so() -> None:
    with watching(bool, "there_is_no_such_module"), pytest.raises(ModuleNotFoundError):
        importlib.import_module("there_is_no_such_module")


FORK = """
import os, threading
import notebook_prof as nbp
def fork():
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
before = os.fork
with nbp.profile("python"):
    fork()
    print("quiet", flush=True)
    other = threading.Thread(target=fork)
    other.start()
    other.join()
    print("through", flush=True)
print(os.fork is before)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_warns_about_the_users_threads_only() -> None:
    words = [sys.executable, "-W", "always:This process:DeprecationWarning", "-c", FORK]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["quiet", "through", "True"], done.stderr
    assert done.stderr.count("DeprecationWarning") == (sys.version_info >= (3, 12)), done.stderr
