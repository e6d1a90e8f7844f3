"""Short names for display. Selections use the full names."""

from __future__ import annotations

import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from .kernels import base_of, kernel_label, without_suffix

MOST_LABELLED: Final = 100_000
STEP_MARKS: Final = ("ProfilerStep#", "ProfileStep#")
"""Prefixes of the ranges that PyTorch's and Paddle's profilers record around steps."""
EVALUATES: Final = "autograd::engine::evaluate_function: "
_NAMESPACES: Final = (
    "aten::", "torch::autograd::", "prims::", "prim::", "_c10d_functional::", "c10d::", "torch::",
)  # fmt: skip
_MODULE: Final = re.compile(r"^nn\.Module: (.+)_(\d+)$")
_FRAME: Final = re.compile(r"(\d+)\): (.+)")
_BUILT_IN: Final = re.compile(
    r"^<built-in (?:function|method) (\S*?)(?: of (?:type )?(\S+?)(?: object)?(?: at 0x\w+)?)?>$"
)
_WRITTEN_ADDRESS: Final = re.compile(r"(?: 0x[0-9a-fA-F]+)+$")
_ADDRESS: Final = re.compile(r" at (0x[0-9a-fA-F]+)(?=>)")
_GRAPH: Final = re.compile(r"^## Call CompiledFxGraph (\w+) ##$")
_KERNEL_RANGE: Final = re.compile(r"^## inductor_kernel:(\w+):\d+ ##$")
_OF_INDUCTOR: Final = re.compile(r"^(.+) \((c[a-z2-7]{51})\.py\)$")
_CPP_FUSED: Final = re.compile(r"^cpp_fused_(\w+?)_(\d+)$")
_COPY: Final = re.compile(r"^Memcpy (\w+) \((\w+) -> (\w+)\)$")
_CPP: Final = re.compile(r"^void |^[\w:]+(?:<.*>|::\w+)?\(.*\)$|^[\w:]+<.*>$")
_AS_KERNEL: Final = re.compile(r"^void |^triton_|^nccl(?:Dev)?Kernel|^Cijk_|_s?gemm_|^cutlass|^cudnn::|\.kd$")
_NUMBERS: Final = re.compile(r"(?:[#_.]+\d+)+$")
_TOKEN: Final = re.compile(r"[\w.+-]+")
_LONGEST_WHOLE: Final = 40
_LONGEST_DIFFERING: Final = 28


def variants(name: str, kernel: bool = False) -> tuple[str, ...]:
    """Return the forms of a name, the shortest first and the full name last."""
    # `kernel`: whether it ran on a device.
    text = " ".join(name.split()) if "\n" in name else name
    return tuple(dict.fromkeys((*_shorter(text, kernel), name)))


def _shorter(name: str, kernel: bool) -> Iterable[str]:
    if name.startswith(EVALUATES):
        inner = variants(name.removeprefix(EVALUATES))[0]
        return inner, f"evaluate {inner}"
    for namespace in _NAMESPACES:
        if name.startswith(namespace) and "(" not in name and "<" not in name:
            return (name.removeprefix(namespace),)
    if module := _MODULE.match(name):
        return (f"{module.group(2)} {module.group(1)}",)
    if copy := _COPY.match(name):
        kind, ends = copy.group(1), {copy.group(2), copy.group(3)} & {"Pinned", "Pageable"}
        return (f"memcpy {kind}" + "".join(f" {end.lower()}" for end in sorted(ends)),)
    if name == "Memset (Device)":
        return ("memset",)
    if compiled := _compiled(name):
        return compiled
    path, python, behind = name.partition(".py(")
    frame = _FRAME.fullmatch(behind) if python else None
    if frame:
        line, function = frame.groups()
        file = re.split(r"[/\\]", path)[-1] + ".py"
        return f"{function} ({file})", f"{function} ({file}:{line})", f"{function} ({path}.py:{line})"
    if built_in := _BUILT_IN.match(name):
        function, owner = built_in.groups()
        owner = "" if owner and owner.startswith("pybind11_") else owner
        return (f"{owner}.{function}" if owner else function or "built-in method",)
    if kernel or _AS_KERNEL.search(name):
        return _kernel(name, kernel)
    return ()


def _compiled(name: str) -> tuple[str, ...]:
    """Return the forms of Inductor's names for its graphs, modules and C++ kernels."""
    if graph := _GRAPH.match(name):
        return "compiled graph", f"compiled graph {graph.group(1)[:8]}"
    if kernel := _KERNEL_RANGE.match(name):
        return tuple(f"range of {way}" for way in variants(kernel.group(1)))
    if module := _OF_INDUCTOR.match(name):
        return f"{module.group(1)} (compiled)", f"{module.group(1)} ({module.group(2)[:8]}….py)"
    if kernel := _CPP_FUSED.match(name):
        return (f"cpp {kernel.group(1).replace('_', ' ')} {kernel.group(2)}",)
    return ()


def _kernel(name: str, kernel: bool) -> Iterable[str]:
    if label := kernel_label(name):
        return (" ".join(part for part in label if part),)
    if _CPP.search(name):
        base = base_of(name)
        return without_suffix(base), base
    return (without_suffix(name),) if kernel else ()


def short_names(names: Sequence[str], kernels: Iterable[bool] | None = None) -> list[str]:
    """Return a distinct label for every name."""
    # Equal labels are distinguished by the next longer form, then by the words in which the names differ,
    # finally by a number; a method's names that differ only in an object's address, by the address. `names`
    # are distinct; names after the first 100,000 keep their full form.
    first = list(names[:MOST_LABELLED])
    flags = [False] * len(first) if kernels is None else list(kernels)[: len(first)]
    bare = [_ADDRESS.sub("", name) if " at 0x" in name else name for name in first]
    times = Counter(bare)
    label_of = dict(
        zip(times, _distinct_labels(list(times), dict(zip(bare, flags, strict=True)), names), strict=True)
    )
    labels = [
        " ".join([label_of[own], *_ADDRESS.findall(name)]) if times[own] > 1 else label_of[own]
        for own, name in zip(bare, first, strict=True)
    ]
    return labels + list(names[MOST_LABELLED:])


def _distinct_labels(first: list[str], kernels: Mapping[str, bool], names: Sequence[str]) -> list[str]:
    """Return distinct labels for some names, which also differ from names without a label."""
    flags = [kernels[name] for name in first]
    ways = [variants(name, flag) for name, flag in zip(first, flags, strict=True)]
    level = [0] * len(first)
    labels = [way[0] for way in ways]
    reserved = set(names[MOST_LABELLED:])
    while True:
        groups: dict[str, list[int]] = defaultdict(list)
        for at in range(len(labels)):
            groups[labels[at]].append(at)
        undecided = [
            at for label, group in groups.items() if len(group) > 1 or label in reserved for at in group
        ]
        moved = False
        for at in undecided:
            whole = len(names[at]) <= _LONGEST_WHOLE and not flags[at]  # a kernel's says less than its label
            last = len(ways[at]) - (1 if whole else 2)
            if level[at] < last:
                level[at] += 1
                labels[at] = ways[at][level[at]]
                moved = True
        if not moved:
            break
    _tell_apart(first, labels, groups, reserved)
    return labels


def _tell_apart(
    names: Sequence[str], labels: list[str], groups: dict[str, list[int]], reserved: set[str]
) -> None:
    """Extend shared labels by the words in which their names differ, or by a number."""
    used = {label for label, group in groups.items() if len(group) == 1} | reserved
    for label, group in groups.items():
        if len(group) == 1 and label not in reserved:
            continue
        words = [list(dict.fromkeys(_TOKEN.findall(names[at]))) for at in group]
        frequency = Counter(word for own in words for word in own)
        for at, own in zip(group, words, strict=True):
            if names[at] == label and label not in reserved:
                used.add(label)
                continue
            differing = _rarest(own, frequency, len(group))
            text = f"{label} ({differing})" if differing else label
            unique, number = text, 1
            while unique in used:
                number += 1
                unique = f"{text} #{number}"
            used.add(unique)
            labels[at] = unique


def _rarest(words: Sequence[str], frequency: Counter[str], of: int) -> str:
    """Return the words that the fewest names have, as many as fit, in their original order."""
    room, kept = _LONGEST_DIFFERING, set[str]()
    for word in sorted(words, key=frequency.__getitem__):
        if frequency[word] < of and len(word) < room:
            kept.add(word)
            room -= len(word) + 1
    return " ".join(word for word in words if word in kept)


def family(name: str, kernel: bool = False) -> str:
    """Return a name's family: equal for all sizes, element types, numbers and in-place forms."""
    if module := _MODULE.match(name):
        return module.group(1)
    label = kernel_label(name) if kernel or _AS_KERNEL.search(name) else None
    text = label[0] if label else variants(name, kernel)[0]
    return _NUMBERS.sub("", text).rstrip("_ ") or text


def merged_name(name: str) -> str:
    """Return the name under which tables count a slice, without the number of a step or an address."""
    # PyTorch's ``key_averages()`` writes ranges around steps so. A method of several objects is one function.
    if name.startswith(STEP_MARKS):
        return f"{name.partition('#')[0]}*"
    return _ADDRESS.sub("", name) if " at 0x" in name else name


def merged_label(merged: str, label: str) -> str:
    """Return the label of a merged name, given the label of one of its names."""
    return _WRITTEN_ADDRESS.sub("", label) if merged.endswith(">") else merged


def family_code(text: str) -> int:
    """Return a number for a family that is equal in every recording, run and process (CRC-32)."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


_BACKWARD: Final = re.compile(r"^\w+Backward\d*$")
_THREAD: Final = re.compile(r"^[Tt]hread (-?\d+)(?: \((.+)\))?$")
_STREAM: Final = re.compile(r"^(?:GPU|NPU) \d+ (stream .+|.*\D.*)$")
_PROGRAMS: Final = re.compile(r"^python[\d.]*$|^ipykernel", re.I)


def evaluates(name: str) -> bool:
    """Return whether autograd's engine runs an operator of this name, such as ``AddmmBackward0``."""
    return name.startswith(EVALUATES) or _BACKWARD.match(name) is not None


def track_label(name: str, pid: int = -1, tid: int = -1, autograd: bool = False) -> str:
    """Return a track's label, below a heading that names its process or device."""
    # `pid` and `tid` are -1 if unknown. `autograd`: whether its engine runs the backward pass there.
    if stream := _STREAM.match(name):
        return stream.group(1)
    thread = _THREAD.match(name)
    program = (thread.group(2) or "") if thread else ""
    if name == "MainThread" or program == "pt_main_thread" or (thread and pid >= 0 and pid == tid):
        return "main"
    if program.startswith("pt_"):
        return program.removeprefix("pt_").replace("_", " ")
    if not thread:
        return name
    if autograd:
        return "autograd"
    return (
        f"{program} {thread.group(1)}"
        if program and not _PROGRAMS.match(program)
        else f"thread {thread.group(1)}"
    )
