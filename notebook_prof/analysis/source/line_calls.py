"""Library calls from each line of the user's source, imports, and what is shown with libraries folded."""

from __future__ import annotations

import re
import sys
from pathlib import PurePath
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...trace import Trace, inherit
from ...trace.arrays import BoolArray, IntArray
from ...trace.intervals import as_ints
from ...trace.schema import Table
from ...trace.source_lines import is_line
from ...trace.taxonomy import passes_on
from ..grouping import covered_by_code, outermost
from ..scope import Scope, WindowLike, ints, on_host, once
from .frames import SourceFrames, frames
from .lines import LINE, described, line_codes_of, line_slices

COLUMNS: Final = Table.of(
    "line_calls", "file:str line:int64 text:str module:str function:str count:int64 total_ns:int64"
)
_PACKAGES: Final = re.compile(r".*[\\/](?:(?:site|dist)-packages|python3(?:\.\d+)?)[\\/]")
_TYPED_IN: Final = re.compile(r"<(?:stdin|ipython-input-.*)>")
_UNNAMED: Final = re.compile(r"<(?:frozen )?(.+)>")


def line_calls(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """Return the time of every library function, by the user's line that led to the call.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns; times are cut exactly at its edges.

    Returns
    -------
    DataFrame
        By `total_ns`, longest first; empty if no lines were recorded.

        - ``file line text``: the nearest user's line around the call, as in `lines`;
        - ``module`` str, like ``pandas.core.frame``; ``function`` str, like ``DataFrame.apply``, without the
          class before Python 3.11;
        - ``count`` int64: stretches of time in which it was seen; with samples, at most the number of calls;
        - ``total_ns`` int64: time in which it or its callees ran for this line. Recursion, and several
          threads at once, count once.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> where = b.stack([("<module>", "cell", 2), ("apply", "/lib/site-packages/pandas/core/frame.py", 9)])
    >>> row = dict(name=["cell:2  df.apply(f)", "apply (frame.py)"], stack=[-1, where])
    >>> _ = b.slices(ts=[0, 0], dur=[9, 8], category="python", track=b.track("main"), **row)
    >>> line_calls(b.seal())[["line", "module", "function", "total_ns"]].values.tolist()
    [[2, 'pandas.core.frame', 'apply', 8]]
    """
    scope = line_slices(trace, window)
    if not len(scope.rows):
        return COLUMNS.empty()
    slices = trace.slices
    number, line_codes = pd.factorize(line_codes_of(trace, scope))
    own = np.full(len(slices), -1, dtype=np.int64)
    own[scope.rows] = number
    own = inherit(ints(slices["parent"]), own)
    where = frames(trace)
    names = pd.Series(where.file).map({file: module_of(str(file)) for file in set(where.file)})
    modules, words = pd.factorize(names)
    functions, called = pd.factorize(pd.Series(where.function))
    host = on_host(trace, window)
    code = where.code[host.rows]
    inside = host.among("category", ("python",)) & (own[host.rows] >= 0) & (names.to_numpy() != "")[code]
    inside &= ~np.isin(host.rows, scope.rows)
    calls = host.only(inside)
    code = code[inside]
    key = (own[calls.rows] * len(words) + modules[code]) * len(called) + functions[code]
    group, keys = pd.factorize(key)
    if not len(keys):
        return COLUMNS.empty()
    first = np.full(len(line_codes), -1, np.int64)
    first[number[::-1]] = scope.rows[::-1]
    row = first[keys // len(called) // len(words)]
    table = COLUMNS.frame(
        {
            **described(trace, row),
            "module": [str(word) for word in words[keys // len(called) % len(words)]],
            "function": [str(word) for word in called[keys % len(called)]],
            "count": np.bincount(group, minlength=len(keys)),
            "total_ns": covered_by_code(as_ints(group), calls.ts, calls.end, len(keys)),
        }
    )
    return table.sort_values("total_ns", ascending=False, kind="stable").reset_index(drop=True)


def module_of(file: str) -> str:
    """Return the dotted module of an installed file, like ``pandas.core.frame``; empty for the user's own."""
    if _TYPED_IN.fullmatch(file):
        return ""
    if unnamed := _UNNAMED.fullmatch(file):
        return unnamed[1]
    inside = _PACKAGES.match(file)
    if inside is None:
        return ""
    return re.sub(r"(?:[\\/]__init__)?\.pyx?$", "", file[inside.end() :]).replace("\\", ".").replace("/", ".")


IMPORT_COLUMNS: Final = Table.of("imports", "module:str text:str ts:int64 total_ns:int64")


def imports(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """List the modules with a measurable import time, from the recorded Python code.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns; times are cut exactly at its edges.

    Returns
    -------
    DataFrame
        By `total_ns`, longest first; empty without imports, or if they were too short to be sampled.

        - ``module`` str: package or module, like ``pandas``; ``text`` str: the line that led to it;
        - ``ts`` int64 ns: when its import first began;
        - ``total_ns`` int64: time until it was imported, including the modules that it imports.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> find = b.stack([("_find_and_load", "<frozen importlib._bootstrap>", 1)])
    >>> run = b.stack([("<module>", "/lib/site-packages/pandas/__init__.py", 1)], above=find)
    >>> row = dict(name=["cell:2  import pandas", "_find_and_load", "<module>"], stack=[-1, find, run])
    >>> _ = b.slices(ts=[0, 0, 1], dur=[9, 8, 7], category="python", track=b.track("main"), **row)
    >>> imports(b.seal()).values.tolist()
    [['pandas', 'import pandas', 0, 8]]
    """
    host = on_host(trace, window)
    where = frames(trace)
    importlib = np.array([str(file).startswith("<frozen importlib") for file in where.file], dtype=bool)
    begins = (importlib & (where.function == "_find_and_load"))[where.code]
    begins &= (trace.slices["category"] == "python").to_numpy()
    around = outermost(ints(trace.slices["parent"]), begins)[host.rows]
    inside = host.only(around >= 0)
    around = around[around >= 0]
    if not len(around):
        return IMPORT_COLUMNS.empty()
    top = inside.only(inside.rows == around)
    module_of_import = _import_names(trace, inside, around, where)
    code, modules = pd.factorize(
        pd.Series([module_of_import[row] for row in top.rows.tolist()], dtype="object")
    )
    table = IMPORT_COLUMNS.frame(
        {
            "module": [str(module) for module, _ in modules],
            "text": [str(text) for _, text in modules],
            "ts": pd.Series(top.ts).groupby(code).min().to_numpy(),
            "total_ns": covered_by_code(as_ints(code), top.ts, top.end, len(modules)),
        }
    )
    return table.sort_values("total_ns", ascending=False, kind="stable").reset_index(drop=True)


def _import_names(
    trace: Trace, inside: Scope, around: IntArray, where: SourceFrames
) -> dict[int, tuple[str, str]]:
    """Return, for each outermost import, the first module whose top level ran, and the user's line."""
    slices = trace.slices
    top_level = (where.function == "<module>")[where.code[inside.rows]]
    first = pd.Series(inside.rows[top_level]).groupby(around[top_level]).first()
    modules: dict[int, tuple[str, str]] = {}
    # a loop over outermost imports, of which there are few
    for row in dict.fromkeys(around.tolist()):
        file = str(where.file[where.code[int(first[row])]]) if row in first.index else ""
        above = slices["parent"].iloc[row]
        line = None if pd.isna(above) else LINE.fullmatch(str(slices["name"].iloc[int(above)]))
        text = line["text"] if line else ""
        name = module_of(file).split(".")[0] or PurePath(file).stem
        modules[row] = (name or text or "a module", text)
    return modules


_COMPILED: Final = re.compile(r"[<{](?:built-in|method |unknown)|builtins\.")
"""Start of the names of functions that are not in Python files."""

_NAMES: Final = (
    "IPython accelerate aiter apex bitsandbytes cupy dask datasets deepspeed detectron2 diffusers evaluate "
    "fairseq fastai flash_attn flashinfer flax huggingface_hub ignite ipykernel jax jaxlib joblib keras "
    "lightning matplotlib megatron megengine mindspore mmcv mmengine networkx numba numpy optax paddle "
    "pandas peft polars pyarrow pytorch_lightning ray requests safetensors scipy sglang sklearn tensorflow "
    "timm tokenizers torch torchaudio torchmetrics torchvision tornado tqdm traitlets transformer_engine "
    "transformers triton trl vllm wandb xformers"
)
_LIBRARIES: Final = frozenset(_NAMES.split())
"""Packages whose recorded paths may begin with their folder, like ``torch/nn/modules/linear.py``."""

_CALLS: Final = ("operator", "collective", "launch", "sync", "overhead", "memcpy", "memset", "kernel")
"""Categories of library work that may be hidden; ranges, modules and file reads are always shown."""


def is_library_file(file: str) -> bool:
    """Return whether a Python file belongs to the standard library or to an installed package."""
    # PyTorch's profiler shortens paths, so a relative path belongs to a library if its first part is a module
    # of the standard library or a known package.
    if module_of(file):
        return True
    top = re.split(r"[\\/]", file, maxsplit=1)[0].removesuffix(".py")
    return file.endswith(".py") and (top in sys.stdlib_module_names or top in _LIBRARIES)


_OWN_TIME: Final = 0.01
"""Library frames and calls inside others are shown if their name has this share of the host's self time."""


def shown_frames(trace: Trace) -> BoolArray:
    """Return a mask of the slices to show if libraries are folded."""
    # Show lines and functions of files outside libraries, functions without a known file unless compiled,
    # ranges and modules. Of a run of library frames, show the outermost; of library work, the operator or
    # call nearest to the user's code; and of both also those with much self time.
    return once(trace, "shown frames", lambda: _shown_frames(trace)).copy()


def _shown_frames(trace: Trace) -> BoolArray:
    slices = trace.slices
    category = slices["category"]
    python = (category == "python").to_numpy()
    name = slices["name"].cat.codes.to_numpy()
    words = [str(word) for word in slices["name"].cat.categories]
    compiled = np.array([*(_COMPILED.match(word) is not None for word in words), False], dtype=bool)[name]
    where = frames(trace)
    paths = {str(file): bool(file) and is_library_file(str(file)) for file in set(where.file.tolist())}
    installed = np.array([paths[str(file)] for file in where.file], dtype=bool)[where.code]
    passing = np.array(list(map(passes_on, where.function, where.file)), dtype=bool)[where.code]
    library = python & ~is_line(slices) & (installed | compiled)
    call = category.isin(_CALLS).to_numpy()
    # what a slice is to those inside it; library frames are looked through, or those that only pass a call on
    parent = ints(slices["parent"])
    none = np.int8(-1)
    in_call = _nearest(parent, np.where(library, none, call))
    in_library = _nearest(parent, np.where(library & passing, none, library | (category == "module") | call))
    host = on_host(trace)
    own_ns = np.bincount(name[host.rows] + 1, host.self_ns, minlength=len(words) + 1)
    takes_time = (own_ns >= _OWN_TIME * max(own_ns.sum(), 1))[name + 1]
    shown = np.where(call, in_call != 1, ~library | (in_library != 1)) | takes_time
    has_child = np.zeros(len(slices) + 1, dtype=bool)
    has_child[parent] = True
    return np.asarray(shown & ~(library & passing & has_child[:-1]), dtype=bool)


def _nearest(parent: IntArray, kind: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
    """Return the kind of the nearest ancestor whose kind is not -1; -1 without one."""
    kind = inherit(parent, kind) if (kind < 0).any() else kind
    return np.append(kind, np.int8(-1))[parent]
