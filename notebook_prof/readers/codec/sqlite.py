"""Tables of an SQLite file as whole columns, decoded from its pages: no row becomes Python objects.

`sqlite3` makes an object of every value, and refuses a file that was cut. Here the leaf pages of a table are
taken some hundred at a time, and each column of all of their rows is decoded at once (SQLite's *Database File
Format*, sections 1.6, 2.1 and 2.2).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

import numpy as np

from ...errors import FormatError
from ...trace.arrays import IntArray
from ...trace.report import ImportReport
from .columns import INTS, TEXTS, Column, Kind, Texts, joined
from .sqlite_records import PADDING, ByteArray, Rows, big_endian, cell_positions, page_heads

MAGIC: Final = b"SQLite format 3\0"

_CHUNK_BYTES: Final = 4 << 20
_LEAF, _INTERIOR = 13, 5
_ENCODINGS: Final = {1: "utf-8", 2: "utf-16-le", 3: "utf-16-be"}
_SCHEMA: Final = ("type", "name", "tbl_name", "rootpage", "sql")
_MOST_STEPS: Final = 100_000


@dataclass(frozen=True, slots=True)
class _Table:
    """Where a table begins, and its columns; `alias` is the one that stands for the row's number."""

    root: int
    columns: tuple[str, ...]
    alias: str | None


class Database:
    """An SQLite file, for reading whole columns.

    A write-ahead log beside the file is not looked at. Pages that are missing or damaged are left out and
    counted.

    Parameters
    ----------
    data : ndarray of uint8
        The whole file; a memory map of it will do.

    Attributes
    ----------
    tables : mapping of str to tuple of str
        Names of the columns, by table.
    broken_pages, broken_rows : int
        What could not be used so far.

    Raises
    ------
    FormatError
        If its first page is no header, or no table can be read in it.

    Examples
    --------
    >>> with closing(sqlite3.connect(":memory:")) as made:
    ...     _ = made.execute("create table t (id integer primary key, name text, size int)")
    ...     _ = made.execute("insert into t values (7, 'seven', 1 << 40), (8, null, -1)")
    ...     made.commit()
    ...     database = Database(np.frombuffer(made.serialize(), np.uint8))  # Python 3.11
    >>> rows = database.read("t", {"id": INTS, "size": INTS, "name": TEXTS})
    >>> rows["id"].tolist(), rows["size"].tolist(), rows["name"].array.to_pylist()
    ([7, 8], [1099511627776, -1], ['seven', None])
    """

    def __init__(self, data: ByteArray) -> None:
        head = bytes(data[:100])
        self._page_size = int.from_bytes(head[16:18], "big")
        if self._page_size == 1:
            self._page_size = 65536
        if not head.startswith(MAGIC) or len(head) < 100 or not _is_page_size(self._page_size):
            raise FormatError("it begins like an SQLite database, and its header is damaged")
        self._usable = max(self._page_size - head[20], 480)
        self._encoding = _ENCODINGS.get(head[59], "utf-8")
        count = len(data) // self._page_size
        self._pages = data[: count * self._page_size].reshape(count, self._page_size)
        self.broken_pages = self.broken_rows = 0
        self._tables = self._schema()
        self.tables: Mapping[str, tuple[str, ...]] = {
            name: table.columns for name, table in self._tables.items()
        }
        self.broken_pages += int(max(int.from_bytes(head[28:32], "big") - count, 0) > 0)

    def read(self, table: str, kinds: Mapping[str, Kind]) -> dict[str, Column]:
        """Return columns of a table, in the order of its rows; those that it does not have are left out.

        Parameters
        ----------
        table : str
        kinds : mapping of str to {"ints", "floats", "texts"}
            Columns to read. NULL is `MISSING`, NaN or null; so is what is of another kind, and texts are
            cut at 1 MiB.

        Returns
        -------
        dict of ndarray of int64, ndarray of float64 or Texts
        """
        declared = self._tables.get(table)
        if declared is None:
            return {}
        chosen = {name: kind for name, kind in kinds.items() if name in declared.columns}
        parts: dict[str, list[object]] = {name: [] for name in chosen}
        for pages in self._leaves(declared.root):
            rows = Rows.of_pages(self, pages)
            for name, part in rows.columns(declared.columns, declared.alias, chosen).items():
                parts[name].append(part)
            self.broken_rows += rows.broken
        return {name: joined(parts[name], kind, self._encoding) for name, kind in chosen.items()}

    def count(self, table: str) -> int:
        """Return how many rows a table has, as its pages say."""
        if (declared := self._tables.get(table)) is None:
            return 0
        total = 0
        for pages in self._leaves(declared.root):
            at = np.where(pages == 1, 103, 3)
            high, low = self._pages[pages - 1, at], self._pages[pages - 1, at + 1]
            total += int(high.astype(np.int64).sum()) * 256 + int(low.astype(np.int64).sum())
        return total

    def take(self, pages: IntArray) -> ByteArray:
        """Return copies of pages, one behind another, and some zeros."""
        count = len(pages)
        result = np.zeros(count * self._page_size + PADDING, np.uint8)
        whole = result[: count * self._page_size].reshape(count, self._page_size)
        np.take(self._pages, pages - 1, axis=0, out=whole)
        return result

    @property
    def page_size(self) -> int:
        """Bytes of a page."""
        return self._page_size

    @property
    def page_count(self) -> int:
        """Whole pages of the file."""
        return len(self._pages)

    @property
    def usable(self) -> int:
        """Bytes of a page that hold content."""
        return self._usable

    def _schema(self) -> dict[str, _Table]:
        self._tables = {"sqlite_schema": _Table(1, _SCHEMA, None)}
        rows = self.read("sqlite_schema", {"type": TEXTS, "name": TEXTS, "rootpage": INTS, "sql": TEXTS})
        kind, name, sql = (_plain(rows[key]) for key in ("type", "name", "sql"))
        tables: dict[str, _Table] = {}
        roots = np.asarray(rows["rootpage"]).tolist()
        for each, table, root, text in zip(kind, name, roots, sql, strict=True):
            if each == "table" and table and text and root > 0 and (columns := _columns(text)):
                names, alias = columns
                tables[table] = _Table(root, names, alias)
        if not tables:
            raise FormatError("it is an SQLite database in which no table can be read")
        return tables

    def _leaves(self, root: int) -> Iterator[IntArray]:
        """Return the leaf pages of a table, some at a time, in the order of its rows."""
        level = np.array([root], np.int64)
        visited = np.zeros(len(self._pages) + 1, bool)
        each = max(1, _CHUNK_BYTES // self._page_size)
        while len(level):
            sound = (level >= 1) & (level <= len(self._pages))
            self.broken_pages += int((~sound).sum())
            level = level[sound]
            level = level[~visited[level]]
            visited[level] = True
            kind = self._pages[level - 1, np.where(level == 1, 100, 0)]
            leaves = level[kind == _LEAF]
            yield from (leaves[at : at + each] for at in range(0, len(leaves), each))
            inner = level[kind == _INTERIOR]
            self.broken_pages += len(level) - len(leaves) - len(inner)
            children = [self._children(inner[at : at + each]) for at in range(0, len(inner), each)]
            level = np.concatenate([np.empty(0, np.int64), *children])

    def _children(self, pages: IntArray) -> IntArray:
        """Return the pages below interior ones, in order: those of the cells, and then the right-most."""
        data = self.take(pages)
        base, head = page_heads(pages, self._page_size)
        row, cell = cell_positions(data, base, head, 12, self._page_size)
        count = np.bincount(row, minlength=len(pages))
        cell = np.where(cell >= len(data) - PADDING, 0, cell)
        last_child = np.cumsum(count + 1) - 1
        result = np.empty(int(count.sum()) + len(pages), np.int64)
        result[last_child] = big_endian(data, head + 8, 4)
        inside = np.ones(len(result), bool)
        inside[last_child] = False
        result[inside] = big_endian(data, cell, 4)
        return result


@contextmanager
def mapped(path: Path, pieces: Iterable[bytes], report: ImportReport) -> Iterator[ByteArray]:
    """Map a database into memory: the file itself, or a temporary one of what it is uncompressed.

    Parameters
    ----------
    path : Path
    pieces : iterable of bytes
        Its content without compression; not asked for where the file has none.
    report : ImportReport
        Told ``write-ahead-log`` where the newest rows lie in a file beside.
    """
    with path.open("rb") as file, TemporaryFile() as unpacked:
        log = path.with_name(path.name + "-wal")
        if file.read(len(MAGIC)) == MAGIC:
            if log.is_file() and log.stat().st_size:
                report.add(
                    "write-ahead-log",
                    "loss",
                    example=log.name,
                    effect="rows that are only in the log beside the database are missing",
                    advice=f"run: sqlite3 {path.name} 'pragma wal_checkpoint(truncate)'",
                )
            yield np.memmap(file, np.uint8, "r")
            return
        unpacked.writelines(pieces)
        unpacked.flush()
        yield np.memmap(unpacked, np.uint8, "r")


def _is_page_size(size: int) -> bool:
    return 512 <= size <= 65536 and size & (size - 1) == 0


def _plain(column: Column) -> list[str | None]:
    assert isinstance(column, Texts)
    texts: list[str | None] = column.array.to_pylist()
    return texts


def _columns(sql: str) -> tuple[tuple[str, ...], str | None] | None:
    """Return the columns that a statement declares, and the one that is the row's number."""
    if not sql.lstrip()[:12].lower().startswith("create table"):
        return None
    with closing(sqlite3.connect(":memory:")) as empty:
        empty.set_progress_handler(lambda: 1, _MOST_STEPS)
        try:
            empty.execute(sql)
            (name,) = empty.execute("select name from sqlite_master where type = 'table'").fetchone()
            quoted = name.replace('"', '""')
            rows = empty.execute(f'pragma table_info("{quoted}")').fetchall()
        except (sqlite3.Error, sqlite3.Warning, TypeError):
            return None
    keys = [row for row in rows if row[5]]
    alone = len(keys) == 1 and str(keys[0][2]).upper() == "INTEGER"
    return tuple(str(row[1]) for row in rows), str(keys[0][1]) if alone else None
