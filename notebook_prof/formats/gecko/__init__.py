"""The Firefox Profiler's JSON, as written by Firefox, samply, ``perf script gecko`` and Python 3.15's
sampler."""

from __future__ import annotations

import re
from typing import Final

from ...readers.base import Probe, Reader

_META: Final = re.compile(rb'"meta"\s*:\s*\{')
_MARKS: Final = re.compile(rb'"(?:preprocessedProfileVersion|gcpoison|asyncstack|stackwalk)"\s*:')
_TABLES: Final = (re.compile(rb'"stackTable"\s*:\s*\{'), re.compile(rb'"frameTable"\s*:\s*\{'))


class GeckoReader(Reader):
    """Reads profiles of the Firefox Profiler, as it saves them ("processed") or as Firefox records them."""

    # Each thread of each process is a track. A sample stands for the time until the next one, but for no more
    # than twice the usual time. With weights, it stands for that many intervals, the last of which is the one
    # in which it was taken; with weights in ms, for that time. Samples without a stack are idle and make no
    # slices; stacks of the category Idle become ``sync``.
    name = "gecko"
    priority = 415
    describes = "Firefox Profiler's JSON: of Firefox, samply, perf script gecko, profiling.sampling --gecko"
    reads = ".profile:read_profile"

    def recognises(self, probe: Probe) -> bool:
        head = probe.head
        if head.lstrip()[:1] != b"{" or b'"traceEvents"' in head:
            return False
        marked = _META.search(head) is not None and _MARKS.search(head) is not None
        return marked or all(pattern.search(head) is not None for pattern in _TABLES)
