"""A write that fails leaves what was there, whatever is written."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from notebook_prof.atomic_files import atomic_file, atomic_text
from notebook_prof.errors import NotebookProfError, WriteError
from notebook_prof.profiles.profile import Profile
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.writers.chrome import write_chrome
from notebook_prof.writers.native import write_native
from notebook_prof.writers.stacks import export_stacks

from ..new_process import run_python

BEFORE = b"what was there before"


@cache
def trace() -> Trace:
    b, n = TraceBuilder(), np.arange(3000)
    b.slices(ts=n * 10, dur=np.full(len(n), 8), name=[f"op {i}" for i in n], track=b.track("main"))
    return b.seal()


@cache
def profile() -> Profile:
    return Profile(trace())


WRITERS: dict[str, Callable[[Path], Any]] = {
    "run.json": lambda path: write_chrome(trace(), path),
    "run.json.gz": lambda path: write_chrome(trace(), path),
    "run.nbprof.zip": lambda path: write_native(trace(), path),
    "stacks.txt": lambda path: export_stacks(trace(), path, "self_cpu_time_total"),
    "stacks.json": lambda path: export_stacks(trace(), path, "self_cpu_time_total"),
    "report.html": lambda path: profile().export.html(path),
    "view.svg": lambda path: profile().export.svg(path),
    "view.png": lambda path: profile().export.png(path),
}


@pytest.fixture(params=list(WRITERS))
def written(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Callable[[Path], Any]]:
    path = tmp_path / "folder" / str(request.param)
    path.parent.mkdir()
    return path, WRITERS[str(request.param)]


def only(target: Path) -> bool:
    return [path.name for path in target.parent.iterdir()] == [target.name]


def test_it_is_there_when_it_is_complete(written: tuple[Path, Callable[[Path], Any]]) -> None:
    path, write = written
    path.write_bytes(BEFORE)
    path.chmod(0o640)
    if path.suffix == ".zip":
        path.unlink()
    write(path)
    assert path.read_bytes() != BEFORE
    assert path.stat().st_size > 100
    assert only(path)
    if path.suffix != ".zip":
        assert stat.S_IMODE(path.stat().st_mode) == 0o640, "a file keeps its mode"


def test_a_failing_disk(written: tuple[Path, Callable[[Path], Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    path, write = written
    if path.suffix == ".zip":
        write(path)
    else:
        path.write_bytes(BEFORE)
    before = path.read_bytes()

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(NotebookProfError, match=os.strerror(errno.ENOSPC)) as caught:
        write(path)
    assert path.name in str(caught.value)
    assert isinstance(caught.value, OSError)
    assert path.read_bytes() == before
    assert only(path)


def test_a_full_disk_for_real(tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk: the write itself fails, in the middle."""
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "sys.dont_write_bytecode = True  # of 900 bytes, which everybody else would read\n"
        "from tests.unit.test_atomic_files import WRITERS\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "place = Path(sys.argv[1])\n"
        "WRITERS['view.png'](place / 'warm.png'); (place / 'warm.png').unlink()\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (900, 900))\n"
        "for name, write in WRITERS.items():\n"
        "    try: write(place / name)\n"
        "    except Exception as error: print(name, type(error).__name__, 'large' in str(error))\n"
        "    else: print(name, 'was written')\n"
    )
    ran = run_python(code, tmp_path, cwd=Path(__file__).parents[2])
    lines = ran.stdout.split("\n")[:-1]
    assert lines == [f"{name} WriteError True" for name in WRITERS], (lines, ran.stderr[-2000:])
    assert list(tmp_path.iterdir()) == []
    resource = pytest.importorskip("resource")
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 900


def test_a_folder_that_is_not_there(written: tuple[Path, Callable[[Path], Any]]) -> None:
    path, write = written
    with pytest.raises(NotebookProfError, match=r"No such file|there is no folder"):
        write(path.parent / "missing" / path.name)


def test_no_link_is_followed_and_links_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("old")
    link.symlink_to(real)
    with atomic_text(link) as file:
        file.write("new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    with atomic_file("/dev/null") as file:
        file.write(b"x")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(WriteError, match="directory"), atomic_file(tmp_path) as file:
        file.write(b"x")
    with pytest.raises(WriteError, match="null"), atomic_file("a\0b") as file:
        file.write(b"x")


def test_recordings_are_for_their_owner_only(tmp_path: Path) -> None:
    write_chrome(trace(), tmp_path / "run.json")
    write_native(trace(), tmp_path / "run.nbprof.zip")
    write_native(trace(), tmp_path / "run.nbprof")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"run.json": 0o600, "run.nbprof.zip": 0o600, "run.nbprof": 0o700}
