"""SQLite files decoded as columns, against `sqlite3`."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notebook_prof.errors import FormatError
from notebook_prof.readers.codec.columns import FLOATS, INTS, MISSING, TEXTS, Kind, Texts
from notebook_prof.readers.codec.sqlite import Database

from ..draws import draws

KINDS: dict[str, Kind] = {"id": INTS, "i": INTS, "f": FLOATS, "t": TEXTS, "later": INTS}
VALUES = st.tuples(
    st.one_of(
        st.none(), st.integers(-(2**63) + 1, 2**63 - 1), st.integers(-2, 130), st.sampled_from([2**31, 2**47])
    ),
    st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False, width=32), st.integers(-3, 70_000)),
    st.one_of(
        st.none(), st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=90)
    ),
)


def written(path: Path, rows: list[tuple[object, ...]], *pragmas: str) -> np.ndarray:
    """The bytes of a database with these rows; a column is added after half of them."""
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path)
    for pragma in (*pragmas, "journal_mode = off", "synchronous = off"):
        database.execute(f"pragma {pragma}")
    database.execute("create table first (x int)")
    database.execute('create table "t b" (id integer primary key, i int, skipped text, f real, t text)')
    half = len(rows) // 2
    text = "insert into 't b' (i, f, t, skipped) values (?, ?, ?, 'skipped')"
    database.executemany(text, rows[:half])
    database.execute("alter table 't b' add column later int")
    database.executemany(text, rows[half:])
    database.commit()
    database.close()
    return np.frombuffer(path.read_bytes(), np.uint8)


def rows_of(database: Database) -> list[tuple[object, ...]]:
    columns = database.read("t b", KINDS)
    lists: list[list[object]] = []
    for name in ("i", "f", "t"):
        column = columns[name]
        if isinstance(column, Texts):
            lists.append(column.array.to_pylist())
        else:
            lists.append([None if v == MISSING or v != v else v for v in column.tolist()])
    return list(zip(*lists, strict=True))


@given(rows=st.lists(VALUES, max_size=60))
@settings(max_examples=draws(40))
def test_columns_are_what_sqlite_reads(rows: list[tuple[object, ...]], tmp_path: Path) -> None:
    data = written(tmp_path / "a.db", rows, "page_size = 512")
    with sqlite3.connect(tmp_path / "a.db") as plain:
        expected = plain.execute("select i, f, t from 't b' order by id").fetchall()
    plain.close()
    database = Database(data)
    assert rows_of(database) == expected
    assert database.read("t b", {"id": INTS})["id"].tolist() == list(range(1, len(rows) + 1))
    assert database.count("t b") == len(rows)
    assert (database.broken_pages, database.broken_rows) == (0, 0)


@pytest.mark.parametrize(
    "pragma", ["page_size = 512", "page_size = 65536", "encoding = 'utf-16le'", "encoding = 'utf-16be'"]
)
def test_many_rows_and_long_texts(pragma: str, tmp_path: Path) -> None:
    """Trees of several levels, and records that go on on other pages."""
    rows = [(i * 7_919 * (-1) ** i, i / 3, f"{i % 97} é " * (i % 50)) for i in range(6_000)]
    rows += [(i, None, "long ü " * 2_000 * (i + 1)) for i in range(3)]
    data = written(tmp_path / "a.db", rows, pragma)
    assert rows_of(Database(data)) == rows


def test_a_database_that_is_cut_gives_what_is_there(tmp_path: Path) -> None:
    rows = [(i, i / 2, f"name {i}") for i in range(20_000)]
    data = written(tmp_path / "a.db", rows)
    lengths = []
    for share in range(1, 10):
        database = Database(data[: len(data) * share // 10])
        kept = rows_of(database)
        assert set(kept) <= set(rows)
        assert database.broken_pages > 0
        lengths.append(len(kept))
    assert lengths == sorted(lengths)
    assert lengths[-1] > 15_000


@given(changes=st.lists(st.tuples(st.integers(0, 60_000), st.integers(0, 255)), min_size=1, max_size=30))
@settings(max_examples=draws(50))
def test_damage_never_crashes(changes: list[tuple[int, int]], tmp_path: Path) -> None:
    rows: list[tuple[object, ...]] = [(i, i / 2, f"name {i}" * 40) for i in range(150)]
    data = written(tmp_path / "a.db", rows, "page_size = 512").copy()
    for at, value in changes:
        data[at % len(data)] = value
    try:
        database = Database(data)
    except FormatError:
        return
    for table, columns in database.tables.items():
        database.read(table, dict.fromkeys(columns, TEXTS))
        database.read(table, dict.fromkeys(columns, INTS))
        database.count(table)


def test_what_is_no_database_is_refused() -> None:
    with pytest.raises(FormatError, match="damaged"):
        Database(np.frombuffer(b"SQLite format 3\0" + bytes(90), np.uint8))
