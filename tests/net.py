"""Snapshots of the package's answers, taken before a change and compared afterwards.

``python tests/net.py snapshot DIR`` saves the public names and signatures of the notebook_prof that Python
finds and, for every file in ``tests/data`` (and in ``--traces FOLDER``), its Trace, the tables and texts of
its Profile, and the answers of its page. ``python tests/net.py compare BEFORE AFTER`` prints the differences,
and exits with 1 if there are any: texts and integers must be equal, floats agree to 1e-9.

With another checkout in PYTHONPATH it saves that checkout's answers. It makes no recordings, which would
differ each time.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import importlib
import inspect
import pickle
import re
import sys
import tempfile
import time
import typing
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

import notebook_prof as nbp

DATA: Final = Path(__file__).resolve().parent / "data"
MODULES: Final = (
    "",
    ".analysis",
    ".errors",
    ".ranks",
    ".readers",
    ".selection",
    ".testing",
    ".trace",
    ".writers",
)
TABLES: Final = ("slices", "tracks", "counters", "flows", "stacks", "steps", "allocations")
SKIPPED: Final = ("earlier", "export", "pending", "plot", "predictions", "replay", "save", "select", "sql")
"""Attributes of a Profile that write, run code, need more than a Trace, or need the user."""
TOLERANCE: Final = 1e-9
PASSING: Final = re.compile(rf"{re.escape(tempfile.gettempdir())}/[^\s'\",)]*|\b0x[0-9a-f]{{6,}}\b")
"""Temporary files and memory addresses."""
BOKEH_IDS: Final = re.compile(r'"p\d{4,}"')
"""Ids of Bokeh's models, which are counted across all samples."""


def snapshot(options: argparse.Namespace) -> None:
    """Save the public names and the samples, one file each."""
    began = time.perf_counter()
    options.folder.mkdir(parents=True, exist_ok=True)
    files = {f"data/{name}": (DATA, name) for name in samples(DATA)}
    if root := options.traces:
        small = [name for name in samples(root) if (root / name).stat().st_size <= options.most_mb * 1e6]
        files |= {f"traces/{name}": (root, name) for name in small[: options.most]}
    kept = {name: file for name, file in files.items() if re.search(options.only, name)}
    _write(options.folder, "names", {"signatures": signatures()})
    for name, (root, path) in kept.items():
        _write(options.folder, name, _plain(answers(root / path), str(root.resolve())))
    took = time.perf_counter() - began
    print(f"{len(kept)} samples of {Path(nbp.__file__).parent} in {options.folder} after {took:.0f} s")


def _write(folder: Path, name: str, kept: dict[str, Any]) -> None:
    (folder / (name.replace("/", "~") + ".pickle")).write_bytes(pickle.dumps(kept))


def samples(root: Path) -> list[str]:
    """Return files and folders that may be recordings: the first of each folder, then the second."""
    seen: Counter[Path] = Counter()
    place = {}
    for path in sorted(root.rglob("*")):
        if path.parent != root and "LICENSES" not in path.parts:
            place[path.relative_to(root).as_posix()] = seen[path.parent]
            seen[path.parent] += 1
    return sorted(place, key=lambda name: (place[name], name))


def answers(path: Path) -> dict[str, Any]:
    """Return the answers for one file, by kind, or the error message if it cannot be read."""
    try:
        p = nbp.open_profile(path)
    except Exception as error:  # a defect is saved as it is
        return {"refused": {type(error).__name__: str(error)}}
    trace = p.trace
    return {
        "trace": {name: getattr(trace, name) for name in TABLES}
        | {"metadata": trace.metadata, "span": (trace.span.start, trace.span.end)},
        "report": {"text": str(trace.report), "issues": list(trace.report)},
        "answers": {name: _asked(ask) for name, ask in _questions(p, "")},
        "page": _asked(lambda: dict(_page(p))),
    }


def _asked(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _questions(holder: Any, path: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Return all answers that a Profile or one of its topics gives without arguments, by name."""
    if not path:
        yield "repr", lambda: repr(holder)
    elif callable(holder) and not _needs_arguments(type(holder).__call__):
        yield path, holder
    for name in sorted(dir(holder)):
        if name.startswith("_") or (not path and name in (*SKIPPED, "selection", "trace")):
            continue
        of_class, here = getattr(type(holder), name, None), f"{path}.{name}".lstrip(".")
        if not inspect.isroutine(of_class):
            value = getattr(holder, name)
            if hasattr(type(value), "members"):
                yield from _questions(value, here)
            else:
                yield here, functools.partial(getattr, holder, name)
        elif not _needs_arguments(of_class):
            yield here, getattr(holder, name)


def _needs_arguments(method: Callable[..., Any]) -> bool:
    _, *others = inspect.signature(method).parameters.values()
    return any(
        one.default is one.empty and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL) for one in others
    )


def _page(p: nbp.Profile) -> Iterator[tuple[str, Any]]:
    """Return the page's answers without a selection, and with a name and a window selected."""
    selection, slices, span = nbp.Selection(), p.trace.slices, p.trace.span
    queries = importlib.import_module("notebook_prof.views.page_queries").PageQueries(p.trace, selection)
    tabs = importlib.import_module("notebook_prof.views.tabs").TABS
    yield from _page_answers(queries, tabs, "all")
    if len(slices):
        selection.name = str(slices["name"].iloc[len(slices) // 2])
        selection.window = (span.start, span.end // 2 + 1)
        yield from _page_answers(queries, tabs, "selected")


def _page_answers(queries: Any, tabs: Mapping[str, Any], under: str) -> Iterator[tuple[str, Any]]:
    meta = _page_answer(queries, t="meta")
    yield f"{under} meta", meta
    (a, b), rows = meta["span"], [track["row"] for track in meta["tracks"]]
    asked: list[dict[str, Any]] = [
        *({"t": t} for t in ("doubts", "names", "account", "phases", "path", "strip")),
        *({"t": "lod", "a": a, "b": a + (b - a) / part, "px": 300, "rows": rows} for part in (1, 10)),
        *({"t": "legend", "tint": tint} for tint in meta["tints"]),
        *({"t": "table", "by": by, "by_side": True} for by in meta["groupings"]),
        *({"t": "panel", "name": name} for name in tabs),
        {"t": "memory", "a": a, "b": b},
        {"t": "counters", "a": a, "b": b, "tracks": [one["track"] for one in meta["counters"]]},
        {"t": "selected", "a": a, "b": (a + b) / 2},
        {"t": "search", "text": "a"},
        {"t": "what_if", "factor": 0.5},
        *({"t": t, "id": row} for row in (0, 1) for t in ("detail", "find", "why")),
        *({"t": "why", "track": track["track"], "at": (a + b) // 2} for track in meta["tracks"][:4]),
    ]
    for question in asked:
        short = {name: value for name, value in question.items() if name not in ("rows", "tracks")}
        yield f"{under} {short}", _page_answer(queries, **question)


def _page_answer(queries: Any, **question: Any) -> dict[str, Any]:
    while (reply := queries.answer(question))[0].get("pending"):
        time.sleep(0.01)
    content, buffers = reply
    columns = zip(content.get("columns", []), buffers, strict=True)
    left_out = ("columns", "ms", "seq", "revision", "picture")
    return {name: value for name, value in content.items() if name not in left_out} | {
        f"column {name}": np.frombuffer(part, np.dtype("<" + kind)) for (name, kind), part in columns
    }


def signatures() -> dict[str, str]:
    """Return the public names: signatures of functions, members of classes, else the type."""
    found: dict[str, str] = {}
    classes: set[type] = set()
    for part in MODULES:
        module = importlib.import_module(f"notebook_prof{part}")
        for name in getattr(module, "__all__", None) or [n for n in vars(module) if n[0] != "_"]:
            if name != "last":  # a recording
                _describe(f"notebook_prof{part}.{name}", getattr(module, name), found, classes)
    return {name: _cleaned(text, "") for name, text in found.items()}


def _describe(name: str, value: Any, found: dict[str, str], classes: set[type]) -> None:
    """Add a name to `found`, with the members of its class or of the class that a function returns."""
    function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
    try:
        found[name] = f"{type(value).__name__} {inspect.signature(function)}"
        result = typing.get_type_hints(function).get("return")
    except (NameError, TypeError, ValueError):  # no function, or a name only type checkers import
        found.setdefault(name, type(value).__name__)
        result = None
    of = function if inspect.isclass(function) else result
    if not inspect.isclass(of) or of in classes:
        return
    classes.add(of)
    ours = {key for base in of.__mro__ if base.__module__.startswith("notebook_prof") for key in vars(base)}
    for key in sorted(key for key in ours if key[0] != "_" or key in ("__call__", "__getitem__", "__iter__")):
        _describe(f"{of.__name__}.{key}", inspect.getattr_static(of, key), found, classes)


def _cleaned(text: str, root: str) -> str:
    return PASSING.sub("…", text.replace(root, "") if root else text)


def _plain(value: Any, root: str) -> Any:
    """Return the value as dicts, lists, arrays, numbers and texts, without classes of the package."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, np.generic):
        return _plain(value.item(), root)
    if isinstance(value, pd.DataFrame):
        columns = {f"{place} {name}": _plain(value.iloc[:, place], root) for place, name in enumerate(value)}
        index = {} if isinstance(value.index, pd.RangeIndex) else {"index": _plain(value.index, root)}
        return {"rows": len(value), **index, **columns}
    if isinstance(value, pd.Series | pd.Index):
        if isinstance(value.dtype, pd.Int8Dtype | pd.Int16Dtype | pd.Int32Dtype | pd.Int64Dtype):
            return value.to_numpy(np.int64, na_value=np.iinfo(np.int64).min)
        return _plain(value.to_numpy(), root)
    if isinstance(value, np.ndarray):
        return [_plain(each, root) for each in value.tolist()] if value.dtype == object else value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
        return _plain({"text": str(value), **fields}, root)
    if isinstance(value, Mapping):
        return {_cleaned(str(key), root): _plain(each, root) for key, each in value.items()}
    if isinstance(value, list | tuple | Set):
        return [_plain(each, root) for each in (sorted(value, key=str) if isinstance(value, Set) else value)]
    return _cleaned(str(value), root)


def compare(before: Path, after: Path, lines: int) -> int:
    """Print the differences between two snapshots; return 1 if there are any."""
    names = sorted({path.name for folder in (before, after) for path in folder.glob("*.pickle")})
    total: Counter[str] = Counter()
    for name in names:
        a, b = (
            pickle.loads(p.read_bytes()) if (p := folder / name).exists() else {}
            for folder in (before, after)
        )
        for kind in sorted(a.keys() | b.keys()):
            if found := list(differences(a.get(kind), b.get(kind), "")):
                total[kind] += 1
                print(f"{name.removesuffix('.pickle').replace('~', '/')}: {kind}: {len(found)} differ")
                print(*(f"    {line}" for line in found[:lines]), sep="\n")
    summary = ", ".join(f"{kind} of {count}" for kind, count in total.items())
    print(f"{len(names)} compared: {f'differ: {summary}' if total else 'nothing differs'}")
    return int(bool(total) or not names)


def differences(a: Any, b: Any, path: str) -> Iterator[str]:
    """Return where two plain values differ, and both values."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in [*a, *(key for key in b if key not in a)]:
            if key not in a or key not in b:
                yield f"{path}/{key}: only {'before' if key in a else 'after'}"
            else:
                yield from differences(a[key], b[key], f"{path}/{key}")
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for place, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from differences(x, y, f"{path}[{place}]")
    elif not _equal(a, b):
        yield f"{path}: {_short(a)} -> {_short(b)}"


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        return (
            np.allclose(a, b, TOLERANCE, 0, equal_nan=True) if a.dtype.kind == "f" else np.array_equal(a, b)
        )
    if isinstance(a, float) and isinstance(b, float):
        return bool(np.isclose(a, b, TOLERANCE, 0, equal_nan=True))
    if isinstance(a, str) and isinstance(b, str):
        return BOKEH_IDS.sub("", a) == BOKEH_IDS.sub("", b)
    return type(a) is type(b) and bool(a == b)


def _short(value: Any) -> str:
    text = f"{value.dtype} {value.shape} {value[:6]}" if isinstance(value, np.ndarray) else repr(value)
    return text if len(text) < 160 else text[:160] + "…"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    keep = commands.add_parser("snapshot")
    keep.add_argument("folder", type=Path)
    keep.add_argument("--traces", type=Path, help="a folder with more files")
    keep.add_argument(
        "--most", type=int, default=60, help="files of it at most, from all of its folders in turn"
    )
    keep.add_argument("--most-mb", type=float, default=2, help="size of each at most")
    keep.add_argument("--only", default="", help="a regular expression for names of samples")
    held = commands.add_parser("compare")
    held.add_argument("before", type=Path)
    held.add_argument("after", type=Path)
    held.add_argument("--lines", type=int, default=3, help="differences shown of each kind of each sample")
    given = parser.parse_args()
    if given.command == "compare":
        sys.exit(compare(given.before, given.after, given.lines))
    snapshot(given)
