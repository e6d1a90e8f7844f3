"""Writes the dashboard's figures of a trace of 1 ns into the package: ``python -m tests.generated``."""

from __future__ import annotations

import json
import re
from typing import Final

from bokeh.core.json_encoder import serialize_json
from bokeh.document import Document
from bokeh.models import Range1d

from notebook_prof.views.dashboard import SHORTEST_VIEW_NS, TEMPLATE

from .dashboard_figures import memory_figure, overview_figure, phase_figure, timeline_figure

_LANES: Final = 6
_ID: Final = re.compile(r'"p\d+"')


def drawn() -> str:
    """Return the figures as JSON of Bokeh, always the same text."""
    view = Range1d(0, 1, name="view", min_interval=SHORTEST_VIEW_NS)
    document = Document()
    for root in (overview_figure(0, 1), timeline_figure(view, _LANES), memory_figure(view), phase_figure()):
        document.add_root(root)
    roots = json.loads(serialize_json(document.to_json()))["roots"]
    text = ",\n".join(json.dumps(root, separators=(",", ":")) for root in roots)
    ids = {old: f'"p{count}"' for count, old in enumerate(dict.fromkeys(_ID.findall(text)), 1)}
    return f"[\n{_ID.sub(lambda match: ids[match[0]], text)}\n]"


if __name__ == "__main__":
    TEMPLATE.write_text(drawn() + "\n", encoding="utf-8")
