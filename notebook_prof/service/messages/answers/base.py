"""What all answers have."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ..shared import Columns


class Declared(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An answer, or a part of one."""

    data: ClassVar[type[Columns] | None] = None
    """The columns that come with it."""


class Header(Declared):
    """What every answer may have beside what was asked."""

    columns: Annotated[list[tuple[str, str]], Meta(extra={"ts": "[string, ColumnType][]"})] | UnsetType = (
        UNSET
    )
    """Name and dtype of each buffer."""
    seq: int | UnsetType = UNSET
    revision: int | UnsetType = UNSET
    """Of the selection that the answer has seen."""
    ms: float | UnsetType = UNSET
    """How long it took to work it out."""
    pending: bool | UnsetType = UNSET
    """An index is still being built: ask again."""
    failed: str | UnsetType = UNSET
    """Why there is no answer, in a sentence."""
