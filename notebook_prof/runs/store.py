"""The history file: SQLite, one row per run. It is bounded, and survives concurrent kernels and kills."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from ..atomic_files import PRIVATE
from ..errors import HistoryError
from .folder import is_on_network, make_folder

FILE: Final = "history.sqlite"
VERSION: Final = 1
"""``user_version`` of the file. A newer file is read as far as its format is the same."""
LIMIT: Final = 64 << 20
"""Approximate limit in bytes for all rows. Beyond it, the oldest are deleted."""
PATIENCE_S: Final = 2.0
"""How long to wait while another kernel writes."""
_OVERHEAD: Final = 600
_RECENT: Final = 20
_PRUNED_EVERY: Final = 16
_MOST_DAMAGED: Final = 3
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS environments (hash TEXT PRIMARY KEY, facts TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS runs (
  id INTEGER PRIMARY KEY, at_ns INTEGER NOT NULL, kernel TEXT NOT NULL, notebook TEXT NOT NULL,
  cell TEXT NOT NULL, cell_hash TEXT NOT NULL, name TEXT NOT NULL, options TEXT NOT NULL,
  environment TEXT NOT NULL REFERENCES environments(hash), revision TEXT NOT NULL, dirty INTEGER,
  failed INTEGER NOT NULL, steps INTEGER NOT NULL, p50_ns REAL, mean_ns REAL, total_ns INTEGER NOT NULL,
  peak_bytes INTEGER, overhead REAL, load REAL, core_share REAL,
  verdict TEXT NOT NULL, trust TEXT NOT NULL,
  lineage INTEGER, earlier INTEGER, link TEXT NOT NULL, noise REAL, kept TEXT NOT NULL,
  bytes INTEGER NOT NULL, source BLOB NOT NULL, content BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS by_cell ON runs (notebook, cell, at_ns);
CREATE INDEX IF NOT EXISTS by_hash ON runs (cell_hash, at_ns);
CREATE INDEX IF NOT EXISTS by_name ON runs (name, at_ns) WHERE name != '';
CREATE INDEX IF NOT EXISTS by_noise ON runs (environment, at_ns) WHERE noise IS NOT NULL;
"""


class Store:
    """The runs of a project. The folder is made when the first run is added."""

    def __init__(self, folder: Path, *, limit: int = LIMIT) -> None:
        self.folder, self._limit = folder, limit

    @property
    def path(self) -> Path:
        return self.folder / FILE

    def add(self, row: Mapping[str, Any]) -> int:
        """Add a run, by column of `_SCHEMA` and with the facts of its environment; return its number."""
        # Raises HistoryError if the file cannot be written, is locked by another kernel for too long, or was
        # made by a newer version. A damaged file is set aside, and a new one started.
        try:
            return self._add(row)
        except _DamagedFile as damage:
            _set_aside(self.path, damage.inode)
            return self._add(row)

    def select(self, what: str, where: str = "", parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return rows; none if there is no file. Raises HistoryError if the file cannot be read."""
        if not self.path.exists():
            return []
        try:
            with closing(self._connect_to_read()) as connection:
                return connection.execute(f"SELECT {what} FROM runs {where}", parameters).fetchall()
        except sqlite3.Error as error:
            raise HistoryError(f"the history {str(self.path)!r} cannot be read: {error}") from error

    def _add(self, row: Mapping[str, Any]) -> int:
        key, facts = environment_hash(row["environment"])
        size = len(row["source"]) + len(row["content"]) + _OVERHEAD
        values = {**row, "environment": key, "bytes": size}
        names = ", ".join(values)
        marks = ", ".join("?" * len(values))
        with self._writing() as connection:
            with connection:  # commits, or rolls back
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("INSERT OR IGNORE INTO environments VALUES (?, ?)", (key, facts))
                insert = f"INSERT INTO runs ({names}) VALUES ({marks})"
                number = int(connection.execute(insert, tuple(values.values())).lastrowid or 0)
                pruned = number % _PRUNED_EVERY == 0 and _prune(connection, self._limit)
            if pruned:
                connection.execute("PRAGMA incremental_vacuum").fetchall()
            return number

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Open the file for writing, creating it if missing. Errors are those of `add`."""
        inode = 0
        try:
            make_folder(self.folder)
            with suppress(FileExistsError):
                os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE))
            inode = os.stat(self.path).st_ino
            with closing(sqlite3.connect(self.path, timeout=PATIENCE_S, isolation_level=None)) as connection:
                self._prepare(connection)
                yield connection
        except sqlite3.Error as error:
            if type(error) is sqlite3.DatabaseError:  # damaged; not locked, full or read-only
                raise _DamagedFile(inode) from error
            raise HistoryError(f"the history {str(self.path)!r} cannot be written: {error}") from error
        except HistoryError:
            raise
        except OSError as error:
            why = error.strerror or error
            raise HistoryError(f"the history {str(self.folder)!r} cannot be written: {why}") from error

    def _prepare(self, connection: sqlite3.Connection) -> None:
        version = _version(connection)
        for _ in range(int(PATIENCE_S / 0.05)):
            if version:
                break
            try:  # with several kernels at once, changing the mode does not wait for the lock
                _make(connection, is_on_network(self.folder))
            except sqlite3.OperationalError:
                time.sleep(0.05)
            version = _version(connection)
        if version > VERSION:
            raise HistoryError(
                f"the history {str(self.path)!r} belongs to a newer notebook_prof: it can be read only"
            )
        if not version:
            raise HistoryError(
                f"the history {str(self.path)!r} could not be made: other kernels keep it busy"
            )
        connection.execute("PRAGMA synchronous=NORMAL")

    def _connect_to_read(self) -> sqlite3.Connection:
        """Open the file read-only, or as an immutable file if it cannot be locked."""
        uri = self.path.absolute().as_uri()
        connection = sqlite3.connect(f"{uri}?mode=ro", uri=True, timeout=PATIENCE_S)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            connection.close()
            connection = sqlite3.connect(f"{uri}?mode=ro&immutable=1", uri=True)
        return connection


class _DamagedFile(Exception):
    """The file is not a database, or is a broken one."""

    def __init__(self, inode: int) -> None:
        super().__init__("the file is damaged")
        self.inode = inode


def environment_hash(facts: Mapping[str, str]) -> tuple[str, str]:
    """Return the key of an environment, and its facts as they are stored."""
    text = json.dumps(dict(facts), sort_keys=True, ensure_ascii=False)
    return blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest(), text


def damaged_files(folder: Path) -> list[Path]:
    """Return the files that were set aside, oldest first."""
    return sorted(path for path in folder.glob(f"{FILE}.damaged-*") if path.name[-4:] not in ("-wal", "-shm"))


def _set_aside(path: Path, inode: int) -> None:
    """Rename a damaged file and its companions, unless another kernel has already done so."""
    with suppress(OSError):
        if os.stat(path).st_ino != inode:
            return
        aside = f"{path}.damaged-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        for ending in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.rename(f"{path}{ending}", f"{aside}{ending}")
        for older in damaged_files(path.parent)[:-_MOST_DAMAGED]:
            for ending in ("", "-wal", "-shm"):
                Path(f"{older}{ending}").unlink(missing_ok=True)


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _make(connection: sqlite3.Connection, shared: bool) -> None:
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    # WAL keeps its index in memory that several computers cannot share
    connection.execute(f"PRAGMA journal_mode={'DELETE' if shared else 'WAL'}")
    with connection:  # commits, or rolls back
        connection.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version={VERSION}")


def _prune(connection: sqlite3.Connection, limit: int) -> bool:
    """Delete the oldest rows beyond the limit."""
    total = int(connection.execute("SELECT coalesce(sum(bytes), 0) FROM runs").fetchone()[0])
    if total <= limit:
        return False
    # the newest 20 rows of each cell go later, the newest row of each name last
    connection.execute(
        """DELETE FROM runs WHERE id IN (SELECT id FROM (
             SELECT id, sum(bytes) OVER (ORDER BY held, recent, at_ns, id) - bytes AS before FROM (
               SELECT id, at_ns, bytes,
                 name != '' AND row_number() OVER (PARTITION BY name ORDER BY at_ns DESC) = 1 AS held,
                 row_number() OVER (PARTITION BY notebook, cell, lineage ORDER BY at_ns DESC) <= ? AS recent
               FROM runs)) WHERE before < ?)""",
        (_RECENT, total - int(0.9 * limit)),
    )
    return True
