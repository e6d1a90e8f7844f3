"""Matches NVML's GPUs to CUDA's numbers by UUID, since the two count in different orders."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..devices import driver


@dataclass(slots=True)
class Card:
    """A GPU, or a MIG slice of one."""

    handle: Any  # NVML's
    uuid: str  # as NVML spells it; empty if unknown
    name: str
    number: int = -1  # CUDA's, as far as known

    @property
    def key(self) -> str:
        """The 32 digits of the UUID, which CUDA also reports."""
        return _digits(self.uuid)


def _digits(uuid: str) -> str:
    return uuid.partition("-")[2].replace("-", "").lower()


def cuda_uuids(load: Callable[[str], Any] = ctypes.CDLL) -> list[str] | None:
    """Return the digits of the UUIDs in CUDA's order. Does not initialise CUDA; returns None if that has not
    been done."""
    cuda, count = driver(load), ctypes.c_int()
    if cuda is None or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return None
    ask = getattr(cuda, "cuDeviceGetUuid_v2", None) or getattr(cuda, "cuDeviceGetUuid", None)
    uuids = []
    for number in range(count.value):
        device, raw = ctypes.c_int(), (ctypes.c_ubyte * 16)()
        if ask is None or cuda.cuDeviceGet(ctypes.byref(device), number) or ask(ctypes.byref(raw), device):
            return None
        uuids.append(bytes(raw).hex())
    return uuids


def visible(nvml: Any) -> tuple[list[Card], bool]:
    """Return the GPUs that ``CUDA_VISIBLE_DEVICES`` allows, and whether their numbers are certain to be
    CUDA's."""
    # CUDA puts the fastest GPU first, NVML follows the PCI bus. With different models, numbers are known only
    # if the variable names UUIDs or ``CUDA_DEVICE_ORDER`` asks for bus order. Otherwise all GPUs are
    # returned, so that none is missing once CUDA is initialised.
    cards = [_card(nvml, nvml.nvmlDeviceGetHandleByIndex(i)) for i in range(nvml.nvmlDeviceGetCount())]
    alike = len({card.name for card in cards}) <= 1 or os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    variable = os.environ.get("CUDA_VISIBLE_DEVICES")
    chosen = cards if variable is None else _chosen(nvml, cards, variable)
    by_uuid = variable is not None and not any(_is_number(word) for word in variable.split(","))
    sure = alike or by_uuid or not chosen
    if not sure:
        chosen = cards
    for number, card in enumerate(chosen):
        card.number = number
    return chosen, sure


def _chosen(nvml: Any, cards: list[Card], variable: str) -> list[Card]:
    """Return the GPUs in the order of the variable. CUDA ignores everything from the first invalid entry
    on."""
    chosen: list[Card] = []
    for word in (part.strip() for part in variable.split(",")):
        if _is_number(word):
            matches = cards[int(word) : int(word) + 1] if int(word) >= 0 else []
        else:
            matches = _named(nvml, cards, word)
        if len(matches) != 1 or matches[0] in chosen:
            break
        chosen += matches
    return chosen


def _is_number(word: str) -> bool:
    return word.strip().lstrip("-").isdigit()


def _named(nvml: Any, cards: list[Card], word: str) -> list[Card]:
    """Return the GPUs or slices whose UUID begins with `word`, since CUDA accepts prefixes."""
    if not word:
        return []
    if not word.startswith("GPU-"):
        cards = [each for card in cards for each in _slices(nvml, card)]
    matches = [card for card in cards if card.uuid.startswith(word)]
    if matches or not hasattr(nvml, "nvmlDeviceGetHandleByUUID"):
        return matches
    try:  # MIG-GPU-<uuid>/<instance>/<instance>, as older drivers name slices
        return [_card(nvml, nvml.nvmlDeviceGetHandleByUUID(word.encode()))]
    except nvml.NVMLError:
        return []


def _slices(nvml: Any, card: Card) -> list[Card]:
    slices = []
    try:
        for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(card.handle)):
            slices.append(_card(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex(card.handle, number)))
    except (nvml.NVMLError, AttributeError):
        pass  # no further slice, or none at all
    return slices


def _card(nvml: Any, handle: Any) -> Card:
    return Card(handle, _told(nvml, "nvmlDeviceGetUUID", handle), _told(nvml, "nvmlDeviceGetName", handle))


def _told(nvml: Any, name: str, handle: Any) -> str:
    try:
        value = getattr(nvml, name)(handle)
    except (nvml.NVMLError, AttributeError):
        return ""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
