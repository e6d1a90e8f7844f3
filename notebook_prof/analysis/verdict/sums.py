"""The largest part of recordings that have durations but no time line."""

from __future__ import annotations

from ..time.operators import operators
from .claims import Source, cite_ns, cite_share, say
from .facts import Facts
from .finding import Finding
from .lines import short


def judge_sums(facts: Facts) -> Finding | None:
    """Name the largest part of all durations; None if all are zero. What bounds the run is unknown."""
    table = operators(facts.trace)
    total = int(table["self_ns"].sum())
    if not total:
        return None
    row = table.iloc[int(table["self_ns"].to_numpy().argmax())]
    name, spent = str(row["name"]), int(row["self_ns"])
    select = {"name": name}
    source, whole = Source("operators", "self_ns", select), Source("operators", "self_ns")
    share = cite_share(spent / total, source, whole, select)
    sentence = say(
        f"Durations without a time line: {short(name)} takes ",
        share,
        " of their sum (",
        cite_ns(spent, source, select),
        " of ",
        cite_ns(total, whole),
        ").",
    )
    return Finding(
        "mixed", sentence, share.value, {"name": name, "self_ns": spent}, select, nothing_else=True
    )
