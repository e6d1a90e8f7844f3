"""How many parameters each module has, counted when its outermost module is first called."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ...trace.taxonomy import MODULE_PREFIX

COLUMNS = ("module", "parameters", "trainable", "parameter_bytes")


class ParameterCounts:
    """Own parameters (not those of children) of modules, by the name under which they are recorded.

    A parameter that several modules share is counted in the first of them.
    """

    def __init__(self) -> None:
        self._rows: dict[str, tuple[int, int, int]] = {}

    def add(self, root: Any, names: dict[int, str]) -> None:
        """Count the parameters of a module and of all inside it; `names` are by ``id``."""
        seen: set[int] = set()
        for module in root.modules():
            count = trainable = size = 0
            for parameter in getattr(module, "_parameters", {}).values():
                if parameter is None or id(parameter) in seen:
                    continue
                seen.add(id(parameter))
                try:
                    own = int(parameter.numel())
                    width = int(parameter.element_size())
                except (AttributeError, RuntimeError, TypeError, ValueError):
                    continue  # a lazy module's parameter has no size yet
                count, size = count + own, size + own * width
                trainable += own * bool(getattr(parameter, "requires_grad", False))
            name = names.get(id(module))
            if name is not None:
                self._rows.setdefault(name.removeprefix(MODULE_PREFIX), (count, trainable, size))

    def table(self) -> pd.DataFrame | None:
        """``module parameters trainable parameter_bytes``, or None without modules."""
        if not self._rows:
            return None
        rows = [(name, *counts) for name, counts in self._rows.items()]
        return pd.DataFrame(rows, columns=list(COLUMNS))
