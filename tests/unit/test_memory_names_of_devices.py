"""Names of arrays of CuPy and JAX: of stand-ins with their attributes, and of JAX where it is installed."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import notebook_prof as nbp
from notebook_prof.collectors.system.names.watch import NameWatch, Roots, levels, put_names, walk_names
from notebook_prof.trace import TraceBuilder

MIB = 1 << 20


class Memory:
    """A block of CuPy's pool."""

    def __init__(self, ptr: int, size: int, device_id: int = 0) -> None:
        self.ptr, self.size, self.device_id = ptr, size, device_id


class _ndarray_base:
    """Stands for CuPy's: an offset into a block of memory."""

    def __init__(self, mem: Memory, shape: tuple[int, ...], offset: int = 0) -> None:
        self._data = SimpleNamespace(mem=mem, ptr=mem.ptr + offset)
        self._shape = shape

    data = property(lambda self: self._data)
    dtype = property(lambda self: np.dtype("float32"))
    shape = property(lambda self: self._shape)


_ndarray_base.__module__ = "cupy._core.core"


class Mine(_ndarray_base):
    """A user's subclass, whose attributes are not asked."""

    note: Any

    @property
    def data(self) -> Any:
        raise AssertionError("code of the user's ran")


class ArrayImpl:
    """Stands for JAX's: a buffer on each of its devices."""

    def __init__(
        self, buffers: list[tuple[int, int, int]], *, deleted: bool = False, ready: bool = True
    ) -> None:
        self.buffers, self.deleted, self.ready = buffers, deleted, ready

    dtype = property(lambda self: np.dtype("float32"))
    shape = property(lambda self: (2, 3))
    _arrays = property(lambda self: [ArrayImpl([one], ready=self.ready) for one in self.buffers])

    def is_deleted(self) -> bool:
        return self.deleted

    def is_ready(self) -> bool:
        return self.ready

    def devices(self) -> set[Any]:
        return {_Device("cuda", device) for device, _, _ in self.buffers}

    def unsafe_buffer_pointer(self) -> int:
        assert self.ready, "it would have to be waited for"
        return self.buffers[0][1]

    def on_device_size_in_bytes(self) -> int:
        return self.buffers[0][2]


ArrayImpl.__module__ = "jaxlib._jax"


class _Device:
    def __init__(self, platform: str, number: int) -> None:
        self.platform, self.local_hardware_id = platform, number


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """CuPy with 6 MiB on device 0, 2 of them free in its pool; JAX with 3 MiB on device 1, 1 of them free."""
    pool = SimpleNamespace(total_bytes=lambda: 6 * MIB, used_bytes=lambda: 4 * MIB)
    runtime = SimpleNamespace(getDeviceCount=lambda: 1, memGetInfo=lambda: (70 * MIB, 80 * MIB))
    cupy: Any = ModuleType("cupy")
    cupy.cuda = SimpleNamespace(runtime=runtime, Device=nullcontext)
    cupy.get_default_memory_pool = lambda: pool
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    bridge: Any = ModuleType("jax._src.xla_bridge")
    device: Any = _Device("cuda", 1)
    device.memory_stats = lambda: {"bytes_in_use": 2 * MIB, "pool_bytes": 3 * MIB}
    bridge._backends = {
        "cuda": SimpleNamespace(local_devices=lambda: [device]),
        "cpu": SimpleNamespace(local_devices=lambda: pytest.fail("the host is not asked")),
    }
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", bridge)


@pytest.mark.usefixtures("libraries")
def test_arrays_on_devices_have_names_and_add_up_to_what_is_used() -> None:
    block = Memory(0x1000, MIB)
    subclassed = Mine(Memory(0x900000, 2 * MIB), (512, 1024))
    subclassed.note = [np.zeros(10)]
    space = {
        "x": _ndarray_base(block, (512, 512)),
        "view": _ndarray_base(block, (10,), 64),
        "mine": subclassed,
        "params": {"w": ArrayImpl([(1, 0x5000, MIB)])},
        "both": ArrayImpl([(0, 0xF00000, MIB // 2), (1, 0xB00000, MIB // 2)]),
        "donated": ArrayImpl([(1, 0x5000, MIB)], deleted=True),
    }
    b = TraceBuilder()
    b.slices(ts=0, dur=1, name="x", track=b.track("main"))
    put_names([NameWatch(lambda: Roots(space)).now()] * 2, b)
    table = nbp.Profile(b.seal()).memory.names()
    named = table[table["name"].notna() & (table["device"] >= 0)].set_index(["name", "device"])["bytes"]
    assert named.to_dict() == {
        ("mine", 0): 2 * MIB, ("x", 0): MIB, ("both", 0): MIB // 2,
        ("params['w']", 1): MIB, ("both", 1): MIB // 2,
    }  # fmt: skip
    assert table.set_index("name").loc["x", ["kind", "type", "kept_by"]].tolist() == [
        "array", "float32[512, 512]", "view",
    ]  # fmt: skip
    assert ("mine.note[]", -1) in set(zip(table["name"], table["device"], strict=True))
    used = table.groupby("device")["bytes"].sum()
    assert (used[0], used[1]) == (10 * MIB, 3 * MIB), "named + unnamed + cached + outside = used"
    remaining = table[table["name"].isna()].set_index(["device", "kind"])["bytes"]
    assert remaining[0].to_dict() == {"unnamed": MIB // 2, "cached": 2 * MIB, "outside": 4 * MIB}
    assert (remaining[1, "unnamed"], remaining[1, "cached"]) == (MIB // 2, MIB)


@pytest.mark.usefixtures("libraries")
def test_an_array_that_is_being_computed_is_not_waited_for() -> None:
    table = walk_names(Roots({"x": ArrayImpl([(1, 0x5000, MIB)], ready=False)})).buffers
    assert table[["name", "bytes", "device"]].values.tolist() == [["x", MIB, 1]]


def test_libraries_that_are_not_there_or_fail_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cupy", "jax._src.xla_bridge"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    plain = {row["device"] for row in levels()}
    monkeypatch.setitem(sys.modules, "cupy", ModuleType("cupy"))
    assert {row["device"] for row in levels()} == plain


def test_arrays_of_jax_on_the_host() -> None:
    jax = pytest.importorskip("jax")
    x = jax.numpy.zeros((256, 1024)).block_until_ready()
    space = {"x": x, "params": {"w": jax.numpy.ones(1 << 16)}, "view": np.asarray(x)}
    space["key"] = jax.random.key(0)
    table = walk_names(Roots(space)).buffers.set_index("name")
    assert table.loc["x", ["bytes", "device", "type"]].tolist() == [MIB, -1, "float32[256, 1024]"]
    assert table.loc["x", "kept_by"] == "view"
    assert table.loc["params['w']", "bytes"] == 1 << 18
    double = jax.jit(lambda a: a * 2, donate_argnums=0)
    donated = jax.numpy.zeros((256, 1024)).block_until_ready()
    again = walk_names(Roots({"new": double(donated).block_until_ready(), "old": donated})).buffers
    assert again["name"].tolist() == ["new"]
