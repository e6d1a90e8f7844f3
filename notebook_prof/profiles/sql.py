"""Queries the tables of a Trace and its analyses in SQL, with DuckDB, without access to files or network."""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pandas as pd

from .. import analysis
from ..analysis.verdict.claims import METHODS
from ..errors import OptionError, nearest
from ..optional import require
from ..trace.schema import TABLES
from ..units import format_ns, parse_ns

_CLOSED: Final = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
    "lock_configuration": True,
}
"""Settings that keep queries from files, environment variables, the network, and from these settings."""
_ALLOWED: Final = frozenset({"SELECT", "EXPLAIN"})
_NOT_ASKED: Final = frozenset({"sandwich", "what_if"})
"""Analyses that are not offered as tables, since they need an argument or are meaningless without one."""
_PROPERTIES: Final = frozenset({"trust"})
_CLAUSES: Final = ("name", "category", "phase", "line", "track", "step", "rank")
_WORD: Final = re.compile(r"\w+")
Make = Callable[[], pd.DataFrame]


def query(profile: Any, text: str, timeout: str | float) -> pd.DataFrame:
    """Run a query, as in `Profile.sql`."""
    duckdb: Any = require("duckdb", extra="sql", purpose="p.sql()")
    tables, limit_ns = tables_of(profile), parse_ns(timeout)
    connection = duckdb.connect(":memory:", config=_CLOSED)
    try:
        statement = _statement(connection, text, duckdb)
        for name in dict.fromkeys(_WORD.findall(text.lower())):
            if name in tables:
                connection.register(name, _plain(tables[name][1]()))
        done = threading.Event()
        watch = threading.Thread(
            target=_end_late, args=(connection, done, limit_ns / 1e9), name="notebook_prof sql", daemon=True
        )
        watch.start()
        try:
            answer: pd.DataFrame = connection.execute(statement).df()
        finally:
            done.set()
            watch.join()
        return answer
    except duckdb.InterruptException:
        raise OptionError(
            f"the query took longer than {format_ns(limit_ns)}; narrow it, or give timeout="
        ) from None
    except duckdb.CatalogException as error:
        missing_table = re.search(r"Table with name (\w+)", str(error))
        hint = f"; {nearest(missing_table[1], [*tables])}" if missing_table else ""
        raise OptionError(f"{str(error).splitlines()[0]}{hint}; p.sql() lists the tables") from None
    except duckdb.Error as error:
        raise OptionError(f"the query cannot be answered: {error}") from None
    finally:
        connection.close()


def _end_late(connection: Any, done: threading.Event, wait_s: float) -> None:
    while not done.wait(wait_s):
        connection.interrupt()
        wait_s = 0.05  # again: DuckDB forgets an interrupt that comes before the query begins


def _statement(connection: Any, text: str, duckdb: Any) -> Any:
    """Return the single statement in a text, if it only reads."""
    try:
        statements = connection.extract_statements(text)
    except duckdb.Error as error:
        raise OptionError(f"this is not SQL: {error}") from None
    kinds = [str(one.type).rpartition(".")[2] for one in statements]
    if len(kinds) != 1 or kinds[0] not in _ALLOWED:
        written = ", ".join(kind.lower() for kind in kinds) or "nothing"
        raise OptionError(f"p.sql() takes one SELECT or EXPLAIN, but this is: {written}")
    return statements[0]


def tables_of(profile: Any) -> dict[str, tuple[str, Make]]:
    """Return the tables that a query may name, with the call for each and a function that builds it."""
    trace = profile.trace
    out: dict[str, tuple[str, Make]] = {
        "selected": ("p.selected", lambda: profile.selected.rename_axis("slice").reset_index())
    }
    for table in TABLES:
        out[table.name] = f"p.trace.{table.name}", partial(getattr, trace, table.name)
    out["slices"] = "p.trace.slices", lambda: trace.slices.rename_axis("slice").reset_index()
    for name in analysis.__all__:
        function = getattr(analysis, name)
        if name in _NOT_ASKED or not inspect.isfunction(function):
            continue
        if str(inspect.signature(function).return_annotation) == "pd.DataFrame":
            call = name if name in _PROPERTIES else f"{METHODS.get(name, name)}()"
            out[name] = f"p.{call}", partial(function, trace)
    return out


def _plain(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with all values except texts, numbers and missing ones converted to text."""
    mixed = {
        name: column.map(lambda value: value if isinstance(value, str) or value is None else str(value))
        for name, column in table.items()
        if column.dtype == object and column.map(lambda value: not isinstance(value, str | None)).any()
    }
    return table.assign(**mixed) if mixed else table


def overview(profile: Any) -> pd.DataFrame:
    """Return the tables that a query may name, and the pandas call for each."""
    tables = tables_of(profile)
    return pd.DataFrame({"table": [*tables], "call": [call for call, _ in tables.values()]})


def clauses_of(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the clauses that select the rows of an answer; OptionError without rows or such columns."""
    columns = [name for name in _CLAUSES if name in rows]
    if not columns:
        raise OptionError(
            f"nothing can be selected by {', '.join(map(str, rows))}: the query must return a column of "
            f"{', '.join(_CLAUSES)}"
        )
    if not len(rows):
        raise OptionError("nothing is selected: the query has no rows")
    return {name: list(dict.fromkeys(rows[name].dropna().tolist())) for name in columns}
