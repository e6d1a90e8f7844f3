"""Names of memory: what the walk reaches, and what it must not do to the objects of the user's."""

from __future__ import annotations

import ast
import subprocess
import sys
import time
import weakref
from collections import OrderedDict, defaultdict, deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest

from notebook_prof.collectors.system.names.watch import NameWatch, Roots, running_frames, walk_names

MANY = 100_000
UNBOUNDED = 10**12
"""The limit of CPU time of a walk, in ns. The default would make the result depend on the machine."""


def names_of(namespace: dict[str, Any]) -> dict[str, int]:
    """Bytes by name; of the same name added up."""
    table = walk_names(Roots(namespace), UNBOUNDED).buffers
    return table.groupby("name")["bytes"].sum().to_dict()


class Hostile:
    """Counts every call of its own code, and raises."""

    calls: list[str] = []  # noqa: RUF012

    def _refuse(self, *_: Any, **__: Any) -> Any:
        Hostile.calls.append("called")
        raise RuntimeError("code of the user's ran")

    __getattr__ = __len__ = __iter__ = __eq__ = __hash__ = __repr__ = __str__ = __bool__ = _refuse
    __sizeof__ = __getitem__ = __contains__ = __call__ = __reduce_ex__ = __dir__ = _refuse
    __array__ = __array_interface__ = __class__ = value = property(_refuse)  # type: ignore[assignment]


class HostileType(type):
    def _refuse(cls, *_: Any) -> Any:
        Hostile.calls.append("called of the type")
        raise RuntimeError("code of the user's ran")

    __hash__ = __eq__ = __getattribute__ = __instancecheck__ = __repr__ = _refuse  # type: ignore[assignment]
    __dir__ = __len__ = __bool__ = __iter__ = _refuse


class OfHostileType(metaclass=HostileType):
    __module__ = "elsewhere"


class HostileDict(dict):  # type: ignore[type-arg]
    __getitem__ = __iter__ = __len__ = items = keys = values = get = Hostile._refuse  # type: ignore[assignment]
    __sizeof__ = __eq__ = __contains__ = Hostile._refuse  # type: ignore[assignment]


class HostileList(list):  # type: ignore[type-arg]
    __getitem__ = __iter__ = __len__ = __sizeof__ = __eq__ = Hostile._refuse  # type: ignore[assignment]


class HostileArray(np.ndarray):  # type: ignore[type-arg]
    __getattribute__ = __len__ = __getitem__ = __eq__ = Hostile._refuse  # type: ignore[assignment]


class Slots:
    __slots__ = ("inner", "never_set")


@pytest.fixture(autouse=True)
def no_calls() -> Any:
    Hostile.calls.clear()
    yield
    assert Hostile.calls == []


def test_containers_and_attributes_have_names() -> None:
    slots = Slots()
    slots.inner = np.zeros(MANY // 8)
    space = {
        "single": np.zeros(MANY // 8),
        "rows": [np.zeros(1000), {"deep": np.zeros(2000)}],
        "by_key": {"a": np.zeros(10), 3: np.zeros(20), (1, 2): np.zeros(30)},
        "others": (deque([np.zeros(40)]), OrderedDict(x=np.zeros(50)), defaultdict(list, y=[np.zeros(60)])),
        "instance": SimpleNamespace(data=np.zeros(70)),
        "slots": slots,
    }
    names = names_of(space)
    assert names["single"] == MANY
    assert (names["rows[]"], names["rows[]['deep']"]) == (8000, 16000)
    assert (names["by_key['a']"], names["by_key[3]"], names["by_key[]"]) == (80, 160, 240)
    assert (names["others[][]"], names["others[]['x']"], names["others[]['y'][]"]) == (320, 400, 480)
    assert (names["instance.data"], names["slots.inner"]) == (560, MANY)


def test_no_code_of_the_users_runs() -> None:
    hostile = Hostile()
    object.__getattribute__(hostile, "__dict__")["inside"] = np.zeros(100)
    of_type = OfHostileType()
    object.__getattribute__(of_type, "__dict__")["inside"] = np.zeros(200)
    mapping, sequence = HostileDict(), HostileList()
    dict.__setitem__(mapping, "inside", np.zeros(300))
    list.append(sequence, np.zeros(400))
    array = np.ndarray.__new__(np.ndarray, 500)
    view = array.view(HostileArray)
    names = names_of({"a": hostile, "b": of_type, "c": mapping, "d": sequence, "e": view, "f": Mock()})
    assert names == {"a.inside": 800, "b.inside": 1600, "c['inside']": 2400, "d[]": 3200, "e": 4000}


def test_properties_and_lazy_attributes_are_not_asked() -> None:
    class Lazy:
        def __init__(self) -> None:
            self.real = np.zeros(100)

        @property
        def __dict__(self) -> Any:  # type: ignore[override]
            Hostile.calls.append("__dict__")
            return {"wrong": np.zeros(10)}

        @property
        def large(self) -> Any:
            Hostile.calls.append("large")
            return np.zeros(1000)

    assert names_of({"lazy": Lazy()}) == {"lazy": 800}


def test_cycles_proxies_and_long_chains_end() -> None:
    class Node:
        next: Any = None

    first = node = Node()
    for _ in range(2000):
        node.next = Node()
        node = node.next
    node.next, node.data = first, np.zeros(100)  # type: ignore[attr-defined]
    whole: list[Any] = [first]
    whole.append(whole)
    names = names_of({"whole": whole, "proxy": weakref.proxy(node), "reference": weakref.ref(node)})
    assert sum(names.values()) >= 800
    assert max(map(len, names)) < 200


def test_shared_buffers_count_once() -> None:
    base = np.zeros(MANY)
    overlapping = np.lib.stride_tricks.sliding_window_view(base, 100)
    space = {"base": base, "view": base[5:], "windows": overlapping, "again": base, "wide": base[None]}
    table = walk_names(Roots(space)).buffers
    assert table[["name", "bytes"]].values.tolist() == [["base", 8 * MANY]]
    assert set(table["kept_by"][0].split(", ")) == {"view", "windows", "again", "wide"}


def test_mapped_files_are_no_memory(tmp_path: Any) -> None:
    np.save(tmp_path / "x.npy", np.zeros(1000))
    table = walk_names(Roots({"x": np.load(tmp_path / "x.npy", mmap_mode="r")})).buffers
    assert table["kind"].tolist() == ["file"]


def test_frames_by_column() -> None:
    frame = pd.DataFrame({"f": np.zeros(MANY), "g": np.ones(MANY), "i": np.arange(MANY)})
    frame["m"] = pd.array([1, None] * (MANY // 2), dtype="Int64")
    frame["o"] = pd.Series([f"text {i}" for i in range(MANY)], dtype="object")
    names = names_of({"frame": frame, "part": frame["i"]})
    assert names["frame[f, g]"] == 16 * MANY
    assert names["frame[i]"] == 8 * MANY
    assert names["frame[m]"] == 9 * MANY
    texts = sum(size for name, size in names.items() if name.startswith("frame[o]"))
    assert texts == pytest.approx(sum(map(sys.getsizeof, frame["o"])) + 8 * MANY, rel=0.05)
    assert not any(name.startswith("part") for name in names)


def test_arrow_by_column() -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"a": np.arange(MANY), "s": ["x" * 10] * MANY})
    names = names_of({"table": table, "part": table.slice(10, 100)})
    assert names == {"table[a]": 8 * MANY, "table[s]": 10 * MANY + 4 * (MANY + 1)}


def test_large_python_containers_are_sized_by_a_sample() -> None:
    numbers, texts = list(range(1000, 1000 + MANY)), {f"key {i}": float(i) for i in range(MANY)}
    names = names_of({"numbers": numbers, "texts": texts, "long": "x" * MANY, "small": [1, 2]})
    assert names["numbers[]"] == pytest.approx(sys.getsizeof(numbers) + 28 * MANY, rel=0.02)
    exact = sys.getsizeof(texts) + sum(map(sys.getsizeof, texts)) + 24 * MANY
    assert names["texts"] == pytest.approx(exact, rel=0.05)
    assert names["long"] == sys.getsizeof("x" * MANY)
    assert "small[]" not in names


@pytest.mark.clock("how many objects are visited in 30 ms of CPU time, and how long letting go takes")
def test_a_walk_ends_in_time_and_tells_what_it_left() -> None:
    class Row:
        def __init__(self) -> None:
            self.parts = [[]]  # type: ignore[var-annotated]

    rows = [Row() for _ in range(400_000)]
    begun = time.thread_time_ns()
    walked = walk_names(Roots({"rows": rows, "last": np.zeros(1000)}))
    spent = time.thread_time_ns() - begun
    assert 300_000 < walked.facts["left"] + walked.facts["objects"] / 3 < 900_000
    assert "rows[]" in walked.facts["left_names"]
    assert "last" in walked.buffers["name"].tolist(), "a large container waits for its turn"
    assert walked.facts["walk_ns"] < 60_000_000
    assert spent < 200_000_000  # what was visited is let go of too


def test_a_list_that_grows_while_it_is_walked_ends() -> None:
    calls: list[list[str]] = []

    def note(frame: Any, event: str, argument: Any) -> None:
        if len(calls) < MANY:
            calls.append([event])

    sys.setprofile(note)  # as a profiler that the cell leaves at work
    try:
        walked = walk_names(Roots({"calls": calls}), UNBOUNDED)
    finally:
        sys.setprofile(None)
    assert walked.facts["objects"] < MANY / 10


def test_locals_of_functions_that_run() -> None:
    space: dict[str, Any] = {"__name__": "__main__", "walk": lambda: walk_names(space_roots())}

    def space_roots() -> Roots:
        return Roots(space, running_frames(space))

    source = """
import numpy as np
def train():
    inside = np.zeros(1000)
    def inner():
        deeper = inside[:10]
        return walk()
    return inner()
def looks():
    hidden, names = np.zeros(500), locals()
    walked = walk()
    return walked, sorted(names)
result = train()
"""
    exec(source, space)
    names = space["result"].buffers.set_index("name")["kept_by"].to_dict()
    assert names["in inner › deeper"] == "in inner › inside, in train › inside, in train › inner()"
    space.pop("result")
    if sys.version_info < (3, 13):  # reading its locals would change the dict that it holds
        exec("result, own = looks()", space)
        assert space["own"] == []
        assert space["result"].facts["frames_left"] == 1


def test_new_is_what_was_not_named_before() -> None:
    space: dict[str, Any] = {"old": np.zeros(1000), "replaced": np.zeros(10)}
    watch = NameWatch(lambda: Roots(space))
    watch.before()
    space |= {"replaced": np.zeros(20), "new": np.zeros(30), "alias": space["old"]}
    walked = watch.now()
    assert walked is not None
    assert walked.buffers.set_index("name")["earlier"].to_dict() == {"old": 1, "replaced": 0, "new": 0}


def test_a_failure_is_reported_and_raises_nothing() -> None:
    def fail() -> Roots:
        raise OSError("no names")

    watch = NameWatch(fail)
    watch.before()
    assert watch.now() is None
    assert "names-failed" in watch.report


def test_names_of_a_with_block(tmp_path: Path) -> None:
    """A script's variables: of its main module, of functions that run, and of those that failed."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, weakref\n"
        "import numpy as np\n"
        "import notebook_prof as nbp\n"
        "acts = []\n"
        "def train():\n"
        "    local = np.ones(300_000)\n"
        "    with nbp.profile('python') as p:\n"
        "        acts.append(np.ones(100_000))\n"
        "    return p\n"
        "def fail():\n"
        "    lost = np.ones(200_000)\n"
        "    fail.seen = weakref.ref(lost)\n"
        "    raise MemoryError('no room')\n"
        "p = train()\n"
        "try:\n"
        "    with nbp.profile('python') as q:\n"
        "        fail()\n"
        "except MemoryError:\n"
        "    pass\n"
        "q.trace\n"
        "with nbp.profile('python', memory=False) as r:\n"
        "    pass\n"
        "for one in (p, q, r):\n"
        "    names = one.memory.names().dropna(subset=['name'])\n"
        "    print(dict(zip(names['name'], names['bytes'].astype(int))))\n"
        "print(p.memory.left_behind()['name'].tolist(), fail.seen())\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    first, second, third, last = done.stdout.splitlines()
    assert ast.literal_eval(first) == {"in train › local": 2_400_000, "acts[]": 800_000}
    sizes = ast.literal_eval(second).items()
    assert [size for name, size in sizes if name.startswith("traceback: fail:")] == [1_600_000]
    assert third == "{}"
    assert last == "['acts'] None"
