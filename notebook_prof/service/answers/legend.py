"""The meaning of the timeline's colours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...analysis.name_labels import module_classes, with_classes
from .. import palette
from ..packing import Answer, pack
from ..store import TINTS, ViewStore

_MOST: Final = 12


def legend(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Return up to 12 colours by share of all self time, largest first, and the number of further ones."""
    tint = str(request.get("tint", "name"))
    tint = tint if tint in TINTS else "name"
    content: dict[str, Any] = store.keep(("legend", tint), lambda: _legend(store, tint))
    return pack(dict(content), {})


def _legend(store: ViewStore, tint: str) -> dict[str, Any]:
    c = store.columns
    if tint == "step":
        steps = np.unique(c.step[c.step >= 0])
        code = np.where(c.step < 0, -1, np.searchsorted(steps, c.step))
        texts = [f"step {k}" for k in steps.tolist()]
        colours = [palette.NAMES[k % palette.HUES] for k in steps.tolist()]
    elif tint == "module":
        code, _, paths = store.grouping("module")
        texts = with_classes(paths, module_classes(store.trace))
        colours = [palette.NAMES[k] for k in store.module_colours.tolist()]
    elif tint == "name":
        code, texts, colours = _families(store)
    else:
        code, texts = (c.phase, c.phases) if tint == "phase" else (c.category, c.categories)
        colour_of = palette.PHASES if tint == "phase" else palette.CATEGORIES
        colours = [colour_of.get(text, palette.UNKNOWN) for text in texts]
    return _items(code, c.self_ns, texts, colours, f"no {tint}")


def _families(store: ViewStore) -> tuple[npt.NDArray[np.integer], list[str], list[str]]:
    """Return every slice's family, and the families' texts and colours; marking ranges are one family."""
    styles, name = store.name_styles, store.columns.name
    texts = [
        "annotations" if code == palette.HUES else family
        for family, code in zip(styles.families, styles.codes.tolist(), strict=True)
    ]
    of_name, families = pd.factorize(np.array(texts, dtype=object))
    colour = np.zeros(len(families), np.uint8)
    colour[of_name] = styles.codes
    return (
        np.append(of_name, -1)[name],  # code -1 (no name) reads the last
        [str(text) for text in families],
        [palette.NAMES[k] for k in colour.tolist()],
    )


def _items(
    code: npt.NDArray[np.integer],
    own: npt.NDArray[np.int64],
    texts: Sequence[str],
    colours: Sequence[str],
    missing: str,
) -> dict[str, Any]:
    spent = np.bincount(code.astype(np.int64) + 1, weights=own, minlength=len(texts) + 1)
    present = np.bincount(code.astype(np.int64) + 1, minlength=len(texts) + 1) > 0
    whole = max(float(spent.sum()), 1.0)
    order = [k for k in (np.argsort(-spent[1:], kind="stable") + 1).tolist() if present[k]]
    most = _MOST - int(present[0])
    items = [[texts[k - 1], colours[k - 1], float(spent[k] / whole)] for k in order[:most]]
    if present[0]:
        items.append([missing, palette.UNKNOWN, float(spent[0] / whole)])
    return {"items": items, "more": max(len(order) - most, 0)}
