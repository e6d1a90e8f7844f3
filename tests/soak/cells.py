"""Cells as people profile them; each takes about half a second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SETUP: Final = """
%xmode Plain
import torch, gc, threading, time, multiprocessing, hashlib, asyncio, signal, subprocess, sys
import numpy as np
import notebook_prof as nbp
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.001)
loader = torch.utils.data.DataLoader(torch.ones(320, 64), batch_size=16)
feeding = torch.utils.data.DataLoader(torch.ones(64, 64), batch_size=16, num_workers=1)
def crunch(n):
    s = 0
    for i in range(n):
        s += i * i
    return s
def train(batches):
    for x in batches:
        opt.zero_grad()
        net(x).sum().backward()
        opt.step()
train(feeding)
p = q = None
"""
"""In its other modes IPython keeps the syntax tree of every file that a traceback has gone through, up to
40 MB a file: of an interrupt at a random moment that is always another one."""

TRAINING: Final = """
for x in loader:
    opt.zero_grad()
    net(x).sum().backward()
    opt.step()
    time.sleep(0.004)
"""


@dataclass(frozen=True)
class Kind:
    """A kind of profiled cell."""

    name: str
    code: str  # empty for a cell that profiles itself
    options: str = ""
    errors: tuple[str, ...] = ("",)  # what it may raise without an interrupt
    magic: bool = True

    def source(self, quiet: bool) -> str:
        """The whole cell."""
        if not self.magic:
            return self.code.strip("\n")
        return f"%%profile p {self.options}{' --quiet' if quiet else ''}\n{self.code.strip()}"


KINDS: Final = (
    Kind("python", "values = [crunch(20_000) for _ in range(150)]"),
    Kind("thread", "values = [crunch(20_000) for _ in range(150)]", "--engine thread"),
    Kind("arrays", "total = 0\nfor i in range(12):\n    total += np.sort(np.random.rand(300_000)).sum()"),
    Kind("training", TRAINING),
    Kind("steps", TRAINING, "--steps 3:9"),
    Kind("stop after", TRAINING, "--steps 3:6 --stop-after"),
    Kind("stacks", TRAINING, "--stack"),
    Kind("function", "train(loader)\ntrain(loader)", "--steps 2:8"),
    Kind("workers", "train(feeding)"),
    Kind("calls", "values = [hashlib.sha256(bytes(i)).hexdigest() for i in range(3000)]", "--python calls"),
    Kind(
        "threads",
        "ts = [threading.Thread(target=crunch, args=(1_500_000,)) for _ in range(3)]\n"
        "[t.start() for t in ts]\n[t.join() for t in ts]\nNone",
    ),
    Kind(
        "pool",
        "with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "    values = pool.map(crunch, [400_000] * 8)",
    ),
    Kind("child", "out = subprocess.run([sys.executable, '-c', 'sum(range(10_000_000))'], check=True)"),
    Kind("raises", "values = [crunch(20_000) for _ in range(60)]\n1 / 0", errors=("ZeroDivisionError",)),
    Kind("awaits", "await asyncio.sleep(0.2)\nvalues = crunch(500_000)"),
    Kind(
        "own alarm",
        "rang = []\nsignal.signal(signal.SIGALRM, lambda *_: rang.append(1))\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.05)\ntry:\n    time.sleep(0.3)\nfinally:\n"
        "    signal.setitimer(signal.ITIMER_REAL, 0)\n    signal.signal(signal.SIGALRM, signal.SIG_DFL)",
        "--engine thread",
    ),
    Kind("saved", "values = [crunch(20_000) for _ in range(60)]", "--save saved.nbprof.zip"),
    Kind("saved as Chrome's", TRAINING, "--save saved.json.gz"),
    Kind("short", "1 + 1"),
    Kind("reloads", "a = crunch(400_000)\n%reload_ext notebook_prof\nb = crunch(400_000)"),
    Kind("line", "%profile --quiet values = crunch(3_000_000)\np = nbp.last", magic=False),
    Kind("with", "with nbp.profile() as p:\n    values = crunch(3_000_000)\np.verdict\nNone", magic=False),
)
