"""``notebook-prof run``: a notebook with its cells watched, and a script as Python runs it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import notebook_prof as nbp
from notebook_prof import open_profile
from notebook_prof.cli import run_notebook
from notebook_prof.cli.main import main
from notebook_prof.units import format_ns

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")


RUN = [sys.executable, "-m", "notebook_prof", "run"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RUN, *arguments], capture_output=True, text=True, check=False, timeout=300)


def interrupted(began: Path, *arguments: str, **env: str) -> tuple[int, str]:
    """Return exit status and stderr of a run that is interrupted once it has written this file."""
    run = subprocess.Popen([*RUN, *arguments], env={**os.environ, **env}, stderr=subprocess.PIPE, text=True)
    while not (began.exists() and began.read_text()) and run.poll() is None:
        time.sleep(0.05)  # between two looks
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=240)
    return run.returncode, errors


def notebook(path: Path, *sources: str) -> None:
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    cells[0].metadata["tags"] = ["parameters"]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)


def test_a_notebook_until_the_cell_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notebook(tmp_path / "in.ipynb", "size = 1", "size * 2", "total = sum(range(size))", "1 / 0", "never = 1")
    files = ("-o", "out.ipynb", "--save", "run.nbprof", "--report", "r.html")
    options = ("-p", "size", "20", "--full", "cell 3", "--expect", "notebook < 60min")
    assert main(["run", "in.ipynb", *files, *options]) == 1
    printed, errors = capsys.readouterr()
    assert printed.startswith("Run All takes about ")
    assert "PASS" in printed
    assert "cell 5 of 6 failed: ZeroDivisionError: division by zero" in errors
    book = nbformat.read(tmp_path / "out.ipynb", 4)
    sources = ["size = 1", "# Parameters\nsize = 20", "size * 2", "total = sum(range(size))"]
    assert [cell.source for cell in book.cells[:4]] == sources
    assert [cell.execution_count for cell in book.cells] == [1, 2, 3, 4, 5, None]
    assert book.cells[2].outputs[0].data["text/plain"] == "40"
    cells = open_profile(tmp_path / "run.nbprof").cells()
    assert cells["cell_id"].tolist() == [cell.id for cell in book.cells[:5]]
    assert cells["number"].tolist() == [1, 2, 3, 4, 5]
    assert cells["full"].tolist() == [False, False, False, True, False]
    assert cells["error"].tolist()[-1] == "ZeroDivisionError"
    recorded = open_profile(tmp_path / "run.cell3.nbprof").trace
    assert recorded.metadata["source"] == "recording"
    assert "size" in recorded.metadata["cell_source"]
    assert "ZeroDivisionError" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_a_notebook_that_loads_the_extension_prints_no_more_than_without(tmp_path: Path) -> None:
    notebook(tmp_path / "in.ipynb", "%load_ext notebook_prof")
    assert main(["run", "in.ipynb", "-o", "out.ipynb"]) == 0
    assert nbformat.read(tmp_path / "out.ipynb", 4).cells[0].outputs == []


def test_no_source_is_in_the_recording_of_a_cell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notebook(tmp_path / "in.ipynb", "secret_word = 1", "secret_sum = sum(range(10**6))\n1 / secret_word")
    options = ("--save", "run.nbprof", "--full", "2", "--no-source", "--expect", "notebook < 1ns")
    assert main(["run", "in.ipynb", *options]) == 1
    assert "FAIL" in capsys.readouterr().out
    recorded = open_profile(tmp_path / "run.cell2.nbprof")
    assert len(recorded.trace.slices)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.ipynb", "run.cell2.nbprof", "run.nbprof"]
    for file in filter(Path.is_file, tmp_path.rglob("*")):
        assert file.name == "in.ipynb" or b"secret" not in file.read_bytes(), file
    assert main(["report", "run.cell2.nbprof", "--no-source", "-o", "r.html"]) == 0
    assert main(["convert", "run.nbprof", "--no-source", "-o", "r.json"]) == 0
    assert b"secret" not in (tmp_path / "r.json").read_bytes()


def test_each_cell_has_a_row_in_the_history_and_runs_compare_as_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NOTEBOOK_PROF_HISTORY", str(tmp_path / "history"))
    file, work = tmp_path / "in.ipynb", "def work():\n    return sum(range(10_000))\nwork()"
    notebook(file, "size = 1", work)
    bars = list[str]()
    monkeypatch.setattr(run_notebook.tqdm, "set_postfix_str", lambda self, text: bars.append(text))
    for name in ("a", "b"):
        if name == "b":
            assert bars == []
            file.write_text(file.read_text().replace("10_000", "20_000"))
        assert main(["run", "in.ipynb", "--save", f"{name}.nbprof", "--expect", "peak < 64GiB"]) == 0
    runs = nbp.history()
    runs = runs[runs["notebook"].str.endswith("in.ipynb")].reset_index(drop=True)
    assert bars == [f"the last run took {format_ns(int(runs['total_ns'][:2].sum()))}"]
    assert runs["source"].tolist()[::2] == ["size = 1"] * 2
    assert runs["earlier"].isna().tolist() == [True, True, False, False]
    assert runs["link"].tolist()[2:] == ["cell", "cell"]
    assert (runs["p50_ns"] > 0).all()
    compared = nbp.compare(nbp.load(int(runs["run"][1])), nbp.load(int(runs["run"][3])))
    assert compared.lines["a_line"].tolist() in ([1, 3], [3, 1])
    sides = [str(tmp_path / f"{name}.nbprof") for name in ("a", "b")]
    page = str(tmp_path / "diff.html")
    assert main(["diff", *sides, "--html", page, "--expect", "notebook < 60min"]) == 0
    assert "PASS" in capsys.readouterr().out
    text = Path(page).read_text(encoding="utf-8")
    assert "Run All: " in text
    assert "sum(range(20_000))" in text
    assert "<h3>Edited</h3>" in text


SLEEP = "import time; time.sleep(600)"


@pytest.mark.parametrize(
    ("sources", "recorded", "said"),
    [
        pytest.param(["x = = 1"], 1, "cell 1 of 1 failed: SyntaxError", id="syntax"),
        pytest.param(["x = 1", "%profile_notebook off", "1 / 0"], 1, "cell 3 of 3 failed: Zero", id="off"),
        pytest.param(["x = 1", SLEEP], 2, "cell 2 of 2 failed: KeyboardInterrupt", id="timeout"),
        pytest.param(["import os; os._exit(1)"], 0, "the kernel died in cell 1 of 1", id="died"),
        pytest.param(
            ["x = 1", "import os; os._exit(1)"], 1, "the kernel died in cell 2 of 2", id="died-later"
        ),
    ],
)
def test_the_cells_before_a_failure_are_reported(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    sources: list[str],
    recorded: int,
    said: str,
) -> None:
    monkeypatch.setenv("NOTEBOOK_PROF_HISTORY", str(tmp_path / "history"))
    notebook(tmp_path / "in.ipynb", *sources)
    limit = "10" if "KeyboardInterrupt" in said else "300"
    assert main(["run", "in.ipynb", "-o", "out.ipynb", "--save", "run.nbprof", "--timeout", limit]) == 1
    assert said in capsys.readouterr().err.splitlines()[-1]
    assert (tmp_path / "out.ipynb").exists()
    assert (tmp_path / "run.nbprof").exists() == (recorded > 0)
    if recorded:
        assert len(open_profile(tmp_path / "run.nbprof").cells()) == recorded


def test_an_interrupt_ends_the_cell_and_the_run_is_reported(tmp_path: Path) -> None:
    begin = "with open('began', 'w') as began: began.write('now')\nwhile True: pass"
    notebook(tmp_path / "in.ipynb", "x = 1", begin, "never = 1")
    code, errors = interrupted(tmp_path / "began", "in.ipynb", "--save", "run.nbprof")
    assert (code, "cell 2 of 3 failed: KeyboardInterrupt" in errors) == (1, True), errors
    assert open_profile(tmp_path / "run.nbprof").cells()["error"].tolist() == ["", "KeyboardInterrupt"]


def test_an_interrupt_before_the_first_cell_is_one_sentence(tmp_path: Path) -> None:
    notebook(tmp_path / "in.ipynb", "x = 1")
    argv = ["sh", "-c", "echo $$ > began; exec sleep 1000"]
    (tmp_path / "kernels" / "slow").mkdir(parents=True)
    spec = json.dumps({"argv": argv, "display_name": "slow", "language": "python"})
    (tmp_path / "kernels" / "slow" / "kernel.json").write_text(spec)
    ended = interrupted(tmp_path / "began", "in.ipynb", "--kernel", "slow", JUPYTER_PATH=str(tmp_path))
    assert ended == (1, "notebook-prof: interrupted\n")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "began").read_text()), 0)


def test_an_interrupt_waits_until_the_process_of_a_kernel_is_known() -> None:
    started = []

    async def start() -> None:
        signal.raise_signal(signal.SIGINT)
        started.append("process")
        await asyncio.sleep(600)

    before = signal.getsignal(signal.SIGINT)
    loop = asyncio.new_event_loop()
    with pytest.raises(KeyboardInterrupt), run_notebook.interrupts_between_steps():
        loop.run_until_complete(start())
    assert started == ["process"]
    with pytest.raises(KeyboardInterrupt), run_notebook.interrupts_between_steps():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


MAIN = """
import atexit, os, pickle, sys, threading, time
class Mine: pass
def dump(): print(pickle.loads(pickle.dumps(Mine())).__class__, sys.argv, flush=True)
print(__file__, __builtins__, __package__, getattr(__spec__, "name", None), sys.path[0], flush=True)
print(sorted(globals()), flush=True)
end = time.process_time() + 0.5
while time.process_time() < end: sum(range(1000))
os.chdir("/")
def outlive():
    threading.main_thread().join(0.2)
    dump()
threading.Thread(target=outlive).start()
atexit.register(dump)
"""
FORK = """
import os, sys
pid = os.fork()
if not pid:
    sys.exit(5)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
HOOK = "import sys\nsys.excepthook = lambda *error: sys.exit(7)\n1 / 0\n"


@pytest.mark.parametrize(
    ("name", "source"),
    [
        pytest.param("job.py", MAIN, id="main"),
        pytest.param("job", MAIN, id="folder"),
        pytest.param(
            "job.py", FORK, id="fork", marks=pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
        ),
        pytest.param("job.py", HOOK, id="hook"),
        pytest.param("job.py", "import sys\nprint(1)\nsys.stdout.close()\n", id="closed"),
        pytest.param("job.py", "raise KeyboardInterrupt\n", id="interrupt"),
    ],
)
def test_a_script_does_what_it_does_without(tmp_path: Path, name: str, source: str) -> None:
    file = tmp_path / name if name.endswith(".py") else tmp_path / name / "__main__.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(source)
    words = [sys.executable, name, "--epochs"]
    plain = subprocess.run(words, capture_output=True, text=True, check=False)
    done = command("--save", "run.nbprof", name, "--epochs")
    assert done.returncode == plain.returncode
    # what the recording says stands before what is left to the exit
    printed = plain.stdout.splitlines(keepends=True)
    at_exit = printed.pop() if source is MAIN else ""
    assert done.stdout.startswith("".join(printed))
    assert done.stdout.endswith(at_exit)
    assert done.stderr == plain.stderr
    assert len(open_profile(tmp_path / "run.nbprof").trace.slices) or source is not MAIN


@pytest.mark.parametrize(("wanted", "steps"), [("2:5", [2, 3, 4]), ("1:3", [1, 2])])
def test_the_steps_of_a_script_that_imports_torch(tmp_path: Path, wanted: str, steps: list[int]) -> None:
    """The warm-up starts either before or after torch is imported."""
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(
        "import torch\nweight = torch.ones(3, requires_grad=True)\noptimizer = torch.optim.SGD([weight])\n"
        "for _ in range(6):\n    weight.sum().backward()\n    optimizer.step()\n"
    )
    done = command("--steps", wanted, "--save", "run.nbprof", "train.py")
    assert done.returncode == 0, done.stderr
    p = open_profile(tmp_path / "run.nbprof")
    assert p.steps()["step"].tolist() == steps
    assert p.operators().set_index("name").at["aten::sum", "count"] == len(steps)
    assert "torch-imported-late" not in p.trace.report


def test_torch_that_another_thread_imports_is_not_recorded(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "job.py").write_text(
        "import importlib, threading\n"
        "other = threading.Thread(target=importlib.import_module, args=['torch'])\n"
        "other.start(); other.join()\n"
    )
    done = command("--save", "run.nbprof", "job.py")
    assert done.returncode == 0, done.stderr
    assert "torch-imported-late" in open_profile(tmp_path / "run.nbprof").trace.report


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["not.ipynb"], "not.ipynb is not a notebook that Jupyter can read"),
        (["in.ipynb", "--kernel", "none-such"], "there is no kernel 'none-such' here"),
        (["in.ipynb", "-o", "nowhere/out.ipynb"], "to write 'out.ipynb' to"),
        (["in.ipynb", "--full", "cell 9"], "names 0 of 1 code cells"),
        (["in.ipynb", "--expect", "notebook < 1parsec"], "'1parsec' is not a duration"),
        (["in.ipynb", "-p", "class", "1"], "the name of a parameter must be a Python name"),
        (["--report", "nowhere/r.html", "job.py"], "to write 'r.html' to"),
        (["--steps", "2:5", "in.ipynb"], "--steps is for scripts"),
        (["--timeout", "5", "job.py"], "--timeout are for notebooks"),
        (["nowhere.py"], "there is no script 'nowhere.py' here"),
        (["missing.ipynb"], "there is no file or folder 'missing.ipynb' here"),
    ],
)
def test_what_cannot_run_is_said_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    notebook(tmp_path / "in.ipynb", "x = 1")
    (tmp_path / "not.ipynb").write_text("hello")
    assert main(["run", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
