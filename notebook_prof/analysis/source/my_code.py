"""Which slices are the user's own code, and which are what libraries do for it."""

from __future__ import annotations

import re
import sys
from typing import Final

import numpy as np

from ...trace import Trace, inherit
from ...trace.arrays import BoolArray
from ...trace.source_lines import is_line
from ..scope import ints, once
from .frames import frames
from .line_calls import module_of

"""Files of code that was typed in."""

_COMPILED: Final = re.compile(r"[<{](?:built-in|method |unknown)|builtins\.")
"""Beginnings of names of functions that no file of Python holds."""

_NAMES: Final = (
    "IPython accelerate aiter apex bitsandbytes cupy dask datasets deepspeed detectron2 diffusers evaluate "
    "fairseq fastai flash_attn flashinfer flax huggingface_hub ignite ipykernel jax jaxlib joblib keras "
    "lightning matplotlib megatron megengine mindspore mmcv mmengine networkx numba numpy optax paddle "
    "pandas peft polars pyarrow pytorch_lightning ray requests safetensors scipy sglang sklearn tensorflow "
    "timm tokenizers torch torchaudio torchmetrics torchvision tornado tqdm traitlets transformer_engine "
    "transformers triton trl vllm wandb xformers"
)
_PACKAGES: Final = frozenset(_NAMES.split())
"""Packages that recordings write with paths from their own folder on, as ``torch/nn/modules/linear.py``."""

_CALLS: Final = ("operator", "collective", "launch", "sync", "overhead", "memcpy", "memset", "kernel")
"""Categories of what a library does; ranges, modules and reading files are shown as they are."""


def is_library_file(file: str) -> bool:
    """Return whether a file of Python belongs to the standard library or to an installed package.

    A path that begins with neither a drive nor a slash is that of a library where its first part is a module
    of the standard library or a package that is known by name: PyTorch's profiler cuts paths there.

    Examples
    --------
    >>> [is_library_file(file) for file in ("/venv/lib/python3.12/site-packages/me.py", "torch/_ops.py")]
    [True, True]
    >>> [is_library_file(file) for file in ("/home/me/train.py", "train.py", "<ipython-input-3-ab>")]
    [False, False, False]
    """
    if module_of(file):
        return True
    top = re.split(r"[\\/]", file, maxsplit=1)[0].removesuffix(".py")
    return top in sys.stdlib_module_names or top in _PACKAGES


def my_code(trace: Trace) -> BoolArray:
    """Return which slices to show where only the user's own code is asked for.

    Returns
    -------
    ndarray of bool, shape (slices,)
        Lines and functions of files that no library holds, by `is_library_file`, and functions whose file is
        not known unless they are compiled; ranges and modules; and of what libraries do, the operator or
        call that is nearest to the user's code: not what runs inside it.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> names = ["train.py(3): fit", "torch/nn/functional.py(9): linear", "aten::linear", "aten::mm"]
    >>> kinds = ["python", "python", "operator", "operator"]
    >>> _ = b.slices(ts=[0, 1, 2, 3], dur=[9, 7, 5, 3], name=names, category=kinds, track=b.track("main"))
    >>> my_code(b.seal()).tolist()
    [True, False, True, False]
    """
    return once(trace, "my code", lambda: _my_code(trace)).copy()


def _my_code(trace: Trace) -> BoolArray:
    slices = trace.slices
    category = slices["category"]
    python = (category == "python").to_numpy()
    name = slices["name"].cat.codes.to_numpy()
    words = [str(word) for word in slices["name"].cat.categories]
    line = is_line(slices)
    compiled = np.array([*(_COMPILED.match(word) is not None for word in words), False], dtype=bool)[name]
    where = frames(trace)
    paths = {str(file): bool(file) and is_library_file(str(file)) for file in set(where.file.tolist())}
    installed = np.array([paths[str(file)] for file in where.file], dtype=bool)[where.code]
    own = python & (line | ~(installed | compiled))
    call = category.isin(_CALLS).to_numpy()
    # what is around a slice: 1 a call, 0 the user's; functions of libraries are looked through
    around = np.where(call, 1, np.where(python & ~own, -1, 0))
    parent = ints(slices["parent"])
    nearest = np.append(inherit(parent, around), -1)[parent]
    return np.asarray(np.where(call, nearest != 1, own | ~python), dtype=bool)
