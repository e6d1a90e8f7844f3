"""Imports point down, rooms of one floor keep apart, heavy libraries stay at home."""

from ..new_process import run_python
from .source import FILES, ROOT, imports, module_name, room

FLOORS = {
    name: floor
    for floor, names in enumerate((
        "errors lazy",
        "units labels optional background extensions interrupts atomic_files own_processes",
        "trace",
        "selection statistics readers writers",
        "analysis",
        "formats service expectations testing",
        "collectors views",
        "profiles",
        "comparison ranks",
        "runs",
        "session cells",
        "pytest_plugin jupyter cli",
    ))
    for name in names.split()
}  # fmt: skip

HOMES = {
    library: {*homes.split()}
    for libraries, homes in (
        ("torch cupy pynvml viztracer", "collectors"),
        ("memray", "collectors formats"),
        ("psutil", "collectors readers"),
        ("msgspec", "formats readers service writers"),
        ("pyarrow", "formats readers selection writers"),
        ("dask distributed", "ranks"),
        ("duckdb", "profiles"),
        ("bokeh", "ranks views"),
        ("PIL", "views"),
        ("IPython", "jupyter cli"),
        ("ipywidgets anywidget traitlets", "jupyter"),
    )
    for library in libraries.split()
}


def test_imports_point_down() -> None:
    wrong = []
    for path in FILES:
        here = room(module_name(path))
        if here in ("", "__main__"):
            continue  # the package's lazy table names every room, and imports none; the program is above all
        assert here in FLOORS, f"{here} has no floor: add the room to the architecture and to this table"
        for line, name, typing_only in imports(path):
            there = room(name)
            if not name.startswith("notebook_prof.") or typing_only or there == here:
                continue
            if FLOORS[there] >= FLOORS[here]:
                wrong.append(f"{path.relative_to(ROOT)}:{line} {here} (floor {FLOORS[here]}) imports {name}")
    assert not wrong, "\n".join(wrong)


KNOW_A_FORMAT = {
    "notebook_prof.collectors.jax": {"jax"},
    "notebook_prof.collectors.torch": {"torch"},
    "notebook_prof.cli.analyze": {"megengine"},
    "notebook_prof.cli.summary": {"paddle"},
}
"""Who imports a room of `formats`: what records the system, and commands with the options of its tool."""


def test_rooms_of_formats_are_known_to_the_table_alone() -> None:
    """Nothing of the core imports them, nor do they import one another."""
    wrong = []
    for path in FILES:
        here = module_name(path)
        known: set[str] = set()
        for part, names in KNOW_A_FORMAT.items():
            known |= names if f"{here}.".startswith(f"{part}.") else set()
        known |= {*here.split(".")[2:3]} if room(here) == "formats" else set()
        wrong += [
            f"{path.relative_to(ROOT)}:{line} imports {name}"
            for line, name, typing_only in imports(path)
            if not typing_only
            and name.startswith("notebook_prof.formats.")
            and name.split(".")[2] not in known
        ]
    assert not wrong, "\n".join(wrong)


def test_a_room_is_imported_when_a_file_of_its_own_is_met() -> None:
    code = (
        "import sys; from notebook_prof.readers.registry import read_trace, readers\n"
        "def loaded():\n"
        "    print(*sorted(name for name in sys.modules if name.startswith('notebook_prof.formats.')))\n"
        "readers(); loaded(); read_trace('tests/data/megengine/profiling_train.json.gz'); loaded()"
    )
    before, after = ({*line.split()} for line in run_python(code, cwd=ROOT).stdout.splitlines())
    probes = {"rocm.csv_kinds"}  # it recognises its files
    assert {name.removeprefix("notebook_prof.formats.") for name in before if name.count(".") > 2} == probes
    met = {name.removeprefix("notebook_prof.formats.") for name in after - before}
    assert met == {"megengine.graph", "megengine.nodes"}


def test_heavy_libraries_stay_at_home() -> None:
    heavy = [
        (name.partition(".")[0], f"{path.relative_to(ROOT)}:{line}", room(module_name(path)))
        for path in FILES
        for line, name, typing_only in imports(path)
        if name.partition(".")[0] in HOMES and not typing_only
    ]
    assert len(heavy) > 50, "imports are found at all"
    wrong = [
        f"{place} imports {top}; its home is {HOMES[top]}" for top, place, at in heavy if at not in HOMES[top]
    ]
    assert wrong == []


def test_the_package_lists_its_public_names_and_loads_what_is_asked_for() -> None:
    code = (
        "import sys, notebook_prof as nbp\n"
        f"dir(nbp); print([m for m in {sorted({*HOMES, 'numpy', 'pandas'})!r} if m in sys.modules])\n"
        "for name in nbp.__all__:\n"
        "    getattr(nbp, name)\n"
        "print({*dir(nbp)} ^ {*nbp.__all__})\n"
        "try:\n    nbp.nothing\nexcept AttributeError as e:\n    print(e)"
    )
    done = run_python(code)
    heavy, unlisted, refused = done.stdout.splitlines()
    assert (heavy, unlisted, done.stderr) == ("[]", "set()", "")
    assert "no attribute 'nothing'" in refused


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
    ours, heavy = run_python(code).stdout.splitlines()
    assert heavy == ""
    modules = {name.removeprefix("notebook_prof.") for name in ours.split()}
    rooms = {name.partition(".")[0] for name in modules}
    later = {"analysis", "comparison", "expectations", "ranks", "runs", "service", "views", "writers"}
    assert rooms & later == set()
    readers = {name.split(".")[1] for name in modules if name.startswith("readers.")}
    kineto = {"base", "codec", "events", "kineto"}  # PyTorch's own
    assert readers <= kineto
    assert {name.split(".")[1] for name in modules if name.startswith("formats.")} <= {"torch"}
    assert "profiles.profile" not in modules
    assert len(modules) < 200, "490 with all analyses, comparisons and readers"
