"""Which slices are the user's own code, and which are library work done for it."""

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
_PACKAGES: Final = frozenset(_NAMES.split())
"""Packages whose recorded paths may begin with their folder, like ``torch/nn/modules/linear.py``."""

_CALLS: Final = ("operator", "collective", "launch", "sync", "overhead", "memcpy", "memset", "kernel")
"""Categories of library work that may be hidden; ranges, modules and file reads are always shown."""


def is_library_file(file: str) -> bool:
    """Return whether a Python file belongs to the standard library or to an installed package.

    >>> [is_library_file(file) for file in ("/venv/site-packages/me.py", "torch/_ops.py", "train.py")]
    [True, True, False]
    """
    # PyTorch's profiler shortens paths, so a relative path belongs to a library if its first part is a module
    # of the standard library or a known package.
    if module_of(file):
        return True
    top = re.split(r"[\\/]", file, maxsplit=1)[0].removesuffix(".py")
    return top in sys.stdlib_module_names or top in _PACKAGES


def my_code(trace: Trace) -> BoolArray:
    """Return a mask of the slices to show if only the user's code is wanted."""
    # Show lines and functions of files outside libraries, functions without a known file unless compiled,
    # ranges and modules. Of library work, show the operator or call nearest to the user's code, but nothing
    # inside it.
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
    # what a slice is to those inside it: 1 a call, 0 user code; library functions (-1) are looked through
    around = np.where(call, 1, np.where(python & ~own, -1, 0))
    parent = ints(slices["parent"])
    nearest = np.append(inherit(parent, around), -1)[parent]
    return np.asarray(np.where(call, nearest != 1, own | ~python), dtype=bool)
