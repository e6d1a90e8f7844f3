"""``%profile_notebook``: the watch of a whole notebook in IPython."""

from typing import Final

MAGIC: Final = "%profile_notebook"
