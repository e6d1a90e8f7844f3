"""The folder of the history: the project's, unless an environment variable says otherwise."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

VARIABLE: Final = "NOTEBOOK_PROF_HISTORY"
"""``off``, or a folder; read at every recording, so that ``%env`` changes it."""
NAME: Final = ".notebook_prof"
OFF: Final = frozenset({"off", "0", "no", "false", "none"})
PROJECT: Final = (".git", ".hg", "pyproject.toml", "setup.py", "setup.cfg")
"""Files and folders that mark a project."""
_NETWORK: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "smb2", "9p", "fuse.sshfs", "ncpfs", "afs", "ceph", "lustre"}
)
_MOUNTS: Final = "/proc/self/mounts"
_PRIVATE: Final = 0o700
_PATHS_OF_NOTEBOOKS: Final = ("__session__", "__vsc_ipynb_file__")
"""Names under which ipykernel and VS Code store the notebook's path in its namespace."""


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


_imported_in: Final = _working_folder()


def start_folder() -> Path:
    """Return the folder in which the kernel or script started, even after ``chdir``."""
    shell = sys.modules.get("IPython.core.interactiveshell")
    running = getattr(getattr(shell, "InteractiveShell", None), "_instance", None)
    folder = str(getattr(running, "starting_dir", "") or _imported_in)
    # OSError if it was deleted
    return Path(folder) if folder else Path.cwd()


def history_folder(notebook: str = "") -> Path | None:
    """Return the folder of the history for a notebook's path; None if the history is switched off."""
    # ``.notebook_prof`` in the nearest folder, from the notebook's upwards, that contains one or is a
    # project; failing that, in the notebook's own. The home folder and those above it do not count as
    # projects. Without a notebook, `start_folder` is used.
    setting = os.environ.get(VARIABLE, "").strip()
    if setting.lower() in OFF:
        return None
    if setting:
        return start_folder() / Path(setting).expanduser()
    start = Path(notebook).absolute().parent if notebook else start_folder()
    home = Path(os.path.expanduser("~"))
    for folder in (start, *start.parents):
        if folder == home:
            break
        if (folder / NAME).is_dir() or any((folder / one).exists() for one in PROJECT):
            return folder / NAME
    return start / NAME


def notebook_path() -> str:
    """Return the path of this kernel's notebook, from jupyter_server or its namespace; empty if unknown."""
    names = vars(sys.modules["__main__"])
    paths = [os.environ.get("JPY_SESSION_NAME"), *(names.get(name) for name in _PATHS_OF_NOTEBOOKS)]
    return next((path for path in paths if isinstance(path, str) and os.path.isabs(path)), "")


def make_folder(folder: Path) -> None:
    """Make the folder, accessible to its owner only, with its own ``.gitignore``."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")


def is_on_network(folder: Path) -> bool:
    """Return whether other computers may also write there; False if unknown."""
    mounted: list[tuple[int, str]] = []
    path = os.path.realpath(folder)
    with suppress(OSError), open(_MOUNTS, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            _, point, kind, *_ = (*line.split(" "), "", "", "")
            point = point.replace("\\040", " ")
            if path == point or path.startswith(point.rstrip("/") + "/"):
                mounted.append((len(point), kind))
    return bool(mounted) and max(mounted)[1] in _NETWORK
