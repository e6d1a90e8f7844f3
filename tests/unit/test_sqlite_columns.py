"""SQLite files read as columns, against what was put into them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from notebook_prof.errors import FormatError
from notebook_prof.readers.codec import sqlite
from notebook_prof.readers.codec.columns import FLOATS, INTS, MISSING, TEXTS, Texts
from notebook_prof.readers.codec.sqlite import Database


def written(path: Path, rows: list[tuple[object, ...]], *pragmas: str) -> Path:
    """A database with these rows, and an index that has all columns; one is added after half of the rows."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as database:
        for pragma in (*pragmas, "journal_mode = off", "synchronous = off"):
            database.execute(f"pragma {pragma}")
        database.execute("create table first (x int)")
        database.execute('create table "t b" (id integer primary key, i int, skipped text, f real, t text)')
        half = len(rows) // 2
        text = "insert into 't b' (i, f, t, skipped) values (?, ?, ?, 'skipped')"
        database.executemany(text, rows[:half])
        database.execute("alter table 't b' add column later int")
        database.executemany(text, rows[half:])
        database.execute("create index every on 't b' (t, f, i)")
        database.commit()
    return path


def test_values_of_other_kinds_are_missing(tmp_path: Path) -> None:
    """A column of SQLite may hold anything."""
    with closing(sqlite3.connect(tmp_path / "a.db")) as made:
        made.execute("create table t (x)")
        made.executemany("insert into t values (?)", [(7,), (-2.5,), ("8",), (b"9",), (None,)])
        made.execute("insert into t values (cast(x'62ff' as text))")  # no UTF-8
        made.commit()
    with closing(Database(tmp_path / "a.db")) as database:
        ints, floats, texts = (database.read("t", {"x": kind})["x"] for kind in (INTS, FLOATS, TEXTS))
    assert isinstance(texts, Texts)
    assert ints.tolist() == [7, -2, *[MISSING] * 4]  # type: ignore[union-attr]
    assert [value if value == value else None for value in floats.tolist()] == [7, -2.5, *[None] * 4]  # type: ignore[union-attr]
    assert texts.array.to_pylist() == [None, None, "8", None, None, "b\ufffd"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16le"])
def test_adbc_reads_the_same_columns(encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("adbc_driver_sqlite")
    rows: list[tuple[object, ...]] = [
        (i << 33, i / 3 or None, f"{i} é" if i % 3 else None) for i in range(300)
    ]
    path = written(tmp_path / "a #1?.db", [(None, None, None), *rows], f"encoding = '{encoding}'")
    with closing(sqlite3.connect(path)) as made:
        made.execute("create table odd (x, y)")
        made.executemany("insert into odd (x) values (?)", [(None,), ("8",), (7,), (-2.5,), (b"9",)] * 9)
        if encoding == "utf-8":
            made.execute("insert into odd (x) values (cast(x'62ff' as text))")
        made.commit()

    def everything() -> list[object]:
        with closing(Database(path)) as database:
            return [
                column.array.to_pylist() if isinstance(column, Texts) else column.tolist()
                for table, columns in database.tables.items()
                for kind in (TEXTS, INTS, FLOATS)
                for column in database.read(table, dict.fromkeys(columns, kind)).values()
            ]

    plain = repr(everything())
    monkeypatch.setattr(sqlite, "_MANY", 1)
    asked: list[str] = []
    with_arrow = Database._arrow_columns
    monkeypatch.setattr(
        Database, "_arrow_columns", lambda *given: (asked.append(given[1]), with_arrow(*given))[1]
    )
    assert repr(everything()) == plain
    assert {"t b", "odd"} <= set(asked)
    damaged = bytearray(path.read_bytes())
    for at in range(2000, len(damaged), 97):
        damaged[at] ^= 0x5A
    path.write_bytes(damaged)
    with pytest.raises(FormatError, match="damaged"):
        everything()


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"SQLite format 3\0" + bytes(90))
    with pytest.raises(FormatError, match=r"damaged \(file is not a database\): copy or export it again"):
        Database(path)
