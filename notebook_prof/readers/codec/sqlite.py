"""Tables of an SQLite file as columns of NumPy and Arrow."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from importlib import import_module
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from ...errors import FormatError
from ...trace.report import ImportReport
from .columns import FLOATS, INTS, MISSING, TEXTS, Column, Kind, decoded

MAGIC: Final = b"SQLite format 3\0"

_VALUES: Final[Mapping[Kind, str]] = {
    INTS: "case typeof({0}) when 'integer' then {0} when 'real' then cast({0} as integer) "
    f"else {MISSING} end",
    FLOATS: "case when typeof({0}) in ('integer', 'real') then cast({0} as real) end",
    TEXTS: "case when typeof({0}) = 'text' then substr({0}, 1, 1048576) end",
}
"""SQL expressions that select a column such that all of its values have the same kind."""


_MANY: Final = 10_000
"""Number of rows from which a table is read by adbc-driver-sqlite, if that is installed: twice as fast."""


class Database:
    """An SQLite file, for reading whole columns. A write-ahead log beside it is not read.

    `tables` has the names of the columns by table. FormatError, also of methods, if the file is damaged.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "a.db"
    >>> with closing(sqlite3.connect(path)) as made:
    ...     _ = made.execute("create table t (id integer primary key, name text, size int)")
    ...     _ = made.execute("insert into t values (7, 'seven', 1 << 40), (8, null, -1)")
    ...     made.commit()
    >>> with closing(Database(path)) as database:
    ...     rows = database.read("t", {"id": INTS, "size": INTS, "name": TEXTS})
    >>> rows["id"].tolist(), rows["size"].tolist(), rows["name"].array.to_pylist()
    ([7, 8], [1099511627776, -1], ['seven', None])
    """

    def __init__(self, path: Path) -> None:
        # immutable: nothing is locked or written, so a read-only folder will do
        self._uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
        self._connection = sqlite3.connect(self._uri, uri=True)
        self._connection.text_factory = bytes  # not everything stored as text is UTF-8
        try:
            with _damage():
                self._connection.execute("pragma trusted_schema = off")
                self._connection.execute("pragma cell_size_check = on")
                size, count = (self._number(f"pragma {name}") for name in ("page_size", "page_count"))
                encoding = self._connection.execute("pragma encoding").fetchone()[0]
                self._is_utf8 = encoding == b"UTF-8"
                if path.stat().st_size < size * count:  # SQLite takes zeros for what the last page lacks
                    raise sqlite3.DatabaseError("its last page is not whole")
                tables = "sqlite_master where type = 'table' and sql like 'create table%'"
                self.tables: Mapping[str, tuple[str, ...]] = {
                    table: self._names("pragma_table_info(?)", table) for table in self._names(tables)
                }
            if not self.tables:
                raise FormatError("it is an SQLite database in which no table can be read")
        except FormatError:
            self.close()
            raise

    def close(self) -> None:
        self._connection.close()

    def read(self, table: str, kinds: Mapping[str, Kind]) -> dict[str, Column]:
        """Return columns of a table, in the order of its rows. Columns that it does not have are left out."""
        # NULL and values of another kind become `MISSING`, NaN or null; texts are cut at a million characters
        columns: dict[str, Column] = {}
        with _damage():
            for kind in (INTS, FLOATS, TEXTS):
                names = [name for name in self.tables.get(table, ()) if kinds.get(name) == kind]
                if names:
                    columns |= zip(names, self._columns(table, names, kind), strict=True)
        return columns

    def count(self, table: str) -> int:
        if table not in self.tables:
            return 0
        with _damage():
            return self._number(f"select count(*) from {_quoted(table)}")

    def _columns(self, table: str, names: Sequence[str], kind: Kind) -> Iterable[Column]:
        count = self._number(f"select count(*) from {_quoted(table)}")
        # a text as a blob has the encoding of the database
        if count >= _MANY and (kind != TEXTS or self._is_utf8):
            with suppress(ImportError):
                return self._arrow_columns(table, names, kind, count)
        values = ", ".join(_VALUES[kind].format(_quoted(name)) for name in names)
        # an index that covers all of these columns would return them in a different order
        rows = self._connection.execute(f"select {values} from {_quoted(table)} not indexed")
        if kind == INTS:  # straight into an array, since a list of rows would keep an object for each number
            numbers = np.fromiter(chain.from_iterable(rows), np.int64)
            return np.ascontiguousarray(numbers.reshape(-1, len(names)).T)
        columns = [*zip(*rows, strict=True)] or [()] * len(names)
        if kind == FLOATS:
            return [np.array(column, np.float64) for column in columns]
        import pyarrow as pa

        return [decoded(pa.array(column, pa.large_binary())) for column in columns]

    def _arrow_columns(self, table: str, names: Sequence[str], kind: Kind, count: int) -> Iterable[Column]:
        """Read columns with adbc-driver-sqlite. ImportError if it is not installed."""
        adbc: Any = import_module("adbc_driver_sqlite.dbapi")
        import pyarrow as pa

        # as blobs, since texts need not be UTF-8
        wanted = (_VALUES[kind].format(_quoted(name)) for name in names)
        values = ", ".join(
            f"cast({value} as blob) as c{i}" if kind == TEXTS else f"{value} as c{i}"
            for i, value in enumerate(wanted)
        )
        try:
            with closing(adbc.connect(self._uri)) as connection, closing(connection.cursor()) as cursor:
                # types are those of the first batch, so there is only one
                cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(count)})
                cursor.execute(f"select {values} from {_quoted(table)} not indexed")
                columns = [column.combine_chunks() for column in cursor.fetch_arrow_table().columns]
        except adbc.Error as error:
            raise sqlite3.DatabaseError(str(error)) from error
        to = {INTS: pa.int64(), FLOATS: pa.float64(), TEXTS: pa.large_binary()}[kind]
        made = [
            column.cast(to) if column.null_count < len(column) else pa.nulls(len(column), to)
            for column in columns
        ]
        if kind == TEXTS:
            return [*map(decoded, made)]
        return [np.array(column.to_numpy(zero_copy_only=False)) for column in made]  # writable

    def _number(self, query: str) -> int:
        return int(self._connection.execute(query).fetchone()[0])

    def _names(self, source: str, *values: str) -> tuple[str, ...]:
        rows = self._connection.execute(f"select name from {source}", values)
        return tuple(name.decode(errors="replace") for (name,) in rows)


@contextmanager
def opened(path: Path, pieces: Iterable[bytes], report: ImportReport) -> Iterator[Database]:
    """Open a database: the file itself or, if that is compressed, a temporary decompressed copy."""
    # `pieces` are the decompressed content, not read if the file is not compressed.
    with path.open("rb") as file:
        is_plain = file.read(len(MAGIC)) == MAGIC
    if is_plain:
        log = path.with_name(path.name + "-wal")
        if log.is_file() and log.stat().st_size:
            effect = "rows that are only in the log beside the database are missing"
            advice = f"run: sqlite3 {path.name} 'pragma wal_checkpoint(truncate)'"
            report.add("write-ahead-log", "loss", example=log.name, effect=effect, advice=advice)
        with closing(Database(path)) as database:
            yield database
        return
    with TemporaryDirectory() as folder:
        unpacked = Path(folder) / "unpacked.db"
        with unpacked.open("wb") as file:
            file.writelines(pieces)
        with closing(Database(unpacked)) as database:
            yield database


@contextmanager
def _damage() -> Iterator[None]:
    """Turn SQLite's errors into a FormatError that explains them."""
    try:
        yield
    except sqlite3.Error as error:
        raise FormatError(
            f"it is an SQLite database that was cut or is damaged ({error}): copy or export it again"
        ) from error


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
