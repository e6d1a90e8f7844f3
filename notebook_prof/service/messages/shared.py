"""Types that questions and answers share, each with what it is called in TypeScript."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct

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
    """Columns of an answer by name: what a page makes of its buffers."""
