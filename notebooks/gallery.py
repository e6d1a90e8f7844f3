"""Put the stories of this folder on the documentation's site: run each, and keep what it found and its views.

MkDocs calls `on_files` and `on_page_markdown` (``hooks`` in ``mkdocs.yml``). ``NBP_SITE_STORIES=idle_gpu,late_rank`` builds
with these stories only, and with none where it is empty.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import nbformat
from nbclient import NotebookClient

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

HERE: Final = Path(__file__).parent
ROW: Final = re.compile(
    r"^\| \[(?P<title>[^]]+)\]\((?P<name>\w+)\.ipynb\) \| (?P<asks>[^|]+) \|", re.MULTILINE
)
MARK: Final = "<!-- stories -->"
CHOSEN: Final = "NBP_SITE_STORIES"
MOST_BYTES: Final = 40_000_000
"""What all reports and pictures may take."""
REPORTS: Final[dict[str, dict[str, str]]] = {
    "quickstart": {"the training cell": "p"},
    "which_line": {"before": "p", "after": "after"},
    "out_of_memory": {"before": "p", "after": "after"},
    "starving_loader": {"no worker": "alone", "as many as would do": "crew"},
    "pandas_cell": {"before": "before", "after": "after"},
    "whole_notebook": {"the session": "nb"},
    "did_it_help": {
        "the cell as it was": "first",
        "all sensors at once": "scaling",
        "the placebo": "placebo",
    },
    "late_rank": {"eight ranks": "ranks"},
    "idle_gpu": {"one second of an H100": "p"},
    "other_frameworks": {name: f"profiles[{name!r}]" for name in ("MegEngine", "Paddle", "MindSpore")},
}
"""What is kept of a story, by what to call it: its variables, the first of which is pictured."""
KEEP: Final = """\
def kept(thing, path):
    (thing.export.html if hasattr(thing, "export") else thing.to_html)(path)

{reports}
pictured = {first}
(pictured.timeline() if hasattr(pictured, "timeline") else pictured).export.png({picture!r}, width=1000)
"""


@dataclass(frozen=True)
class Story:
    """A notebook that was run: what it asks and found, and where its reports and its picture lie."""

    name: str
    title: str
    asks: str
    begins: str
    finding: str
    reports: dict[str, Path]
    picture: Path

    def markdown(self) -> str:
        """Return what the gallery says of it."""
        links = [f"[{called}](stories/{path.name})" for called, path in self.reports.items()]
        first = next(iter(self.reports.values())).name
        return "\n\n".join(
            [
                f"## {self.title}",
                self.begins,
                f"[![{self.title}: timeline, table, memory and step phases](stories/{self.picture.name})](stories/{first})",
                f"**It finds**\n\n```text\n{self.finding}\n```",
                f"Open its views: {' · '.join(links)}. The notebook: [{self.name}.ipynb](stories/{self.name}.ipynb).",
            ]
        )


def listed() -> dict[str, tuple[str, str]]:
    """Return title and question of each story, in the order of the folder's README."""
    text = (HERE / "README.md").read_text(encoding="utf-8")
    return {match["name"]: (match["title"], match["asks"]) for match in ROW.finditer(text)}


def chosen() -> Sequence[str]:
    """Return the stories to build: all, or those of the environment's variable.

    Raises
    ------
    ValueError
        If there is no such story.
    """
    names = list(listed())
    if (only := os.environ.get(CHOSEN)) is None:
        return names
    chosen_names = [name.strip() for name in only.split(",") if name.strip()]
    if unknown := [name for name in chosen_names if name not in names]:
        raise ValueError(f"{CHOSEN}: there is no story {unknown[0]!r}: choose from {', '.join(names)}")
    return chosen_names


@cache
def folder() -> Path:
    """Return a copy of this folder, in which notebooks run and write; it goes when this process ends."""
    made = Path(tempfile.mkdtemp(prefix="notebook-prof-site-")) / "notebooks"
    atexit.register(shutil.rmtree, made.parent, ignore_errors=True)
    shutil.copytree(
        HERE, made, ignore=shutil.ignore_patterns(".*", "__pycache__", "*.executed.ipynb", "*.html")
    )
    (made / "site").mkdir()
    return made


@cache
def told(name: str) -> Story:
    """Run a story in a kernel of its own, and keep its finding, its reports and its picture.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        If a cell fails that is not meant to.
    """
    book = nbformat.read(HERE / f"{name}.ipynb", as_version=4)
    reports = {
        called: folder() / "site" / f"{name}{number or ''}.html"
        for number, called in enumerate(REPORTS[name])
    }
    picture = folder() / "site" / f"{name}.png"
    keep = KEEP.format(
        reports="\n".join(
            f"kept({thing}, {str(path)!r})"
            for thing, path in zip(REPORTS[name].values(), reports.values(), strict=True)
        ),
        first=next(iter(REPORTS[name].values())),
        picture=str(picture),
    )
    history = f"import os; os.environ['NOTEBOOK_PROF_HISTORY'] = {str(folder() / 'history' / name)!r}"
    cells = [nbformat.v4.new_code_cell(history), *book.cells, nbformat.v4.new_code_cell(keep)]
    run = nbformat.v4.new_notebook(cells=cells, metadata=book.metadata)
    NotebookClient(run, timeout=600, resources={"metadata": {"path": str(folder())}}).execute()
    printed = [text for cell in run.cells[1:-1] if cell.cell_type == "code" and (text := printed_by(cell))]
    title, asks = listed()[name]
    begins = book.cells[0].source.partition("\n")[2].strip()
    return Story(name, title, asks, begins, printed[-1], reports, picture)


def printed_by(cell: nbformat.NotebookNode) -> str:
    """Return what a cell printed."""
    return "".join(out.text for out in cell.outputs if out.output_type == "stream").strip()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the reports, the pictures and the notebooks to the site.

    Raises
    ------
    ValueError
        If they are more than `MOST_BYTES`.
    """
    from mkdocs.structure.files import File

    size = 0
    for name in chosen():
        story = told(name)
        for path in (*story.reports.values(), story.picture, HERE / f"{name}.ipynb"):
            files.append(File.generated(config, f"stories/{path.name}", abs_src_path=str(path)))
            size += path.stat().st_size
    if size > MOST_BYTES:
        raise ValueError(
            f"the stories take {size / 1e6:.0f} MB of the site, and may take {MOST_BYTES / 1e6:.0f}"
        )
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put the stories into the page that has a mark for them."""
    return markdown.replace(MARK, "\n\n".join(told(name).markdown() for name in chosen()))
