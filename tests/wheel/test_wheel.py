"""What is published: small, the same from the source distribution, and whole in an empty environment.

``make test-wheel``. The package index is needed; where it cannot be reached the tests are skipped.
"""

import email
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import notebook_prof
from tests.checkout import copy_checkout
from tests.pythons.interpreters import VERSIONS

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 2_000_000
"""750 modules with docstrings are 1.66 MB when deflated, the page's scripts 0.1 MB, names of files 0.15."""

OPEN = """
import json, sys
import notebook_prof as nbp

p = nbp.open_profile(sys.argv[1])
p.export.html(sys.argv[2])
print(json.dumps({
    "at": nbp.__file__,
    "version": nbp.__version__,
    "verdict": str(p.verdict),
    "operators": int(p.operators()["count"].sum()),
    "figure": type(p.plot.timeline()).__name__,
    "torch": "torch" in sys.modules,
}))
"""
MAGIC = """
import json
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "notebook_prof")
cell = "%%profile q --quiet --no-history\\ntotal = 0\\nfor i in range(300_000):\\n    total += i * i\\n"
done = shell.run_cell(cell)
done.raise_error()
lines = shell.user_ns["q"].lines()
print(json.dumps({"total": shell.user_ns["total"], "lines": sorted(set(lines["line"].tolist()))}))
shell.run_line_magic("unload_ext", "notebook_prof")
"""


def run(*command: str | Path, cwd: Path) -> str:
    """Run a program that must succeed; give what it printed."""
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def environment(folder: Path, *requirements: str | Path) -> Path:
    """Make an environment with these packages alone; skip where the package index cannot be reached."""
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile"]
    done = subprocess.run([*install, *requirements], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        ask = [*install, "--dry-run", "--no-deps", "hatchling"]
        if subprocess.run(ask, cwd=folder, capture_output=True, check=False).returncode:
            pytest.skip("the package index cannot be reached")
        pytest.fail(done.stderr[-3000:])
    return python


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the build backend."""
    folder = tmp_path_factory.mktemp("builder") / "venv"
    return environment(folder, "hatchling", "hatch-fancy-pypi-readme", "twine")


@pytest.fixture(scope="module")
def built(builder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel and the source distribution of a copy of what is committed."""
    checkout = tmp_path_factory.mktemp("checkout")
    copy_checkout(checkout, "notebook_prof/", "js/labextension/")
    run(builder, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", "out", cwd=checkout)
    files = {path.suffix: path for path in (checkout / "out").iterdir()}
    assert sorted(files) == [".gz", ".whl"]
    return {"sdist": files[".gz"], "wheel": files[".whl"]}


def test_a_registry_takes_both_and_shows_the_readme(built: dict[str, Path], builder: Path) -> None:
    """Nothing in it leads to a file that only a checkout has."""
    run(builder, "-m", "twine", "check", "--strict", *built.values(), cwd=builder.parent)
    with zipfile.ZipFile(built["wheel"]) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    readme = str(metadata.get_payload())
    assert "%%profile" in readme
    assert 'pip install "notebook-prof[torch]"' in readme
    assert "make " not in readme
    assert re.findall(r"\]\((?!https://)[^)]*", readme) == []
    extras = set(metadata.get_all("Provides-Extra", []))
    assert extras & {"test", "test-without-torch", "front-ends", "fuzz", "docs"} == set()
    assert {"torch", "gpu", "notebook"} <= extras
    whole = [one for one in VERSIONS if one not in ("3.14t", "3.15")]  # of which every test passes
    supported = {f"Programming Language :: Python :: {one}" for one in whole}
    assert supported <= set(metadata.get_all("Classifier", []))


def contents(wheel: Path) -> dict[str, str]:
    """Names of a wheel's files with the hash of each."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


def test_the_wheel_is_small_and_whole(built: dict[str, Path]) -> None:
    assert built["wheel"].stat().st_size < MOST_BYTES
    assert built["wheel"].name == f"notebook_prof-{notebook_prof.__version__}-py3-none-any.whl"
    names = contents(built["wheel"])
    committed = run(
        "git", "ls-files", "--cached", "--others", "--exclude-standard", "notebook_prof", cwd=ROOT
    )
    assert {name for name in names if name.startswith("notebook_prof/")} == {
        name for name in committed.splitlines() if (ROOT / name).is_file()
    }
    shared = [name for name in names if ".data/data/share/jupyter/labextensions/" in name]
    assert any(name.endswith("/package.json") for name in shared)


def test_the_source_distribution_builds_the_same_wheel(
    built: dict[str, Path], builder: Path, tmp_path: Path
) -> None:
    with tarfile.open(built["sdist"]) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    run(builder, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "out", cwd=source)
    (wheel,) = (tmp_path / "out").iterdir()
    assert wheel.name == built["wheel"].name
    assert contents(wheel) == contents(built["wheel"])


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_an_empty_environment_runs_the_core_of_the_quickstart(
    built: dict[str, Path], tmp_path: Path, data: Path, kind: str
) -> None:
    python = environment(tmp_path / "clean", built[kind])
    recording, report = data / "torch213_cpu" / "cnn_sgd.pt.trace.json.gz", tmp_path / "report.html"
    answers = json.loads(run(python, "-I", "-c", OPEN, recording, report, cwd=tmp_path))
    expected = notebook_prof.open_profile(recording)
    assert Path(answers["at"]).is_relative_to(tmp_path / "clean")
    assert answers["version"] == notebook_prof.__version__
    assert answers["verdict"] == str(expected.verdict)
    assert answers["operators"] == expected.operators()["count"].sum()
    assert answers["figure"] == type(expected.plot.timeline()).__name__
    assert not answers["torch"]
    assert report.stat().st_size > 100_000
    recorded = json.loads(run(python, "-I", "-c", MAGIC, cwd=tmp_path).splitlines()[-1])
    assert recorded["total"] == sum(i * i for i in range(300_000))
    assert {3, 4} <= set(recorded["lines"]), "the loop and its body"
    for program in ([python.parent / "notebook-prof"], [python, "-I", "-m", "notebook_prof"]):
        assert notebook_prof.__version__ in run(*program, "--version", cwd=tmp_path)
    test = [python, "-I", "-c", "from notebook_prof.testing import *; print(draw('main: [mm]'))"]
    assert "1 slices" in run(*test, cwd=tmp_path)
