"""Predictions in the history: kept beside the runs that they are about, and held against later ones."""

from __future__ import annotations

import math
import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from ..comparison.comparison import Comparison
from ..comparison.gain import gain_of
from ..comparison.run import Side
from ..errors import NotebookProfError
from ..profiles.predictions import Gain, Prediction
from ..statistics.shift import shift_of_steps, widened
from .before import RunBefore, noise_between
from .entry import read_run
from .folder import history_folder, notebook_path
from .identity import cell_hash
from .store import Store

MOST: Final = 500
"""Predictions of a project; the oldest go."""
BY_TURNS: Final = "%%profile_ab"
_MADE: Final = """
CREATE TABLE IF NOT EXISTS predictions (
  id INTEGER PRIMARY KEY, at_ns INTEGER NOT NULL, run_at_ns INTEGER NOT NULL, kernel TEXT NOT NULL,
  kind TEXT NOT NULL, question TEXT NOT NULL, before_ns REAL NOT NULL, gain_ns REAL NOT NULL,
  lower_ns REAL NOT NULL, upper_ns REAL NOT NULL, measured_ns REAL, low_ns REAL, high_ns REAL,
  by TEXT NOT NULL,
  UNIQUE (run_at_ns, kernel, kind, question))
"""
_COLUMNS: Final = "p.at_ns, p.kind, p.question, p.before_ns, p.gain_ns, p.lower_ns, p.upper_ns"
_SET: Final = "UPDATE predictions SET measured_ns = ?, low_ns = ?, high_ns = ?, by = ?"
_PATIENCE_S: Final = 5.0


class HistoryLedger:
    """Keeps the predictions about one run; see `profiles.predictions`.

    Parameters
    ----------
    before : RunBefore
        Of that run.
    """

    def __init__(self, before: RunBefore) -> None:
        self._before, self._store = before, before.store

    def keep(self, prediction: Prediction) -> None:
        """Add a prediction, in place of an earlier one of the same question."""
        me = self._before.me
        one = prediction
        values = (one.at_ns, me.at_ns, me.kernel, one.kind, one.question)
        times = (one.before_ns, one.gain_ns, one.lower_ns, one.upper_ns)
        with self._store.writing() as connection:
            connection.execute(_MADE)
            connection.execute(
                "INSERT OR REPLACE INTO predictions (at_ns, run_at_ns, kernel, kind, question, before_ns, "
                "gain_ns, lower_ns, upper_ns, by) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, '')",
                (*values, *times),
            )
            connection.execute(
                "DELETE FROM predictions WHERE id NOT IN "
                "(SELECT id FROM predictions ORDER BY at_ns DESC, id DESC LIMIT ?)",
                (MOST,),
            )

    def measure(self, gain: Gain) -> None:
        """Hold all predictions about this run against a measurement."""
        me = self._before.me
        _set_gain(self._store, gain, "run_at_ns = ? AND kernel = ?", (me.at_ns, me.kernel))

    def kept(self) -> list[Prediction]:
        """Return the predictions about runs of this cell; what a later run measures is kept with them."""
        from .writing import wait  # which imports this

        wait(_PATIENCE_S)
        lineage = self._lineage()
        if lineage is None:
            return []
        rows = _select(
            self._store,
            f"{_COLUMNS}, p.measured_ns, p.low_ns, p.high_ns, p.by, r.id",
            "JOIN runs r ON r.at_ns = p.run_at_ns AND r.kernel = p.kernel "
            "WHERE coalesce(r.lineage, r.id) = ?",
            (lineage,),
        )
        later: dict[int, Gain] = {}
        predictions = []
        for at_ns, kind, question, before, gain_ns, lower, upper, measured, low, high, by, run in rows:
            if not by and run not in later:
                later[run] = self._measured_later(run, lineage)
            gain = Gain(measured, low, high, by) if by else later[run]
            predictions.append(Prediction(at_ns, kind, question, before, gain_ns, lower, upper, gain, run))
        return predictions

    def _lineage(self) -> int | None:
        """Return the first run of this cell; of a run whose row is not written, that of the run before."""
        me = self._before.me
        rows = self._store.select(
            "coalesce(lineage, id)", "WHERE at_ns = ? AND kernel = ?", (me.at_ns, me.kernel)
        )
        if rows:
            return int(rows[0][0])
        pair = self._before.earlier()
        return None if pair is None else pair[0].lineage

    def _measured_later(self, run: int, lineage: int) -> Gain:
        """Return what the first later run of another program measures; keep it with the predictions."""
        rows = self._store.select(
            "id",
            "WHERE coalesce(lineage, id) = ? AND NOT failed "
            "AND at_ns > (SELECT at_ns FROM runs WHERE id = ?) "
            "AND cell_hash != (SELECT cell_hash FROM runs WHERE id = ?) ORDER BY at_ns LIMIT 1",
            (lineage, run, run),
        )
        if not rows:
            return Gain()
        try:
            before, later = read_run(self._store, run), read_run(self._store, rows[0][0])
        except NotebookProfError:  # evicted meanwhile, or damaged
            return Gain()
        a, b = (Side(one, "").times() for one in (before, later))
        shift = widened(shift_of_steps(a, b), noise_between(self._store, before, later).factor)
        interval = math.expm1(shift.low), math.expm1(shift.high)
        gain = Gain.of_change(float(a.mean()), math.expm1(shift.value), interval, f"run {later.run}")
        if gain.by:
            where = "by = '' AND (run_at_ns, kernel) = (SELECT at_ns, kernel FROM runs WHERE id = ?)"
            _set_gain(self._store, gain, where, (run,))
        return gain


def measured_by_turns(source: str, compared: Comparison) -> None:
    """Hold predictions about runs of a program against ``%%profile_ab`` of it and another; nothing raises.

    Parameters
    ----------
    source : str
        The first body.
    compared : Comparison
    """
    with suppress(Exception):  # the history is a help
        folder = history_folder(notebook_path())
        gain = gain_of(compared, BY_TURNS)
        if folder is not None and gain.by:
            where = "(run_at_ns, kernel) IN (SELECT at_ns, kernel FROM runs WHERE cell_hash = ?)"
            _set_gain(Store(folder), gain, where, (cell_hash(source),))


def _set_gain(store: Store, gain: Gain, where: str, parameters: Sequence[Any]) -> None:
    if not os.path.exists(store.path) or not _select(store, "1", "LIMIT 1"):
        return
    values = gain.measured_ns, gain.low_ns, gain.high_ns, gain.by
    with store.writing() as connection:
        connection.execute(f"{_SET} WHERE {where}", (*values, *parameters))


def _select(store: Store, what: str, where: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Return rows of the predictions; none in a file that was made before there were any."""
    try:
        return store.query(f"SELECT {what} FROM predictions p {where}", parameters)
    except NotebookProfError as error:
        if isinstance(error.__cause__, sqlite3.OperationalError) and "no such table" in str(error.__cause__):
            return []
        raise
