"""What torch's own profiler says on this card: beside ``%%profile`` in a real kernel, and by itself."""

from __future__ import annotations

import ast
import gzip
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from .outcomes import WORK

_PATIENCE_S: Final = 90
_MOST_EVENTS: Final = 4_000
_SETUP: Final = """
import json, time
import torch
%load_ext notebook_prof
from benchmarks.gpu.scene import keep, row_of
from pathlib import Path
from tests.gpu.scenes import BY_NAME
scene = BY_NAME[{scene!r}]
body = scene.make({device!r})
"""
_BARE: Final = "begun = time.perf_counter(); body(); wall = time.perf_counter() - begun"
_RECORDED: Final = f"%%profile p --quiet\n{_BARE}"
_THEIRS: Final = """
with torch.profiler.profile(activities=torch.profiler.supported_activities()) as other:
    body()
other.export_chrome_trace({path!r})
"""
_TOLD: Final = """
table = p.kernels(category="kernel")
told = {{"count": int(table["count"].sum()), "total": int(table["total_ns"].sum()),
        "names": dict(zip(table["name"].astype(str), table["count"].tolist())), "row": row_of(p, scene)}}
keep(p, Path({path!r}))
"""


def beside(scene: str, folder: Path, device: str = "cuda", rounds: int = 3) -> list[dict[str, Any]]:
    """The row of a scene under ``%%profile`` in a real kernel, beside ``torch.profiler`` in the same."""
    from jupyter_client.manager import KernelManager

    manager = KernelManager()
    assert manager.kernel_spec is not None, "ipykernel has no kernel"
    manager.kernel_spec.argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=_PATIENCE_S)
        with tempfile.TemporaryDirectory() as temporary:
            return [_beside(client, scene, folder, device, rounds, Path(temporary) / "theirs.json")]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _beside(client: Any, scene: str, folder: Path, device: str, rounds: int, path: Path) -> dict[str, Any]:
    _cell(client, _SETUP.format(scene=scene, device=device))
    ratios = []
    for _ in range(rounds):
        bare = float(_cell(client, _BARE, "wall"))
        ratios.append(float(_cell(client, _RECORDED, "wall")) / bare)
    kept = folder / f"{scene}-cell.nbprof.zip"
    ours = json.loads(_cell(client, _TOLD.format(path=str(kept)), "json.dumps(told)"))
    _cell(client, _THEIRS.format(path=str(path)))
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    total = sum(event["dur"] for event in kernels)
    return {
        **ours["row"],
        "kernels": ours["count"],
        "torch's": len(kernels),
        "names alike": dict(Counter(event["name"] for event in kernels)) == ours["names"],
        "time ÷ torch's": round(ours["total"] / 1000 / total, 3) if total else 0.0,
        "wall ×": round(statistics.median(ratios), 3),
    }


def _cell(client: Any, code: str, value: str = "None") -> Any:
    """Run a cell, then return the value of an expression. Raises if the cell fails."""
    answer = client.execute_interactive(
        code, timeout=_PATIENCE_S, user_expressions={"value": value}, output_hook=len, allow_stdin=False
    )
    content = answer["content"]
    if content["status"] != "ok":
        raise RuntimeError(f"{content.get('ename')}: {content.get('evalue')} in {code[:200]!r}")
    return ast.literal_eval(content["user_expressions"]["value"]["data"]["text/plain"])


def launches(folder: Path, device: str = "cuda") -> list[dict[str, Any]]:
    """A row a call, by torch's profiler alone: name, number, and how many of its calls own kernels."""
    import torch

    x = torch.ones(1 << 20, device=device)
    y = torch.randn(512, 512, device=device)

    def body() -> None:
        for _ in range(100):
            torch.relu(x)
            y @ y
        if device == "cuda":
            torch.cuda.synchronize()

    body()
    with torch.profiler.profile(activities=torch.profiler.supported_activities()) as profiler:
        body()
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "trace.json"
        profiler.export_chrome_trace(str(path))
        file = json.loads(path.read_text(encoding="utf-8"))
    spans = [event for event in file["traceEvents"] if event.get("ph") == "X"]
    file["traceEvents"] = file["traceEvents"][:_MOST_EVENTS]
    (folder / "kineto-launches.json.gz").write_bytes(gzip.compress(json.dumps(file).encode()))
    return calls(spans)


def calls(spans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same of the events of a file."""
    kernels = [span for span in spans if span.get("cat") == "kernel"]
    owned = {span["args"].get("correlation") for span in kernels}
    timeless = sum(span["dur"] <= 0 for span in kernels)
    kinds = Counter(str(span.get("cat")) for span in spans)
    of_domain = {
        kind: {span["args"].get("correlation") for span in spans if span.get("cat") == kind}
        for kind in ("cuda_runtime", "cuda_driver")
    }
    shared = len(of_domain["cuda_runtime"] & of_domain["cuda_driver"])
    groups: dict[tuple[str, str, Any], list[Any]] = {}
    for span in spans:
        if span.get("cat") in of_domain:
            key = (span["cat"], span["name"], span["args"].get("cbid"))
            groups.setdefault(key, []).append(span["args"].get("correlation"))
    whole = {"kinds": " ".join(f"{kind}={count}" for kind, count in sorted(kinds.items()))}
    rows: list[dict[str, Any]] = [
        {WORK: len(kernels), "without time": timeless, "numbers of both domains": shared, **whole}
    ]
    for (kind, name, number), correlations in sorted(groups.items(), key=lambda item: -len(item[1])):
        with_kernel = sum(one in owned for one in correlations)
        count = len(correlations)
        rows.append({"kind": kind, "call": name, "cbid": number, "count": count, "with kernel": with_kernel})
    return rows


def reasons(device: str = "cuda") -> list[dict[str, Any]]:
    """Whether asking CUPTI for its reasons changes anything: kernels of recordings before and after."""
    import torch

    import notebook_prof as nbp
    from notebook_prof.collectors.torch.no_kernels import ask_cupti

    x = torch.ones(1 << 16, device=device)
    rows = []
    for when in ("before", "after"):
        with nbp.profile("torch") as p:
            for _ in range(100):
                torch.relu(x)
        begun = time.perf_counter()
        cupti = ask_cupti()
        rows.append(
            {
                "asked": when,
                WORK: int(p.kernels()["count"].sum()),
                "cupti": cupti.version,
                "refusal": cupti.refusal.example if cupti.refusal else "",
                "ms": round(1e3 * (time.perf_counter() - begun), 3),
                "trust": " ".join(p.trust["code"]),
            }
        )
    return rows
