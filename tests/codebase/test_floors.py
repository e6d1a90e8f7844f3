"""Imports point down, rooms of one floor keep apart, heavy libraries stay at home."""

import subprocess
import sys
from pathlib import Path

import pytest

from .source import FILES, ROOT, imports, module_name, room

FLOORS = {
    "errors": 0,
    "lazy": 0,
    "units": 1,
    "labels": 1,
    "optional": 1,
    "background": 1,
    "interrupts": 1,
    "atomic_files": 1,
    "own_processes": 1,
    "trace": 2,
    "selection": 3,
    "statistics": 3,
    "readers": 3,
    "writers": 3,
    "analysis": 4,
    "collectors": 5,
    "service": 5,
    "expectations": 5,
    "testing": 5,
    "views": 6,
    "profiles": 7,
    "comparison": 8,
    "ranks": 8,
    "runs": 9,
    "session": 10,
    "pytest_plugin": 11,
    "jupyter": 11,
    "cli": 11,
}

HOMES = {
    "torch": {"collectors"},
    "cupy": {"collectors"},
    "pynvml": {"collectors"},
    "memray": {"collectors", "readers"},
    "psutil": {"collectors", "readers"},
    "viztracer": {"collectors"},
    "msgspec": {"readers", "service", "writers"},
    "pyarrow": {"readers", "selection", "writers"},
    "dask": {"ranks"},
    "duckdb": {"profiles"},
    "distributed": {"ranks"},
    "bokeh": {"ranks", "views"},
    "PIL": {"views"},
    "hypothesis": {"testing"},
    "IPython": {"jupyter", "cli"},
    "ipywidgets": {"jupyter"},
    "anywidget": {"jupyter"},
    "traitlets": {"jupyter"},
}


def test_imports_point_down() -> None:
    wrong = []
    for path in FILES:
        here = room(module_name(path))
        if not here:
            continue  # the package's lazy table names every room, and imports none
        assert here in FLOORS, f"{here} has no floor: add the room to the architecture and to this table"
        for line, name, typing_only in imports(path):
            there = room(name)
            if not name.startswith("notebook_prof.") or typing_only or there == here:
                continue
            if FLOORS[there] >= FLOORS[here]:
                wrong.append(f"{path.relative_to(ROOT)}:{line} {here} (floor {FLOORS[here]}) imports {name}")
    assert not wrong, "\n".join(wrong)


def test_heavy_libraries_stay_at_home() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}; its home is {', '.join(sorted(HOMES[top]))}"
        for path in FILES
        for line, name, typing_only in imports(path)
        if (top := name.partition(".")[0]) in HOMES
        and room(module_name(path)) not in HOMES[top]
        and not typing_only
    ]
    assert not wrong, "\n".join(wrong)


def test_the_floors_test_sees_a_wrong_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = tmp_path / "notebook_prof" / "trace" / "bad.py"
    bad.parent.mkdir(parents=True)
    bad.write_text("def f():\n    from ..views import timeline\n    import torch\n")
    monkeypatch.setattr("tests.codebase.source.ROOT", tmp_path)
    assert [name for _, name, _ in imports(bad)] == ["notebook_prof.views", "torch"]


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, notebook_prof; dir(notebook_prof); "
        f"print([m for m in {sorted({*HOMES, 'numpy', 'pandas'})!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names_are_all_that_is_listed() -> None:
    code = "import notebook_prof as nbp; nbp.compare, nbp.profile; print(set(dir(nbp)) ^ set(nbp.__all__))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_every_public_name_resolves() -> None:
    code = (
        "import notebook_prof as nbp\n"
        "for name in nbp.__all__:\n"
        "    getattr(nbp, name)\n"
        "try:\n    nbp.nothing\nexcept AttributeError as e:\n    print(e)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "no attribute 'nothing'" in done.stdout
    assert done.stderr == ""


def test_loading_the_extension_leaves_what_no_cell_needs_yet() -> None:
    """What reads, analyses, compares, remembers and draws comes with the first cell or later."""
    code = (
        "import sys; from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "shell.run_line_magic('load_ext', 'notebook_prof')\n"
        "assert 'profile_ab' in shell.magics_manager.magics['cell'], 'it was loaded'\n"
        "print(*sorted(name for name in sys.modules if name.startswith('notebook_prof.')))\n"
        "heavy = {'anywidget', 'bokeh', 'dask', 'duckdb', 'ipywidgets', 'memray', 'torch'}\n"
        "print(*(heavy & {*sys.modules}))\n"
        "shell.run_line_magic('unload_ext', 'notebook_prof')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ours, heavy = done.stdout.splitlines()
    assert heavy == ""
    modules = {name.removeprefix("notebook_prof.") for name in ours.split()}
    rooms = {name.partition(".")[0] for name in modules}
    later = {
        "analysis",
        "comparison",
        "expectations",
        "ranks",
        "runs",
        "service",
        "views",
        "writers",
    }
    assert rooms & later == set()
    readers = {name.split(".")[1] for name in modules if name.startswith("readers.")}
    kineto = {"base", "codec", "event_arguments", "folder", "kineto", "torch_compile"}  # PyTorch's own
    assert readers <= kineto
    assert "profiles.profile" not in modules
    assert len(modules) < 200, "490 with all analyses, comparisons and readers"
