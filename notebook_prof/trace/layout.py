"""Names and versions of our own format: what its writer and its reader agree on."""

from __future__ import annotations

from typing import Final

FORMAT: Final = "notebook_prof"
SCHEMA: Final = 1
"""Raised with every change that an older reader would read wrongly."""

OLDEST_SCHEMA: Final = 1
"""The oldest schema that is still read."""

FIRST: Final = "format.json"
"""Written first: says what this is, also when the rest is missing."""

LAST: Final = "metadata.json"
"""Written last: the final marker, with the sizes and checksums of all other files."""

TABLE_SUFFIX: Final = ".parquet"

TAG: Final = "$"
"""Key of a JSON object that stands for something that JSON has no word for."""

MAX_NESTING: Final = 64
"""How deep metadata may be nested; what lies deeper becomes text."""
