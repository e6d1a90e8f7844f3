"""Numbers and names in `SECURITY.md` are those of the code."""

from __future__ import annotations

import re

from notebook_prof.atomic_files import PRIVATE
from notebook_prof.errors import LONGEST
from notebook_prof.profiles.export import Export
from notebook_prof.profiles.profile import Profile
from notebook_prof.readers.base import MAX_FILES
from notebook_prof.readers.codec import compression
from notebook_prof.runs import folder, store
from notebook_prof.runs.entry import FOLDER, LIMIT
from notebook_prof.trace.sealing import LONGEST_TEXT

from .source import FILES, ROOT, imports

TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
NETWORK = {"ftplib", "http", "requests", "smtplib", "socketserver", "ssl", "urllib", "xmlrpc"}


def test_bounds_are_those_of_the_code() -> None:
    for text in (
        f"{compression.MAX_BYTES >> 30} GiB, {compression.MAX_RATIO} times its size",
        f"(or {compression.SMALL_BYTES >> 20} MiB)",
        f"cut at {LONGEST_TEXT:,} characters",
        f"more than {MAX_FILES:,} files of a folder",
        f"{LONGEST} characters",
        f"mode 0{PRIVATE:o}",
        f"at most {LIMIT >> 30} GiB",
    ):
        assert text in TEXT, text


def test_places_and_names_are_those_of_the_code() -> None:
    assert f"`{folder.NAME}/{store.FILE}`" in TEXT
    assert f"`{folder.NAME}/{FOLDER}/`" in TEXT
    assert f"`{folder.VARIABLE}` is `off`" in TEXT
    assert "off" in folder.OFF
    for name in re.findall(r"`p\.export\.(\w+)`", TEXT):
        assert hasattr(Export, name)
    assert hasattr(Profile, "save")


def test_nothing_opens_a_connection() -> None:
    """What speaks over a network is not imported; `socket` names the host, `asyncio` is the kernel's loop."""
    modules = {path: {name.partition(".")[0] for _, name, _ in imports(path)} for path in FILES}
    assert {str(path): names & NETWORK for path, names in modules.items() if names & NETWORK} == {}
    users = {path.name for path, names in modules.items() if names & {"socket", "asyncio"}}
    assert users == {"handlers.py", "badges.py", "run_notebook.py"}
    calls = {
        call
        for path in FILES
        for call in re.findall(r"\b(?:socket|asyncio)\.(\w+)\(", path.read_text(encoding="utf-8"))
        if path.name in users
    }
    assert calls == {"gethostname", "get_running_loop", "all_tasks"}
