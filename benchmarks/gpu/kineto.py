"""Scenes under ``%%profile`` in a real kernel, next to ``torch.profiler`` in the same kernel."""

from __future__ import annotations

import ast
import gzip
import json
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

_PATIENCE_S: Final = 90
_MOST_EVENTS: Final = 4_000
_SETUP: Final = """
import json, time
from pathlib import Path
import torch
%load_ext notebook_prof
from benchmarks.gpu.scene import keep, row_of
from tests.gpu.scenes import BY_NAME
scene = BY_NAME[{scene!r}]
body = scene.make({device!r})
"""
_BARE: Final = "begun = time.perf_counter(); body(); wall = time.perf_counter() - begun"
_RECORDED: Final = f"%%profile p --quiet\n{_BARE}"
_OURS: Final = """
table = p.kernels(category="kernel")
names = dict(zip(table["name"].astype(str), table["count"].tolist()))
ours = {{"total_ns": int(table["total_ns"].sum()), "names": names, "row": row_of(p, scene)}}
keep(p, Path({path!r}))
"""
_THEIRS: Final = """
with torch.profiler.profile(activities=torch.profiler.supported_activities()) as other:
    body()
other.export_chrome_trace({path!r})
"""


def beside(scene: str, folder: Path, device: str = "cuda", rounds: int = 3) -> list[dict[str, Any]]:
    """Return the row of a scene; keep the recording and the first events of torch's file in `folder`."""
    path, kept = folder / f"{scene}-torch.json.gz", folder / f"{scene}-cell.nbprof.zip"
    with _kernel() as cell:
        cell(_SETUP.format(scene=scene, device=device))
        ratios = []
        for _ in range(rounds):
            bare = float(cell(_BARE, "wall"))
            ratios.append(float(cell(_RECORDED, "wall")) / bare)
        ours = json.loads(cell(_OURS.format(path=str(kept)), "json.dumps(ours)"))
        cell(_THEIRS.format(path=str(path)))
    file = json.loads(gzip.decompress(path.read_bytes()))
    theirs = [event for event in file["traceEvents"] if event.get("cat") == "kernel"]
    file["traceEvents"] = file["traceEvents"][:_MOST_EVENTS]
    path.write_bytes(gzip.compress(json.dumps(file).encode()))
    total_us = sum(event["dur"] for event in theirs)
    row = {
        **ours["row"],
        "kernels": sum(ours["names"].values()),
        "torch's": len(theirs),
        "same names": Counter(event["name"] for event in theirs) == ours["names"],
        "time ÷ torch's": round(ours["total_ns"] / 1000 / total_us, 3) if total_us else 0.0,
        "wall ×": round(statistics.median(ratios), 3),
    }
    return [row]


@contextmanager
def _kernel() -> Iterator[Callable[..., Any]]:
    """Start a kernel; the yielded function runs a cell and returns the value of an expression."""
    from jupyter_client.manager import KernelManager

    manager = KernelManager()
    assert manager.kernel_spec is not None, "ipykernel has no kernel"
    manager.kernel_spec.argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager.start_kernel()
    client = manager.client()
    client.start_channels()

    def cell(code: str, value: str = "None") -> Any:
        answer = client.execute_interactive(
            code, timeout=_PATIENCE_S, user_expressions={"value": value}, output_hook=len, allow_stdin=False
        )
        content = answer["content"]
        if content["status"] != "ok":
            raise RuntimeError(f"{content.get('ename')}: {content.get('evalue')} in {code[:200]!r}")
        return ast.literal_eval(content["user_expressions"]["value"]["data"]["text/plain"])

    try:
        client.wait_for_ready(timeout=_PATIENCE_S)
        yield cell
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
