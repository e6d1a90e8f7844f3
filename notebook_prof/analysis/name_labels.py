"""Labels for a trace's names, in sentences and views."""

from __future__ import annotations

import numpy as np

from ..labels import short_names
from ..trace import Trace
from ..trace.arrays import BoolArray
from .scope import recorded_table


def name_labels(trace: Trace) -> dict[str, str]:
    """Return a label for every name of the slices; all labels are distinct."""
    names = [str(name) for name in trace.slices["name"].astype("category").cat.categories]
    labels = short_names(with_classes(names, name_classes(trace)), kernel_names(trace).tolist())
    return dict(zip(names, labels, strict=True))


def kernel_names(trace: Trace) -> BoolArray:
    """Return a mask of the names whose slices ran on a device."""
    tracks = trace.tracks
    streams = tracks.loc[tracks["kind"] == "stream", "track"].to_numpy()
    return names_of(trace, np.isin(trace.slices["track"].to_numpy(), streams))


def module_classes(trace: Trace) -> dict[str, str]:
    """Return the class of each module with a recorded class, by the module's path."""
    table = recorded_table(trace, "modules")
    if table is None or "class" not in table:
        return {}
    rows = zip(table["module"], table["class"], strict=True)
    return {str(path): str(kind) for path, kind in rows if isinstance(kind, str)}


def name_classes(trace: Trace) -> dict[str, str]:
    """Return the class of each name that is the path of a module and occurs only on module slices."""
    classes = module_classes(trace)
    if not classes:
        return {}
    category = trace.slices["category"].astype("category").cat
    of_module = np.append(category.categories == "module", False)[category.codes.to_numpy()]
    only = names_of(trace, of_module) & ~names_of(trace, ~of_module)
    names = trace.slices["name"].astype("category").cat.categories[only]
    return {str(name): classes[str(name)] for name in names if str(name) in classes}


def with_classes(names: list[str], classes: dict[str, str]) -> list[str]:
    """Append a module's class to its path if the path lacks it; labels stay distinct."""
    used = set(names)
    out = []
    for name in names:
        kind = classes.get(name)
        written = f"{name} {kind}" if kind and not (name == kind or name.startswith(f"{kind}_")) else name
        out.append(written if written == name or written not in used else name)
    return out


def names_of(trace: Trace, slices: BoolArray) -> BoolArray:
    """Return a mask of the names that these slices have."""
    column = trace.slices["name"].astype("category").cat
    named = np.zeros(len(column.categories) + 1, bool)  # code -1 (no name) marks the last entry
    named[column.codes.to_numpy()[slices]] = True
    return named[:-1]
