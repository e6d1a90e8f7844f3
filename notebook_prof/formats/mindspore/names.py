"""What MindSpore's names tell: ``Gradients/Default/network-Net/conv1-Conv2d/Conv2D-op93``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

_NUMBER: Final = re.compile(r"-op\d+$")
_GRADIENT: Final = re.compile(r"(?:grad[A-Z]\w*(?:-\w+)*|Grad_\w+|grad_\w+)")
_GRAPHS: Final = ("Gradients", "Default", "recompute_Default")
_FEEDING: Final = (
    "GetNext",
    "InitData",
    "EndOfSequence",
    "DynamicGetNext",
    "PullWeight",
)
_COLLECTIVE: Final = re.compile(
    r"(?:All(?:Reduce|Gather|toAll)\w*|ReduceScatter\w*|Broadcast|NeighborExchange\w*|Send|Receive|Recv|hcom_\w+"
    r"|Alltoall\w*|allreduce_\w+)(?:[-_]|$)"
)


class Parts(NamedTuple):
    """What one full name tells.

    Attributes
    ----------
    name : str
        Last part: the operator with its number.
    type : str
        Without the number.
    module : str
        Dotted path of attributes; empty outside of any module.
    phase : str or None
        None where the name does not tell.
    """

    name: str
    type: str
    module: str
    phase: str | None


def split(full: str) -> Parts:
    """Take a full name apart.

    Parameters
    ----------
    full : str
        Graph, scopes (``attribute-Class``) and operator with ``/`` between them; or the operator alone.

    Returns
    -------
    Parts
        Phase: collectives are communication, queues of data are data, the graph ``Gradients`` is
        backward, what lies in an attribute ``optimizer`` is optimizer, what lies in any other module is
        forward.

    Examples
    --------
    >>> split("Gradients/Default/network-WithLossCell/_backbone-Net/fc1-Dense/gradMatMul-expand/MatMul-op9")
    Parts(name='MatMul-op9', type='MatMul', module='network._backbone.fc1', phase='backward')
    """
    *scopes, name = full.split("/")
    backward = scopes[:1] == ["Gradients"]
    inner = [scope for scope in scopes if scope not in _GRAPHS and not _GRADIENT.fullmatch(scope)]
    attributes = [scope.partition("-")[0] for scope in inner]
    kind = _NUMBER.sub("", name)
    return Parts(name, kind, ".".join(filter(None, attributes)), _phase(kind, attributes, backward))


def is_collective(name: str) -> bool:
    """Return whether an operator moves data between ranks, by its own name.

    Examples
    --------
    >>> is_collective("AllReduce-op534_0"), is_collective("ReduceSum-op1")
    (True, False)
    """
    return _COLLECTIVE.match(name) is not None


def distinct_parts(names: Sequence[str]) -> list[Parts]:
    """Do `split` for each of some distinct names."""
    return [split(name) for name in names]


def _phase(kind: str, attributes: list[str], backward: bool) -> str | None:
    if is_collective(kind):
        return "communication"
    if kind.startswith(_FEEDING):
        return "data"
    if any(attribute.startswith(("optimizer", "_optimizer")) for attribute in attributes):
        return "optimizer"
    if backward:
        return "backward"
    return "forward" if attributes else None
