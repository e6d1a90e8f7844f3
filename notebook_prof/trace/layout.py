"""Names and versions of the native format, shared by its writer and its reader."""

from __future__ import annotations

from typing import Final

FORMAT: Final = "notebook_prof"
SCHEMA: Final = 1
"""Increased with every change that an older reader would misread."""

OLDEST_SCHEMA: Final = 1
"""The oldest schema that is still read."""

FIRST: Final = "format.json"
"""Written first: identifies the format even if everything else is missing."""

LAST: Final = "metadata.json"
"""Written last: the final marker, with the sizes and checksums of all other files."""

TABLE_SUFFIX: Final = ".parquet"

TAG: Final = "$"
"""Key of a JSON object that encodes a value that JSON lacks."""

MAX_NESTING: Final = 64
"""Maximum nesting of metadata; deeper values become text."""
