"""Work on several streams of a real recording, against the events of its file taken apart here."""

import gzip
import json
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

from notebook_prof import read_trace
from notebook_prof.analysis import device, kernels, trust

WORK = ("kernel", "gpu_memcpy", "gpu_memset")


def covered(spans: list[tuple[int, int]]) -> int:
    total, reach = 0, -1
    for begin, end in sorted(spans):
        total += max(end - max(begin, reach), 0)
        reach = max(reach, end)
    return total


def test_compute_and_communication_have_streams_of_their_own(shared_traces: Path) -> None:
    path = shared_traces / "hta" / "nccl_data.json.gz"
    events = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)["traceEvents"]
    spans: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in events:
        if event.get("cat") in WORK:
            begin = int(event["ts"] * 1000)
            stream = event["args"]["device"], event["args"]["stream"]
            spans[stream].append((begin, begin + int(event["dur"] * 1000)))
    assert len(spans) >= 2
    trace = read_trace(path)
    table = kernels(trace, by=["device", "stream"]).set_index(["device", "stream"])
    assert table["count"].to_dict() == {stream: len(own) for stream, own in spans.items()}
    assert table["total_ns"].to_dict() == {
        stream: sum(end - begin for begin, end in own) for stream, own in spans.items()
    }
    every = [span for own in spans.values() for span in own]
    (row,) = device(trace).to_dict("records")
    assert row["busy_ns"] == covered(every) < sum(map(covered, spans.values()))  # streams ran side by side
    assert "stream-overlap" not in set(trust(trace)["code"])
