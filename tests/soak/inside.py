"""Runs in the kernel that is measured: lets its memory go, and prints what it holds as JSON.

It is executed in a space of its own, so that nothing of it stays in the kernel. Tests of interrupts ask it
for the `state` alone.
"""

from __future__ import annotations

import gc
import json
import signal
import sys
import threading
import time
import tracemalloc
from collections import Counter
from typing import Any

PATIENCE_S = 60.0
"""For work beside the prompt, such as a view's first picture, which waits half a minute for its page."""
STAYS = "notebook_prof py-spy"
"""The thread that watches the py-spy that waits for the next recording."""


def working() -> list[str]:
    """Threads of the profiler that will end by themselves."""
    names = [thread.name for thread in threading.enumerate()]
    return sorted(name for name in names if name.startswith("notebook_prof") and name != STAYS)


def settle() -> list[str]:
    """Wait for them; gives those that are still there."""
    until = time.monotonic() + PATIENCE_S
    while (names := working()) and time.monotonic() < until:
        time.sleep(0.05)
    return names


def name_of(thing: Any) -> str:
    """What something is called, without its address."""
    return str(getattr(thing, "__qualname__", thing)).split(" at 0x")[0]


def state(shell: Any) -> dict[str, str]:
    """What a recording changes and has to give back."""
    values: dict[str, Any] = {
        "handlers": {
            one.name: name_of(signal.getsignal(one))
            for one in (signal.SIGALRM, signal.SIGINT, signal.SIGPROF, signal.SIGCHLD, signal.SIGTERM)
        },
        "interval timers": [signal.getitimer(which)[0] > 0 for which in range(3)],
        "functions of signal": [name_of(getattr(signal, n)) for n in ("signal", "setitimer", "alarm")],
        "wrapped functions": [hasattr(getattr(signal, n), "__wrapped__") for n in ("signal", "setitimer")],
        "trace": [name_of(sys.gettrace()), name_of(threading.gettrace())],
        "profile": [name_of(sys.getprofile()), name_of(threading.getprofile())],
        "switch interval": sys.getswitchinterval(),
        "monitoring": [sys.monitoring.get_tool(n) for n in range(6)] if hasattr(sys, "monitoring") else [],
        "tracemalloc": tracemalloc.is_tracing(),
        "collector": [gc.isenabled(), gc.get_threshold(), len(gc.callbacks)],
        "finders": len(sys.meta_path),
        "callbacks of the shell": {
            name: len(calls) for name, calls in sorted(shell.events.callbacks.items())
        },
        "transformers": [len(shell.ast_transformers), len(shell.input_transformers_cleanup)],
        "tracebacks": [
            "showtraceback" in vars(shell),
            len(shell.custom_exceptions),
            name_of(sys.excepthook),
            name_of(threading.excepthook),
        ],
        "names": sorted(name for name in shell.user_ns if name.startswith(("__nbp", "_nbp"))),
        "sleep": name_of(time.sleep),
    }
    return {name: str(value) for name, value in (values | hooks()).items()}


def hooks() -> dict[str, Any]:
    """Hooks of torch, where it is imported."""
    if "torch" not in sys.modules:
        return {}
    import torch
    from torch.nn.modules import module
    from torch.optim import optimizer
    from torch.utils.data import dataloader

    return {
        "torch: recording": torch._C._autograd._profiler_enabled(),
        "torch: optimizer": [
            len(optimizer._global_optimizer_pre_hooks),
            len(optimizer._global_optimizer_post_hooks),
            optimizer.Optimizer.step.__qualname__,
        ],
        "torch: modules": [
            len(module._global_forward_hooks),
            len(module._global_forward_pre_hooks),
            len(module._global_backward_hooks),
            torch.nn.Module.__call__.__qualname__,
        ],
        "torch: loader": [
            dataloader.DataLoader.__iter__.__qualname__,
            dataloader._BaseDataLoaderIter.__next__.__qualname__,
        ],
        "torch: backward": [torch.Tensor.backward.__module__, torch.Tensor.backward.__qualname__],
    }


def objects() -> dict[str, int]:
    """Living instances of the profiler's own classes, by name."""
    # Issues are counted with the reports that hold them: one in the last profile's says nothing of a leak.
    kinds = Counter(map(type, gc.get_objects()))
    counts: Counter[str] = Counter()
    for kind, count in kinds.items():
        ours = str(getattr(kind, "__module__", "")).startswith("notebook_prof")
        if ours and kind.__name__ != "Statement":
            counts[kind.__name__] += count
    return dict(sorted(counts.items()))


def measured(shell: Any) -> dict[str, Any]:
    """All that is measured inside of the kernel."""
    left = settle()
    for _ in range(3):
        gc.collect()
    from notebook_prof.collectors.python import py_spy_attachment as py_spy
    from notebook_prof.collectors.system import polling

    polling.trim()
    widgets = sys.modules.get("ipywidgets.widgets.widget")
    libc = polling._libc()
    malloc = libc.mallinfo2() if libc is not None else None
    return {
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "working": left,
        "state": state(shell),
        "objects": objects(),
        "widgets": len(widgets._instances) if widgets is not None else 0,
        "blocks": sys.getallocatedblocks(),
        "used_bytes": malloc.uordblks + malloc.hblkhd if malloc is not None else 0,
        "refused": py_spy.refusal(),
    }


if __name__ == "__main__":
    from IPython import get_ipython

    print("\n" + json.dumps(measured(get_ipython())))
