"""Metadata of single activities, as a live recording gives them, into what a file's arguments become."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from ...trace.strings import Coded
from .activity_metadata import extra_text
from .coding import Numbers
from .event_types import NO_ARGUMENTS, UNDECODABLE, AllArguments, extra_of

_CHUNK: Final = 4096
_decoder: Final = msgspec.json.Decoder(AllArguments)
_decoder_of_many: Final = msgspec.json.Decoder(list[AllArguments])


class Told(NamedTuple):
    """What was told.

    Attributes
    ----------
    extra : Coded
        As `KinetoColumns.extra`.
    unreadable : int
        Texts that were no such JSON; code -1.
    """

    extra: Coded
    unreadable: int


def told(texts: Sequence[str]) -> Told:
    """Read what activities tell beyond their times.

    Parameters
    ----------
    texts : sequence of str
        Members of a JSON object each, without its braces, in the words of Kineto's files.

    Examples
    --------
    >>> told(['"bytes": 8, "graph id": 0', '', 'no json', '"bytes": 8'])
    Told(extra=Coded(codes=array([ 0, -1, -1,  0]), values=['{"bytes":8}']), unreadable=1)
    """
    distinct, lost = Numbers(), 0
    codes = np.empty(len(texts), np.int64)
    for start in range(0, len(texts), _CHUNK):
        part = ["{" + text + "}" for text in texts[start : start + _CHUNK]]
        try:
            read: list[AllArguments] = _decoder_of_many.decode("[" + ",".join(part) + "]")
        except UNDECODABLE:
            read = list(_one_by_one(part))
            lost += sum(one is NO_ARGUMENTS for one in read)
        codes[start : start + len(part)] = distinct.column(map(extra_of, read), len(part))
    values = Numbers({"": 0})
    lookup = values.column(map(extra_text, distinct), len(distinct)) - 1
    return Told(Coded(lookup[codes].astype(np.int64), list(values)[1:]), lost)


def _one_by_one(texts: list[str]) -> Iterator[AllArguments]:
    for text in texts:
        try:
            yield _decoder.decode(text)
        except UNDECODABLE:
            yield NO_ARGUMENTS
