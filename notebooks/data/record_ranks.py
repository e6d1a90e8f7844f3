"""Record ``ranks/``: eight processes train one small model over gloo, and rank 5 reads its batches late.

``python notebooks/data/record_ranks.py`` writes the files anew; it takes about a minute on two cores.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
from torch import distributed, multiprocessing, nn

import notebook_prof as nbp

RANKS, STEPS, LATE = 8, range(2, 7), 5
READS_S, READS_LATE_S = 0.03, 0.09
HERE = Path(__file__).parent / "ranks"


def train(rank: int, port: int) -> None:
    """Train on one rank, and save what was recorded there."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    distributed.init_process_group("gloo", rank=rank, world_size=RANKS)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(
        nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with nbp.profile("torch", steps=(STEPS.start, STEPS.stop), memory=False, shapes=False) as p:
        for _ in nbp.steps(range(STEPS.stop)):
            with nbp.annotate("read shard", phase="data"):
                time.sleep(READS_LATE_S if rank == LATE else READS_S)
                x, y = torch.randn(32, 64), torch.randint(0, 10, (32,))
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    p.save(HERE / f"rank{rank}.nbprof.zip")
    distributed.destroy_process_group()


def main() -> None:
    """Start the ranks and wait for them."""
    HERE.mkdir(exist_ok=True)
    multiprocessing.spawn(train, (29_500 + os.getpid() % 1000,), RANKS)


if __name__ == "__main__":
    main()
