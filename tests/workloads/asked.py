"""Asked in the kernel after a cell: everything that its Profile says, as plain tables.

The runner hands over ``PROFILE``, ``TARGET`` (a file for the answers) and ``BEFORE`` (what the process had
used before the cell) and executes this in a namespace of its own: nothing of it stays in the notebook.
"""

import operator
import pickle
import resource
from typing import Any

PLAIN = ("account", "lines", "steps", "phases", "hotspots", "advice", "operators")
TABLES = {name: name for name in PLAIN} | {"memory_peak": "memory.peak", "memory_growth": "memory.growth"}
"""Names of answers, and the methods of a Profile that give them."""


def usage() -> dict[str, float]:
    """Seconds of CPU that this process and its ended children have used, by the kernel's own books."""
    process, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "process_s": process.ru_utime + process.ru_stime,
        "children_s": children.ru_utime + children.ru_stime,
        "max_rss_bytes": process.ru_maxrss * 1024.0,
    }


def answers(profile: Any) -> dict[str, Any]:
    """What a Profile says. A table that cannot be made is in ``failures`` by its name, with the error."""
    from notebook_prof.analysis.scope import sharing  # not before the cell has run

    said: dict[str, Any] = {"failures": {}}
    for name, path in TABLES.items():
        try:
            table = operator.attrgetter(path)(profile)()
            said[name] = table.astype({c: "object" for c in table.columns if table[c].dtype == "category"})
        except Exception as error:
            said["failures"][name] = f"{type(error).__name__}: {error}"
    trace, verdict = profile.trace, profile.verdict
    said["verdict"], said["kind"] = str(verdict), verdict.kind
    said["headline"], said["shown"] = profile.headline, repr(profile)
    claims = getattr(verdict, "claims", ())
    # together: each alone would make what its table rests on anew
    held = sharing(lambda trace: [claim.holds(trace) for claim in claims])(trace)
    said["claims"] = [
        {name: getattr(claim, name) for name in ("text", "table", "column", "value", "line", "start")}
        | {"where": dict(claim.where), "holds": holds}
        for claim, holds in zip(claims, held, strict=True)
    ]
    said["report"] = [(issue.code, issue.severity, issue.example) for issue in trace.report]
    said["tracks"] = [str(name) for name in trace.tracks["name"]]
    said["cpu"] = (trace.metadata.get("tables") or {}).get("cpu")
    said["span_ns"], said["slices"] = trace.span.dur, len(trace.slices)
    return said


if "PROFILE" in globals():
    now, before = usage(), globals()["BEFORE"]
    result = {**answers(globals()["PROFILE"]), "used": {key: now[key] - before[key] for key in before}}
    result["max_rss_bytes"] = now["max_rss_bytes"]
    with open(globals()["TARGET"], "wb") as file:
        pickle.dump(result, file)
