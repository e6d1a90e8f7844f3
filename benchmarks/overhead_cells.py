"""What ``%%profile`` costs whole cells, from the request to the prompt, in a real kernel.

Every cell runs bare, under ``torch.profiler.profile`` with the same options (until its own stop) and under
``%%profile --quiet --shapes``, in turn, in one kernel. The figures are medians over rounds of the ratio
within a round: by the clock, and by the CPU time of the thread that runs cells, which other programs on the
machine do not disturb. The last columns are a Python loop that runs right after each of them, against the
same loop after the bare cell, and how much CPU the making of the tables took beside it: what the next cell
feels of it.
"""

from __future__ import annotations

import os
import statistics
import time
import uuid
from pathlib import Path
from typing import Any, Final

TITLE = "Whole cells by the clock"

_SETUP: Final = """
import time, numpy as np, pandas as pd, torch, torch.nn as nn, torch.nn.functional as F
torch.manual_seed(0)
torch.set_num_threads(1)
rng = np.random.default_rng(0)
frame = pd.DataFrame({"k": rng.integers(0, 50, 20_000), "v": rng.random(20_000)})
square = rng.random((400, 400))
"""
_TORCH: Final = """
from torch.profiler import ProfilerActivity, profile as _torch_profile
_torchs = _torch_profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True)
_torchs.start()
try:
{cell}
finally:
    _torchs.stop()
"""
_NEXT: Final = "count = 0\nfor number in range(4_000_000):\n    count += number & 3\n"

CELLS: Final = {
    "Python loop": ("", "total = 0\nfor i in range(12_000_000):\n    total += i & 7\n"),
    "NumPy": ("", "a = square\nfor _ in range(150):\n    a = a @ square\n    a = a / np.linalg.norm(a)\n"),
    "pandas": (
        "",
        "for _ in range(120):\n"
        "    means = frame.groupby('k').agg({'v': 'mean'})\n"
        "    joined = frame.merge(means, on='k', suffixes=('', '_mean'))\n"
        "    head = joined[joined['v'] > joined['v_mean']].sort_values('v').head()\n",
    ),
    "CNN training": (
        """
model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(32 * 8 * 8, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
images, labels = torch.randn(64, 3, 32, 32), torch.randint(0, 10, (64,))
""",
        """for _ in range(60):
    optimizer.zero_grad()
    F.cross_entropy(model(images), labels).backward()
    optimizer.step()
""",
    ),
    "small transformer": (
        """
class Block(nn.Module):
    def __init__(s, d, h):
        super().__init__()
        s.h, s.ln1, s.ln2 = h, nn.LayerNorm(d), nn.LayerNorm(d)
        s.qkv, s.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        s.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
    def forward(s, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, s.h, C // s.h).transpose(1, 2) for t in s.qkv(s.ln1(x)).split(C, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, C)
        x = x + s.proj(y)
        return x + s.mlp(s.ln2(x))
class GPT(nn.Module):
    def __init__(s, V=1000, d=128, L=3, T=64):
        super().__init__()
        s.te, s.pe = nn.Embedding(V, d), nn.Embedding(T, d)
        s.bl = nn.ModuleList([Block(d, 4) for _ in range(L)])
        s.ln, s.head = nn.LayerNorm(d), nn.Linear(d, V, bias=False)
    def forward(s, i, t):
        x = s.te(i) + s.pe(torch.arange(i.shape[1]))
        for b in s.bl:
            x = b(x)
        l = s.head(s.ln(x))
        return F.cross_entropy(l.view(-1, l.size(-1)), t.view(-1))
gpt = GPT()
tokens = torch.randint(0, 1000, (100_000,))
adam = torch.optim.AdamW(gpt.parameters(), 3e-4)
def get_batch():
    ix = torch.randint(len(tokens) - 65, (8,))
    return torch.stack([tokens[i:i+64] for i in ix]), torch.stack([tokens[i+1:i+65] for i in ix])
""",
        """for _ in range(20):
    for micro in range(2):
        X, Y = get_batch()
        (gpt(X, Y) / 2).backward()
    nn.utils.clip_grad_norm_(gpt.parameters(), 1.0)
    adam.step()
    adam.zero_grad(set_to_none=True)
""",
    ),
    "LSTMCell loop": (
        "cell, points = nn.LSTMCell(8, 16), torch.randn(2000, 4, 8)\n",
        """h, c = torch.zeros(4, 16), torch.zeros(4, 16)
with torch.no_grad():
    for point in points:
        h, c = cell(point, (h, c))
""",
    ),
    "generate": (
        """
import os
os.environ["HF_HUB_OFFLINE"] = "1"
from transformers import GPT2Config, GPT2LMHeadModel
gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=500, n_embd=64, n_layer=3, n_head=2)).eval()
""",
        "ids = torch.randint(0, 500, (2, 8))\n"
        "out = gpt2.generate(ids, max_new_tokens=40, do_sample=False, pad_token_id=0)\n",
    ),
}
"""Setup and cell, by name."""


class Kernel:
    """A kernel whose cells are timed from the request to the reply."""

    def __init__(self) -> None:
        from jupyter_client.manager import start_new_kernel

        self.manager, self.client = start_new_kernel(kernel_name="python3", env={**os.environ})
        self._pid, self._cell_id = int(self.manager.provisioner.pid), uuid.uuid4().hex

    def run(self, code: str, cell: str = "") -> tuple[float, float, float]:
        """Seconds by the clock, of CPU of the thread that runs cells, and of CPU of all others."""
        kernel_s, all_of_it, begun = self._cpu_s(self._pid), self._cpu_s(None), time.perf_counter()
        content = {"code": code, "silent": False, "store_history": False, "allow_stdin": False}
        # JupyterLab names the cell; without a name a notebook's static form is made before the reply
        message = self.client.session.msg(
            "execute_request", content, metadata={"cellId": cell or self._cell_id}
        )
        self.client.shell_channel.send(message)
        msg_id, reply = message["header"]["msg_id"], None
        while reply is None or reply["parent_header"].get("msg_id") != msg_id:
            reply = self.client.get_shell_msg(timeout=600)
        took = time.perf_counter() - begun
        if reply["content"]["status"] != "ok":
            raise RuntimeError(f"{reply['content']}\n{code}")
        kernel_s = self._cpu_s(self._pid) - kernel_s
        return took, kernel_s, self._cpu_s(None) - all_of_it - kernel_s

    def _cpu_s(self, tid: int | None) -> float:
        """CPU time of one thread of the kernel, or of all that live."""
        tasks = Path(f"/proc/{self._pid}/task")
        tasks_of = [tasks / str(tid)] if tid is not None else list(tasks.iterdir())
        return (
            sum(int((task / "schedstat").read_text().split()[0]) for task in tasks_of if task.exists()) / 1e9
        )

    def close(self) -> None:
        """End the kernel."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def measure(name: str, rounds: int) -> dict[str, Any]:
    """One row: the ratios of one cell."""
    setup, cell = CELLS[name]
    kernel = Kernel()
    ways = {
        "bare": cell,
        "torch": _TORCH.format(cell="\n".join("    " + line for line in cell.splitlines())),
        "ours": f"%%profile p --quiet --shapes\n{cell}",
    }
    took: dict[str, list[tuple[float, float, float]]] = {way: [] for way in ways}
    after: dict[str, list[tuple[float, float, float]]] = {way: [] for way in ways}
    try:
        kernel.run("%load_ext notebook_prof")
        kernel.run(_SETUP + setup)
        for turn in range(rounds + 1):
            names = list(ways)
            for way in names[turn % 3 :] + names[: turn % 3]:
                kernel.run("import gc; _ = gc.collect(); p = None")
                whole, following = kernel.run(ways[way]), kernel.run(_NEXT)
                if way == "ours":
                    kernel.run("_ = p.trace")
                if turn:
                    took[way].append(whole)
                    after[way].append(following)
    finally:
        kernel.close()

    def ratio(times: dict[str, list[tuple[float, float, float]]], way: str, base: str, by: int) -> float:
        pairs = zip(times[way], times[base], strict=True)
        return round(statistics.median(one[by] / other[by] for one, other in pairs), 2)

    beside = [one[2] / one[1] for one in after["ours"]]
    return {
        "cell": name,
        "bare, CPU s": round(statistics.median(one[1] for one in took["bare"]), 3),
        "torch × bare": ratio(took, "torch", "bare", 0),
        "CPU torch × bare": ratio(took, "torch", "bare", 1),
        "%%profile × bare": ratio(took, "ours", "bare", 0),
        "CPU %%profile × bare": ratio(took, "ours", "bare", 1),
        "%%profile × torch": ratio(took, "ours", "torch", 0),
        "CPU %%profile × torch": ratio(took, "ours", "torch", 1),
        "next cell × after bare": ratio(after, "ours", "bare", 0),
        "CPU beside the next cell": round(statistics.median(beside), 2),
        "rounds": rounds,
    }


def run(names: tuple[str, ...] = (), rounds: int = 5) -> list[dict[str, Any]]:
    """Rows: a cell each; ``generate`` only where transformers can be imported; Linux only."""
    from importlib.util import find_spec

    cells = names or tuple(name for name in CELLS if name != "generate" or find_spec("transformers"))
    return [measure(name, rounds) for name in cells]
