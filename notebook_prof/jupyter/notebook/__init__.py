"""``%profile_notebook``: watches a whole notebook in IPython."""

from typing import Final

MAGIC: Final = "%profile_notebook"
