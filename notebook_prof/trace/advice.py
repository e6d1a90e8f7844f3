"""What to do about the entries of import reports, where the place that counts them does not say it."""

from __future__ import annotations

from typing import Final

_AGAIN: Final = "copy the file again, or look for a full disk where it was written"
_NOTHING: Final = "nothing needs to be done"
_REPORT: Final = "look at the example in the file; if the file is sound, report it to notebook_prof"
_REPEATED: Final = "if it happens again, report it to notebook_prof with the example"
_LONGER: Final = "record from before it begins until after it ends"

ADVICE: Final = {
    "addresses-matched": "export the snapshot instead, which has addresses",
    "arguments-not-kept": "look at them in the file",
    "arrow-without-slice": "write the file again",
    "async-end-without-begin": _LONGER,
    "blocks-not-told": "export the timeline as .raw.json.gz",
    "broken-arguments": "write the file again",
    "broken-file": _AGAIN,
    "broken-message": _AGAIN,
    "broken-row": _REPORT,
    "crossed-ranges": "use parents and self times, which hold for any overlap",
    "cut-at-window": _LONGER,
    "device-work-without-launch": "record from before the work is launched, or leave out the first step",
    "duration-missing": "look at the profiler that wrote the file",
    "end-without-begin": _LONGER,
    "file-not-used": "open it by itself if it is a recording",
    "flow-without-slice": _LONGER,
    "flow-without-source": _LONGER,
    "link-outside": "copy the file into the folder",
    "metadata-not-used": _NOTHING,
    "no-events": "look whether the profiler was running",
    "no-time-line": "record with a tracing profiler where the order of calls matters",
    "out-of-memory": "look at memory_live() and memory_peak()",
    "outside-window": _LONGER,
    "redundant-file": _NOTHING,
    "row-not-used": "look at the example; open the file in Perfetto to see them",
    "shapes-missing": "record with shapes",
    "truncated-file": _AGAIN,
    "unclosed-async": _LONGER,
    "unclosed-begin": _LONGER,
    "unknown-action": _REPORT,
    "unknown-category": "report the category to notebook_prof",
    "unknown-profile": _REPORT,
    "unreadable-file": "look at its permissions, or copy the folder again",
    "unsorted-events": _NOTHING,
}
"""By code."""


def advice_on(code: str, severity: str) -> str:
    """What to do about an entry with this code.

    Examples
    --------
    >>> advice_on("truncated-file", "loss")
    'copy the file again, or look for a full disk where it was written'
    """
    return ADVICE.get(code) or (_NOTHING if severity == "info" else _REPEATED)
