"""The magic ``%profile_notebook``: watches a whole notebook in IPython."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class

from ...errors import NotebookProfError
from ...interrupts import DelayedInterrupt

if TYPE_CHECKING:
    from ...profiles.profile import Profile

MAGIC: Final = "%profile_notebook"
_STARTED: Final = (
    "notebook_prof watches every cell from now on. `%profile_notebook show`, or nbp.notebook(), shows what "
    "they took; `%profile_notebook off` ends it."
)


@magics_class
class NotebookMagics(Magics):  # type: ignore[misc]
    """``%profile_notebook``."""

    @line_magic  # type: ignore[untyped-decorator]
    def profile_notebook(self, line: str) -> Profile | None:
        """Watch every cell from now on: time, memory, CPU, statements; ≤ 3 ms per cell.

        ``%profile_notebook [off | show]``

        ``off`` ends the watch and removes its hooks. ``show`` displays the session so far, as does
        ``nbp.notebook()``. A cell with ``%%profile`` is also recorded in full.
        """
        # imported here, since it imports all analyses
        from ...cells.current import notebook
        from . import events

        word = line.strip()
        if word in ("-h", "--help"):
            print(self.profile_notebook.__doc__)  # noqa: T201  (the user asked for it)
        elif word == "show":
            try:
                return notebook()
            except NotebookProfError as error:
                raise UsageError(f"{MAGIC}: {error}") from None
        elif word == "off":
            events.unregister(self.shell)
        elif word:
            raise UsageError(f"{MAGIC} takes nothing, off or show; got {word!r}")
        elif events.events_of(self.shell) is None:
            with DelayedInterrupt():
                events.register(self.shell)
            print(_STARTED)  # noqa: T201
        return None


def forget(shell: Any) -> None:
    """End the watch and remove the magic."""
    if (events := sys.modules.get(f"{__name__}.events")) is not None:
        events.unregister(shell)
    shell.magics_manager.magics["line"].pop(MAGIC[1:], None)
