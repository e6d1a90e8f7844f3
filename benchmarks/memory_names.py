"""What the walk from names to memory costs: CPU time of the thread that ends the cell."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from notebook_prof.collectors.system.names.walk import BUDGET_NS
from notebook_prof.collectors.system.names.watch import Roots, walk_names

TITLE = "Names of memory"
ROUNDS = 5
UNBOUNDED_NS = 60_000_000_000


def _instances(count: int) -> Any:
    return [SimpleNamespace(data=[i], parent=None) for i in range(count)]


def _arrays(count: int) -> Any:
    return [np.empty(16) for _ in range(count)]


def _numbers(count: int) -> Any:
    return list(range(count))


def _training(layers: int) -> Any:
    import torch

    parts = [
        torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64))
        for _ in range(layers)
    ]
    model = torch.nn.Sequential(*parts)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(8, 64)).sum().backward()
    optimizer.step()
    loss = model(torch.randn(8, 64)).sum()
    return {"model": model, "optimizer": optimizer, "loss": loss}


CASES: dict[str, tuple[Callable[[int], Any], int]] = {
    "instances": (_instances, 10_000),
    "arrays": (_arrays, 5_000),
    "numbers in a list": (_numbers, 10_000_000),
    "layers in training (Adam, graph alive)": (_training, 48),
    "instances, more than fit": (_instances, 300_000),
}


def run() -> list[dict[str, Any]]:
    """Measure; one row a case."""
    rows = []
    for name, (make, count) in CASES.items():
        made = make(count)
        namespace = made if isinstance(made, dict) else {"objects": made}
        budget = BUDGET_NS if "fit" in name else UNBOUNDED_NS
        spent, whole = [], []
        for _ in range(ROUNDS):
            begun = time.thread_time_ns()
            facts = walk_names(Roots(namespace), budget).facts
            whole.append(time.thread_time_ns() - begun)
            spent.append(facts["walk_ns"])
        rows.append(
            {
                "case": f"{count:,} {name}",
                "objects": facts["objects"],
                "left": facts["left"],
                "walk ms": round(statistics.median(spent) / 1e6, 1),
                "with its table ms": round(statistics.median(whole) / 1e6, 1),
                "µs an object": round(statistics.median(spent) / 1e3 / facts["objects"], 2),
            }
        )
    return rows


if __name__ == "__main__":
    for row in run():
        print(row)
