"""Building blocks of messages: types with their TypeScript names, columns, answers, headers."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import UNSET, Meta, Struct, UnsetType

Tint = Annotated[str, Meta(extra={"ts": "Tint"})]
Grouping = Annotated[str, Meta(extra={"ts": "Grouping"})]
Dimensions = Annotated[list[str], Meta(extra={"ts": "Dimension[]"})]
Patch = Annotated[dict[str, Any], Meta(extra={"ts": "SelectionPatch"})]

F8 = Annotated[npt.NDArray[np.float64], Meta(extra={"ts": "Float64Array"})]
I4 = Annotated[npt.NDArray[np.int32], Meta(extra={"ts": "Int32Array"})]
U4 = Annotated[npt.NDArray[np.uint32], Meta(extra={"ts": "Uint32Array"})]
U2 = Annotated[npt.NDArray[np.uint16], Meta(extra={"ts": "Uint16Array"})]
U1 = Annotated[npt.NDArray[np.uint8], Meta(extra={"ts": "Uint8Array"})]


class Columns(Struct, kw_only=True):
    """Columns of an answer by name, as a page reads them from the buffers."""


class Declared(Struct, kw_only=True, forbid_unknown_fields=True):
    """An answer, or a part of one."""

    data: ClassVar[type[Columns] | None] = None
    """The columns sent with the answer."""


class Header(Declared):
    """Fields that every answer may have."""

    columns: Annotated[list[tuple[str, str]], Meta(extra={"ts": "[string, ColumnType][]"})] | UnsetType = (
        UNSET
    )
    """Name and dtype of each buffer."""
    seq: int | UnsetType = UNSET
    revision: int | UnsetType = UNSET
    """Revision of the selection for which the answer was made."""
    ms: float | UnsetType = UNSET
    """Time it took to compute the answer."""
    pending: bool | UnsetType = UNSET
    """An index is still being built: ask again."""
    failed: str | UnsetType = UNSET
    """Why there is no answer, in a sentence."""
