"""``%profile_history``: the runs of a cell, and any two of them compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class

from ..errors import NotebookProfError
from ..units import format_items

if TYPE_CHECKING:
    from ..comparison.comparison import Comparison
    from ..runs.cell_history import CellHistory

MAGIC: Final = "%profile_history"
_USAGE: Final = f"{MAGIC} [RUN [RUN]]"


@magics_class
class HistoryMagics(Magics):  # type: ignore[misc]
    """``%profile_history``."""

    @line_magic  # type: ignore[untyped-decorator]
    def profile_history(self, line: str) -> CellHistory | Comparison | None:
        """Show how long the runs of a cell took, when that changed, and what changed in its source.

        ``%profile_history [RUN [RUN]]``

        RUN is the number of a run, its name, or the text of a cell; by default the cell recorded last. Two
        runs are compared, as ``nbp.compare(nbp.load(a), nbp.load(b))`` does. ``nbp.history()`` has the runs
        of the whole project as a table.
        """
        words = line.split()
        if words in (["-h"], ["--help"]):
            print(self.profile_history.__doc__)  # noqa: T201  (the user asked for it)
            return None
        # imported here, since otherwise `%load_ext` would take a fifth longer
        from ..comparison.comparison import compare
        from ..runs.cell_history import cell_history
        from ..runs.table import load, open_store

        try:
            if len(words) == 2:
                a, b = (load(word) for word in words)
                return compare(a, b, names=(f"run {words[0]}", f"run {words[1]}"))
            store = open_store()
            return cell_history(store, line.strip(), _notes(store.folder))
        except NotebookProfError as error:
            raise UsageError(f"{MAGIC}: {error}") from None


def _notes(folder: Any) -> tuple[str, ...]:
    """Return notes on runs that could not be stored."""
    from ..runs import writing
    from ..runs.store import damaged_files

    lost = writing.losses()
    notes = (
        [f"Runs of this kernel that are missing: {lost['lost']}; {lost['reason']}."] if lost["lost"] else []
    )
    if left := writing.waiting():
        notes.append(f"Not here yet: {format_items(left, 'run')} of this kernel, being written; try again.")
    notes += [f"A damaged file was set aside: {path}." for path in damaged_files(folder)]
    return tuple(notes)
