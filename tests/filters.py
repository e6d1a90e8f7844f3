"""One corpus of filters: what the parser, the tables, the filter box and the report's page are held to."""

from __future__ import annotations

import random

FILTERS = (
    "", "conv", "CONV aten", '"add_"', "/^aten::(add|copy)_$/", "/mm|conv/ self>1ms", "conv self>1ms",
    "self > 1 ms", "self>= 1ms count<500", "total<=5us", "time>2ms", "mean>100us", "avg<0.2ms", "device>0",
    "device>=0.5ms", "count>10", "count=80", "count!=80", "share>5%", "share>=0.05", "share>5", "share<1e-2",
    "name=conv", "name!=conv,add", "name=conv,add self>1us", "category=kernel", "type=operator,kernel",
    "category!=kernel", "category=nothing", "phase=backward", "phase!=data,optimizer", "phase=FORWARD conv",
    "step=5", "step=4:7", "step=:5", "step=9:", "step=4,6 conv", "step!=4:7", "step>5 step<=8", "step=99",
    "mm phase=backward step=3:7 self>5us",
    "line=12", "line!=cell:3", "module=layers.1", "shapes=8", "flops>5", "kind=kernel",
    "slef>1ms", "phsae=backward", "self>fast", "count>many", "step=a:b", "step=:", "phase>3", "/(/",
    "kernel<4", "a=b",
    "x>>y", "//", "/", '"', '"two words"', "ß", "self>1", "self>1.5ns", "self>2.5ns", "self>1e6",
    "bytes>1MiB", "category=kernle", "phase!=fwd", "type=zzz", "µ", "Μ",
    "conv  \t add", "SELF>1ms", "Step=5", "thread=auto", "depth>0", "total>2ms depth=0", "dtype=half",
    "min>1ms",
    "self>5µs", "self>5μs", "self>1min", "count>1K", "/a\\/b/", "/conv/ /back/", "self>1ms phase = forward",
    "constructor=1", "__proto__=x",
)  # fmt: skip
"""Everything the language has, and everything it refuses."""

_TOKENS = (
    "conv", "aten::", "self", "total", "count", "share", "step", "phase", "category", "name", "slef", "stepp",
    "counts", ">", ">=", "<", "!=", "=", "1", "2.5", "5%", "3:7", ":", ",", " ", " ", " ", "ms", "us", "µs",
    "KiB", "/mm/", "/(/", '"', "backward", "kernel", ".", "-1", "1e3", "<4>", "min",
)  # fmt: skip


def drawn_filters(count: int, seed: int = 0) -> list[str]:
    """Random sequences of what filters are made of."""
    rng = random.Random(seed)
    return ["".join(rng.choices(_TOKENS, k=rng.randint(1, 9))) for _ in range(count)]
