"""Questions in SQL: the answers are those of pandas, and nothing but reading is possible."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import notebook_prof as nbp
from notebook_prof.cli.main import main
from notebook_prof.errors import OptionError
from notebook_prof.profiles import sql
from notebook_prof.profiles.profile import Profile

from ..browser.drawn import drawn_profile

pytest.importorskip("duckdb")


@pytest.fixture(scope="module")
def run() -> Profile:
    """A training run on a drawn GPU."""
    return drawn_profile(gpu=True)


def test_answers_are_those_of_pandas(run: Profile) -> None:
    ours = run.sql(
        "select name, sum(dur) as total, count(*) as n from slices group by name order by total desc, name"
    )
    slices = run.trace.slices.assign(name=run.trace.slices["name"].astype(str))
    theirs = slices.groupby("name")["dur"].agg(["sum", "count"]).reset_index()
    theirs = theirs.sort_values(["sum", "name"], ascending=[False, True])
    assert ours["name"].tolist() == theirs["name"].tolist()
    assert ours["total"].astype("int64").tolist() == theirs["sum"].tolist()
    parents = run.sql(
        "select c.slice, p.slice as above from slices c join slices p on c.parent = p.slice order by 1"
    )
    column = run.trace.slices["parent"].dropna().astype("int64")
    assert parents["above"].tolist() == column.tolist()
    run.selection.update(category="kernel")
    try:
        assert run.sql("select count(*) as n from selected")["n"].tolist() == [len(run.selected)]
    finally:
        run.selection.clear()
    explained = run.sql("explain select 1")
    assert len(explained)


def test_every_table_can_be_asked(run: Profile) -> None:
    tables = run.sql()
    assert {"slices", "operators", "memory_names", "lines", "device_idle", "advice"} <= set(tables["table"])
    for row in tables.to_dict("records"):
        value = eval(row["call"], {"p": run})
        count = run.sql(f"select count(*) as n from {row['table']}")["n"].tolist()
        assert count == [len(pd.DataFrame(value))], row


@pytest.mark.parametrize(
    "query",
    [
        "drop view slices",
        "create table t as select 1",
        "insert into slices select * from slices",
        "with gone as (delete from slices returning *) select * from gone",
        "select 1; select 2",
        "copy (select 1) to '{folder}/out.csv'",
        "select * from read_csv('{folder}/in.csv')",
        "select * from '{folder}/in.csv'",
        "select * from read_text('{folder}/in.csv')",
        "select * from glob('{folder}/*')",
        "attach '{folder}/out.db' as out",
        "install httpfs",
        "load '{folder}/ext.duckdb_extension'",
        "set enable_external_access = true",
        "pragma enable_logging",
        "select * from secret_of_python",
        "",
        "selekt 1",
    ],
)
def test_only_reading_is_possible(run: Profile, tmp_path: Path, query: str) -> None:
    secret_of_python = pd.DataFrame({"password": [1]})
    (tmp_path / "in.csv").write_text("a\n1\n")
    before = run.trace.slices["dur"].to_numpy().copy()
    with pytest.raises(OptionError):
        run.sql(query.format(folder=tmp_path))
    assert [one.name for one in tmp_path.iterdir()] == ["in.csv"]
    assert len(secret_of_python) == 1
    np.testing.assert_array_equal(before, run.trace.slices["dur"].to_numpy())


def test_what_is_wrong_is_said(run: Profile) -> None:
    with pytest.raises(OptionError, match=r"operators.*p\.sql\(\) lists the tables"):
        run.sql("select * from operater")
    with pytest.raises(OptionError, match="longer than 1 ms"):
        run.sql("select count(*) from range(100000000000) a", timeout="1ms")


def test_rows_of_an_answer_are_selected(run: Profile) -> None:
    rows = run.select("select name, step from slices where category = 'kernel' and step in (2, 3)")
    try:
        assert run.selection.name == tuple(dict.fromkeys(rows["name"]))
        assert set(run.selection.step) == set(rows["step"])
        with pytest.raises(OptionError, match="no rows"):
            run.select("select name from slices where false")
        with pytest.raises(OptionError, match="name, category"):
            run.select("select dur from slices")
        assert set(run.selection.step) == set(rows["step"]), "what cannot be selected changes nothing"
    finally:
        run.selection.clear()


def test_the_command(run: Profile, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run.save(tmp_path / "run.nbprof.zip")
    file = str(tmp_path / "run.nbprof.zip")
    assert main(["sql", file, "select count(*) as n from slices", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"n": len(nbp.read_trace(file).slices)}]
    assert main(["sql", file]) == 0
    assert "p.operators()" in capsys.readouterr().out
    assert main(["sql", file, "drop table x"]) == 2
    assert "one SELECT or EXPLAIN" in capsys.readouterr().err


def test_clauses_are_columns_of_a_selection() -> None:
    rows = pd.DataFrame({"step": pd.array([1, None, 1], "Int64"), "line": ["cell:2", None, "cell:3"], "x": 0})
    assert sql.clauses_of(rows) == {"line": ["cell:2", "cell:3"], "step": [1]}
