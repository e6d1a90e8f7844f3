"""The command line: commands, formats of output, errors."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from notebook_prof.cli.main import main
from notebook_prof.readers import read_trace


@pytest.fixture
def trace(data: Path) -> str:
    return str(data / "torch213_cpu/mini_noschedule.pt.trace.json.gz")


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def test_the_script_is_installed(trace: str) -> None:
    script = Path(sys.executable).parent / "notebook-prof"
    if not script.exists():
        pytest.skip("the package was installed before it had a script: pip install it again")
    words = [script, "summary", trace, "--table", "operators", "-t", "1"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0].split()[:2] == ["name", "count"]
    assert done.stderr == ""


def test_a_table_of_a_topic_has_a_dotted_name(capsys, trace: str) -> None:
    assert said(capsys, "summary", trace, "--table", "cpu.waits", "--csv").startswith("kind,")
    assert main(["summary", trace, "--table", "host_waits", "--csv"]) == 2
    assert said(capsys, "summary", trace, "--table", "account")  # its method was not looked up before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["analyze", "nowhere.json"], "nowhere.json"),
        (["summary", "{trace}", "--table", "operatrs"], "did you mean 'operators'"),
        (["summary", "{trace}", "--table", "operators", "--where", "slef>1ms"], "did you mean 'self'"),
        (["summary", "{trace}", "--table", "memory.peek"], "did you mean 'memory.peak'"),
        (["summary", "{trace}", "--table", "input"], "there is no analysis 'input'"),
        (["summary", "{trace}", "--table", "device", "--by", "name"], "takes no --by"),
        (["analyze", "{trace}", "--order-by", "tiem"], "did you mean 'time'"),
        (["analyze", "{trace}", "--opr-name", "("], "not a regular expression"),
        (["convert", "{trace}", "{out}/x.xyz"], "x.xyz"),
        (["convert", "{trace}"], "name it once"),
        (["convert", "{trace}", "{out}/a.json", "-o", "{out}/b.json"], "name it once"),
        (["report", "{trace}", "-o", "{trace}"], "choose another name"),
    ],
)
def test_refusals_are_one_sentence(arguments, words, trace, tmp_path, capsys) -> None:
    copy = str(shutil.copy(trace, tmp_path))
    assert main([a.format(trace=copy, out=tmp_path) for a in arguments]) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.startswith("notebook-prof: ")
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_json_and_csv_hold_the_numbers(trace: str, capsys) -> None:
    words = ("summary", trace, "--table", "operators", "-t", "0")
    records = json.loads(said(capsys, *words, "--json"))
    rows = list(csv.DictReader(io.StringIO(said(capsys, *words, "--csv"))))
    assert [r["name"] for r in records] == [r["name"] for r in rows]
    assert [r["self_ns"] for r in records] == [int(r["self_ns"]) for r in rows]
    assert json.loads(said(capsys, "analyze", trace, "--print-only", "summary", "--json"))[0]["name"]


def test_tables_are_plain_when_piped_and_drawn_when_asked(trace: str, capsys) -> None:
    plain = said(capsys, "summary", trace, "--table", "operators", "-t", "3")
    assert len(plain.splitlines()) == 4
    assert "│" not in plain
    assert "│" in said(capsys, "summary", trace, "--table", "operators", "-t", "3", "--format", "grid")
    assert "|---" in said(capsys, "summary", trace, "--table", "operators", "-t", "3", "--format", "markdown")


def test_summary_says_the_verdict_first(trace: str, capsys) -> None:
    from notebook_prof.profiles.files import open_profile

    text = said(capsys, "summary", trace)
    profile = open_profile(trace)
    assert text.rstrip() == profile.summary(rows=20).rstrip()
    assert text.startswith(profile.headline)
    view = said(capsys, "summary", trace, "--views", "OperatorView", "--time-unit", "us")
    assert view.rstrip() == profile.summary(views="OperatorView", time_unit="us").rstrip()


def test_report_and_convert(trace: str, tmp_path: Path, capsys) -> None:
    copy = shutil.copy(trace, tmp_path / "run.json.gz")
    assert said(capsys, "report", str(copy)).strip() == str(tmp_path / "run.html")
    assert "<html" in (tmp_path / "run.html").read_text()[:500]
    assert said(capsys, "convert", str(copy), str(tmp_path / "run.nbprof")).strip().endswith("run.nbprof")
    assert said(capsys, "convert", str(copy), "-o", str(tmp_path / "c.json")).strip().endswith("c.json")
    again, first = read_trace(tmp_path / "run.nbprof"), read_trace(trace)
    assert again.slices["name"].astype(str).tolist() == first.slices["name"].astype(str).tolist()


def test_a_closed_pipe_is_no_error(trace: str) -> None:
    command = f"{sys.executable} -m notebook_prof summary {trace} | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stderr
