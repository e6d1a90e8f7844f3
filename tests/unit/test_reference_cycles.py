"""A recording and its Profile go when nobody holds them, also where the garbage collector is off."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Asked in a process of its own: what earlier tests leave behind and their threads drop later is garbage too.
ASKED = '''
import gc
import sys
from collections import Counter

import notebook_prof as nbp


def recorded(collector: str) -> nbp.profile:
    """A recording that has been looked at."""
    with nbp.profile(collector) as profile:
        if collector == "torch":
            import torch

            module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
            optimizer = torch.optim.SGD(module.parameters(), 0.1)
            for batch in torch.utils.data.DataLoader(torch.ones(8, 8), batch_size=4):
                module(batch).sum().backward()
                optimizer.step()
    assert str(profile.verdict)
    return profile


recorded(sys.argv[1])  # what is made once may stay
gc.collect()
gc.disable()
recorded(sys.argv[1])
gc.set_debug(gc.DEBUG_SAVEALL)
gc.garbage.clear()
gc.collect()
kinds = Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.garbage)
print({kind: n for kind, n in kinds.items() if kind.startswith("notebook_prof")})
'''


@pytest.mark.parametrize("collector", ["system", "python", "torch"])
def test_recordings_leave_no_reference_cycle(collector: str) -> None:
    if collector == "torch":
        pytest.importorskip("torch")
    asked = subprocess.run([sys.executable, "-c", ASKED, collector], capture_output=True, text=True)
    assert (asked.stdout.strip(), asked.returncode) == ("{}", 0), asked.stderr
