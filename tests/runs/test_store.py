"""The file of the history: eight writers kills, damage, newer versions, folders without a right to write."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from notebook_prof.errors import HistoryError
from notebook_prof.runs import store as store_module
from notebook_prof.runs.folder import NAME, VARIABLE, history_folder, is_on_network
from notebook_prof.runs.store import FILE, VERSION, Store, damaged_files

from .rows import row

WRITERS, EACH, WIDE = 8, 40, 18_000
METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
PROCESSES = multiprocessing.get_context(METHOD)


@pytest.fixture(scope="module")
def writers() -> Iterator[None]:
    """One process imports what all writers need, and ends after them."""
    PROCESSES.set_forkserver_preload([__name__])
    yield
    PROCESSES.set_forkserver_preload(["__main__"])
    if METHOD == "forkserver":
        from multiprocessing import forkserver

        forkserver._forkserver._stop()  # type: ignore[attr-defined]


def write(folder: str, writer: int, count: int) -> None:
    """Add rows of full size, and note each in a file of its own once it is in."""
    store_module.PATIENCE_S = 120  # type: ignore[misc] # a slow disk lets one of eight wait for long
    store = Store(Path(folder))
    with open(f"{folder}-{writer}.log", "a", encoding="ascii") as noted:
        for number in range(count):
            store.add(row(name=f"{writer}-{number}", content=os.urandom(WIDE)))
            noted.write(f"{writer}-{number}\n")
            noted.flush()


def noted(folder: Path) -> set[str]:
    """What writers say is in."""
    logs = folder.parent.glob(f"{folder.name}-*.log")
    return {word for log in logs for word in log.read_text(encoding="ascii").split()}


def started(folder: Path, count: int) -> list[multiprocessing.process.BaseProcess]:
    made = [PROCESSES.Process(target=write, args=(str(folder), writer, count)) for writer in range(WRITERS)]
    for process in made:
        process.start()
    return list(made)


def names(store: Store) -> set[str]:
    return {name for (name,) in store.select("name")}


def check_whole(folder: Path) -> None:
    with closing(sqlite3.connect(folder / FILE)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.slow
@pytest.mark.usefixtures("writers")
def test_eight_processes_at_once_lose_nothing(tmp_path: Path) -> None:
    folder = tmp_path / NAME
    for process in started(folder, EACH):
        process.join(240)
        assert process.exitcode == 0
    store = Store(folder)
    assert names(store) == noted(folder)
    assert len(names(store)) == WRITERS * EACH
    assert damaged_files(folder) == []
    check_whole(folder)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX's")
@pytest.mark.usefixtures("writers")
def test_kill_9_in_the_middle_loses_no_row_that_was_in(tmp_path: Path) -> None:
    folder = tmp_path / NAME
    processes = started(folder, 10_000)
    until = time.monotonic() + 120
    while len(noted(folder)) < 60 and time.monotonic() < until:
        time.sleep(0.05)
    for process in processes:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
    for process in processes:
        process.join(60)
    store = Store(folder)
    acknowledged = noted(folder)
    assert len(acknowledged) >= 60
    assert acknowledged <= names(store)
    assert len(names(store)) <= len(acknowledged) + WRITERS, "at most the one that each was writing"
    check_whole(folder)
    store.add(row(name="after"))
    assert "after" in names(store)


def test_the_oldest_go_and_the_newest_of_each_cell_and_name_stay(tmp_path: Path) -> None:
    store = Store(tmp_path / NAME, limit=100_000)
    store.add(row(at_ns=1, name="baseline", content=b"x" * 1000))
    store.add(row(at_ns=2, cell="other", content=b"x" * 1000))
    for number in range(400):
        store.add(row(at_ns=10 + number, content=b"x" * 1000))
    rows = store.select("at_ns, name, cell, bytes", "ORDER BY at_ns")
    assert sum(size for *_, size in rows) <= 100_000 + 16 * 1700
    assert rows[0][:3] == (1, "baseline", "c")
    assert rows[1][:3] == (2, "", "other")
    ours = [at for at, name, cell, _ in rows if not name and cell == "c"]
    assert ours == list(range(410 - len(ours), 410)), "the newest, without a gap"
    grown = (tmp_path / NAME / FILE).stat().st_size
    for number in range(100):
        store.add(row(at_ns=500 + number, content=b"x" * 1000))
    assert (tmp_path / NAME / FILE).stat().st_size <= 1.2 * grown, "the file is bounded, not the rows alone"


def test_names_are_bounded_too(tmp_path: Path) -> None:
    store = Store(tmp_path / NAME, limit=20_000)
    for number in range(64):
        store.add(row(at_ns=number, name=f"run {number}", content=b"x" * 1000))
    assert len(names(store)) < 40
    assert "run 63" in names(store)


def test_a_newer_version_is_read_and_not_written(tmp_path: Path) -> None:
    store = Store(tmp_path / NAME)
    store.add(row(name="old"))
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute(f"PRAGMA user_version={VERSION + 1}")
        connection.execute("ALTER TABLE runs ADD COLUMN later TEXT")
        connection.commit()
    with pytest.raises(HistoryError, match="newer notebook_prof: it can be read only"):
        store.add(row(name="new"))
    assert names(store) == {"old"}


@pytest.mark.parametrize("damage", ["text", "half", "pages"])
def test_a_damaged_file_is_set_aside(tmp_path: Path, damage: str) -> None:
    store = Store(tmp_path / NAME)
    for number in range(20):
        store.add(row(name=str(number), content=os.urandom(4_000)))
    whole = store.path.read_bytes()
    broken = {
        "text": b"this is no database" * 99,
        "half": whole[: len(whole) // 2],
        "pages": whole[:4096] + bytes(255) * (len(whole) // 255),
    }[damage]
    store.path.write_bytes(broken)
    store.add(row(name="after"))
    assert names(store) == {"after"}
    aside = damaged_files(store.folder)
    assert [path.read_bytes() for path in aside] == [broken], "nothing is thrown away"


def test_a_damaged_file_cannot_be_read_and_says_so(tmp_path: Path) -> None:
    store = Store(tmp_path / NAME)
    store.add(row())
    store.path.write_bytes(b"this is no database" * 99)
    with pytest.raises(HistoryError, match="cannot be read: file is not a database"):
        store.select("id")


def as_nobody(action: Callable[[], None]) -> int:
    """Do something in a child that may not write; gives its exit status."""
    child = os.fork()
    if not child:
        status = 1
        try:
            if os.getuid() == 0:
                os.setuid(65534)
            action()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="permissions of POSIX")
@pytest.mark.parametrize("made", [False, True])
def test_a_folder_that_cannot_be_written(tmp_path: Path, made: bool) -> None:
    for parent in (tmp_path, *tmp_path.parents):
        mode = parent.stat().st_mode
        if mode & 0o005 != 0o005:
            parent.chmod(mode | 0o055)
    project = tmp_path / "project"
    store = Store(project / NAME)
    project.mkdir()
    if made:
        store.add(row(name="before"))
        store.folder.chmod(0o555)
        store.path.chmod(0o444)
    project.chmod(0o555)

    def action() -> None:
        with pytest.raises(HistoryError, match="cannot be written"):
            store.add(row(name="after"))
        assert names(store) == ({"before"} if made else set())

    try:
        assert as_nobody(action) == 0
    finally:
        project.chmod(0o755)
        if made:
            store.folder.chmod(0o755)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HistoryError, match="cannot be written: Not a directory"):
        Store(tmp_path / "file" / NAME).add(row())


def test_a_lock_that_nobody_gives_back_ends_in_a_sentence(tmp_path: Path) -> None:
    store = Store(tmp_path / NAME)
    store.add(row())
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert names(store) == {""}, "who reads does not wait"
        begin = time.monotonic()
        with pytest.raises(HistoryError, match="cannot be written: database is locked"):
            store.add(row())
        assert 1 < time.monotonic() - begin < 30


def test_it_is_private_and_keeps_out_of_git(tmp_path: Path) -> None:
    store = Store(tmp_path / NAME)
    store.add(row())
    assert (store.folder / ".gitignore").read_text(encoding="utf-8") == "*\n"
    if os.name == "posix":
        assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
        assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    if shutil.which("git"):
        subprocess.run(["git", "init", "-q", str(tmp_path)], capture_output=True, check=True)
        status = subprocess.run(
            ["git", "-C", str(tmp_path), "status", "--porcelain"], capture_output=True, check=True
        )
        assert status.stdout == b""


def test_the_folder_is_the_projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / "project" / "notebooks" / "deep"
    deep.mkdir(parents=True)
    monkeypatch.setattr("notebook_prof.runs.folder.start_folder", lambda: deep)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(VARIABLE)
    (tmp_path / ".git").mkdir()
    assert history_folder() == deep / NAME, "a home folder in git is no project"
    (tmp_path / "project" / "pyproject.toml").write_text("")
    assert history_folder() == tmp_path / "project" / NAME
    assert history_folder(str(tmp_path / "elsewhere" / "a.ipynb")) == tmp_path / "elsewhere" / NAME
    (deep.parent / NAME).mkdir()
    assert history_folder() == deep.parent / NAME, "a nearer history is the project's"
    monkeypatch.setenv(VARIABLE, str(tmp_path / "there"))
    assert history_folder() == tmp_path / "there"
    for off in ("off", "0", "No"):
        monkeypatch.setenv(VARIABLE, off)
        assert history_folder() is None


def test_file_systems_of_other_computers_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mounts"
    points = ("/ ext4", "/mnt/my\\040data nfs4", "/mnt/my\\040data/fast tmpfs")
    mounts.write_text("".join(f"device {point} rw 0 0\n" for point in points))
    monkeypatch.setattr("notebook_prof.runs.folder._MOUNTS", str(mounts))
    on_network = {path: is_on_network(Path(path)) for path in ("/a", "/mnt/my data/b", "/mnt/my data/fast/c")}
    assert on_network == {"/a": False, "/mnt/my data/b": True, "/mnt/my data/fast/c": False}
    monkeypatch.setattr("notebook_prof.runs.store.is_on_network", lambda folder: True)
    store = Store(tmp_path / NAME)
    store.add(row())
    with closing(sqlite3.connect(store.path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
