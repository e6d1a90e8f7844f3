"""The machine, DataLoaders and imports, as a recording tells them."""

import sys
from pathlib import Path
from typing import Any

import pytest

import notebook_prof as nbp
from notebook_prof import TraceBuilder
from notebook_prof.analysis import advice, imports, loaders
from notebook_prof.collectors.machine import machine
from notebook_prof.testing import draw


def test_the_machine_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = machine()
    assert facts["cpus"] >= 1
    assert facts["start_method"] in ("fork", "spawn", "forkserver")
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert machine()["gil"] is False
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert machine()["accelerators"] == []


def test_loaders_are_reported_and_nothing_is_left_behind() -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset
    from torch.utils.data import dataloader as module

    class Numbers(Dataset[Any]):
        def __len__(self) -> int:
            raise AssertionError("nobody asked")  # the facts must not

        def __getitem__(self, index: int) -> int:
            return index

    before = module._BaseDataLoaderIter.__init__
    numbers, tensors = Numbers(), TensorDataset(torch.zeros(8, 2))
    with nbp.profile("torch") as profile:
        for _ in range(2):
            list(DataLoader(Subset(numbers, [1, 2, 3]), batch_size=2))
        list(DataLoader(tensors, batch_size=4))
    assert module._BaseDataLoaderIter.__init__ is before
    table = loaders(profile.trace)
    assert table["dataset"].str.split(".").str[-1].tolist() == ["Numbers", "TensorDataset"]
    assert table["iterators"].tolist() == [2, 1]
    assert table["batch_size"].tolist() == [2, 4]
    assert table["in_memory"].tolist() == [False, True]
    assert table["num_workers"].tolist() == [0, 0]
    assert Path(table["file"][0]) == Path(__file__)
    source = Path(__file__).read_text().splitlines()
    assert source[table["line"][0] - 1].strip().startswith("def __getitem__")
    assert profile.trace.metadata["machine"]["cpus"] >= 1


def test_a_loader_that_fails_fails_as_it_did() -> None:
    pytest.importorskip("torch")
    from torch.utils.data import DataLoader

    class Broken:
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> int:
            raise KeyError("mine")

    with nbp.profile("torch"), pytest.raises(KeyError, match="mine") as failed:
        list(DataLoader(Broken()))
    files = [str(entry.path) for entry in failed.traceback]
    assert not [file for file in files if "notebook_prof/collectors" in file]


def imported(builder: TraceBuilder, track: int, start: int, module: str, below: str = "") -> None:
    find = builder.stack([("_find_and_load", "<frozen importlib._bootstrap>", 1)])
    run = builder.stack([("<module>", f"/v/site-packages/{module}/__init__.py", 1)], above=find)
    names, stacks = ["cell:2  import this", "_find_and_load", "<module>"], [-1, find, run]
    begins, ends = [start, start + 1, start + 2], [start + 50, start + 49, start + 48]
    if below:
        names += ["_find_and_load", "<module>"]
        stacks += [
            find,
            builder.stack([("<module>", f"/v/site-packages/{below}/__init__.py", 1)], above=find),
        ]
        begins, ends = [*begins, start + 3, start + 4], [*ends, start + 40, start + 40]
    durs = [end - begin for begin, end in zip(begins, ends, strict=True)]
    builder.slices(ts=begins, dur=durs, name=names, category="python", track=track, stack=stacks)


def test_imports_are_told_by_module_and_do_not_count_twice() -> None:
    builder = TraceBuilder()
    main = builder.track("main", tid=1)
    imported(builder, main, 0, "pandas", below="numpy")
    imported(builder, main, 100, "scipy")
    table = imports(builder.seal())
    found = table[["module", "text", "ts", "total_ns"]].values.tolist()
    assert found == [["pandas", "import this", 1, 48], ["scipy", "import this", 101, 48]]
    assert imports(draw("main: [mm ]")).empty


def test_imports_get_no_advice_and_no_share() -> None:
    builder = TraceBuilder()
    main = builder.track("main", tid=1)
    imported(builder, main, 0, "pandas")
    assert advice(builder.seal()).empty
    with nbp.profile("python") as profile:
        x = 1 + 1
    assert x == 2
    assert profile.advice(min_share=0).empty
