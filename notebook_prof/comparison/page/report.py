"""The linked page of a comparison as one HTML file without kernel or network."""

from __future__ import annotations

from typing import Final

from ...views.bundle import bokehjs, script, stylesheet
from ...views.report.html_file import data_blocks, html_page, json_text
from ...views.report.report import MOST_BYTES, trace_blocks
from ...views.report.tabs import answer_text
from ..linked import LinkedSides
from ..selected import SIDES
from .panel import compared
from .queries import page_document, page_settings
from .static_html import fragment

_AROUND: Final = 20_000
"""Bytes taken by tags, policy and settings around the parts."""
_STYLE: Final = (
    "body { margin: 12px; font-family: system-ui, sans-serif; } [hidden] { display: none; } "
    "#nbp-static { margin-top: 14px; } "
)


def comparison_report(c: LinkedSides) -> str:
    """Return the whole HTML file as text: the page, with `fragment` as its static form."""
    # The file contains both recordings as in a single report (`notebook_prof.views.report.report`), each with
    # half of the space. Their data is JSON with ``<`` escaped, base64 or escaped HTML, and the
    # Content-Security-Policy allows only the file's own scripts, by their hashes.
    scripts = [part.decode("utf-8") for part in bokehjs()]
    static = fragment(c)
    look = _STYLE + stylesheet() + stylesheet("comparison")
    data = {
        "nbp-selection": json_text(c.selection.to_state()),
        "nbp-settings": json_text({**page_settings(c), "uid": ""}),
        "nbp-document": json_text(page_document(c)),
        "nbp-compared": json_text(answer_text(compared(c))),
    }
    used_bytes = sum(
        len(text.encode()) for text in (*scripts, script("comparison_report"), look, static, *data.values())
    )
    room = (MOST_BYTES - _AROUND - used_bytes) // 2
    for side, profile in zip(SIDES, c.shown, strict=True):
        data |= trace_blocks(profile.trace, "", room, f"nbp-{side}-", with_tabs=False)
    body = f'<div id="nbp-report" class="nbp-host nbp-report"></div><div id="nbp-static">{static}</div>'
    title = f"{c.names[0]} and {c.names[1]} · notebook_prof"
    return html_page(scripts, [script("comparison_report")], body + data_blocks(data), look, title)
