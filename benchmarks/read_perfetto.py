"""Reading Perfetto's protobuf, against the JSON of the same recording.

The recording is PyTorch's of 61,949 slices, 10,356 of them on a GPU, in three files: as Kineto's JSON, and
in the two layouts of its Perfetto export. ``messages`` decodes all packets, events and annotations; the other
sides end with the sealed Trace. Sides take turns in one process; time is that of the processor, the least of
the turns.

Run ``python -m benchmarks.read_perfetto [--repeat 7]``.
"""

from __future__ import annotations

import argparse
import gzip
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

TITLE = "Reading a Perfetto trace"
SHARED = Path(__file__).parents[2] / "shared" / "traces"
FILES = {
    "Kineto JSON": "param_linear/linear_kineto.json.gz",
    "Perfetto, first layout": "perfetto/torch_v1_gpu_linear.pftrace.gz",
    "Perfetto, second layout": "perfetto/torch_v2_gpu_linear.pftrace.gz",
}


def run(repeat: int = 7) -> list[dict[str, Any]]:
    """Measure; nothing where the recordings are absent."""
    from notebook_prof.formats.perfetto.events import TrackEvents
    from notebook_prof.formats.perfetto.packets import Packets
    from notebook_prof.formats.perfetto.tracks import Annotations
    from notebook_prof.readers import read_trace
    from notebook_prof.trace import ImportReport

    if not SHARED.is_dir():
        return []
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for number, (name, file) in enumerate(FILES.items()):
            paths[name] = Path(folder) / str(number)
            paths[name].write_bytes(gzip.decompress((SHARED / file).read_bytes()))
        raw = paths["Perfetto, second layout"].read_bytes()

        def messages() -> None:
            packets = Packets(raw, ImportReport())
            events = TrackEvents.of(packets)
            Annotations(packets, events.fields, events.epoch)

        sides: dict[str, tuple[Callable[[], Any], Path]] = {
            f"{name}: sealed Trace": (partial(read_trace, path), path) for name, path in paths.items()
        }
        sides["Perfetto, second layout: messages"] = messages, paths["Perfetto, second layout"]
        least = dict.fromkeys(sides, float("inf"))
        for _ in range(repeat):
            for side, (call, _path) in sides.items():
                begin = time.process_time()
                call()
                least[side] = min(least[side], time.process_time() - begin)
        base = least["Kineto JSON: sealed Trace"]
        return [
            {
                "side": side,
                "MB": f"{(size := path.stat().st_size / 1e6):.1f}",
                "CPU s": f"{least[side]:.2f}",
                "MB/s": f"{size / least[side]:.0f}",
                "× Kineto's JSON": f"{base / least[side]:.1f}",
            }
            for side, (_call, path) in sides.items()
        ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=7)
    from benchmarks.__main__ import as_markdown

    print(as_markdown(run(parser.parse_args().repeat)))
