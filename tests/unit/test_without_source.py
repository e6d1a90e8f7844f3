"""Exports with ``source=False`` show nothing of the user's source, files and strings."""

from __future__ import annotations

import base64
import importlib.util
import json
import re
import threading
import zlib
from pathlib import Path

import pytest

import notebook_prof as nbp
from notebook_prof import Profile, open_profile
from notebook_prof.cells.build import build
from notebook_prof.cells.watch import NotebookWatch

from ..fake_clock import FakeClock

CODE = """
import time
import notebook_prof as nbp
def work(until):
    password = 'hunter-two'
    with nbp.annotate('project-x'):
        while time.time() < until: password.upper()
"""
SECRETS = ("hunter-two", "project-x", "secret_module", "password", "customer-9")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    file = tmp_path_factory.mktemp("code") / "secret_module.py"
    file.write_text(CODE)
    spec = importlib.util.spec_from_file_location("secret_module", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    import time

    with nbp.profile("python", engine="thread"):
        until = time.time() + 2
        thread = threading.Thread(target=module.work, args=(until,), name="customer-9")
        thread.start()
        module.work(until)
        thread.join()
    assert nbp.last is not None
    return Profile(nbp.last.trace)


@pytest.fixture(scope="module")
def session() -> Profile:
    clock = FakeClock()
    watch = NotebookWatch(lambda: {"password": bytearray(1 << 21)}, clock, threads=False)
    for number, source in enumerate(("password = 'hunter-two'", "open('secret_module').read()"), 1):
        run = watch.begin(source, number)
        clock.advance(1_000_000)
        watch.end(run)
    trace = build(watch)
    watch.stop()
    return Profile(trace)


@pytest.mark.parametrize("kind", ["recorded", "session"])
@pytest.mark.parametrize("name", ["r.html", "r.json", "r.svg", "r.txt", "r.nbprof"])
def test_files_without_source(kind: str, name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    p: Profile = request.getfixturevalue(kind)
    texts = {}
    for source in (True, False):
        path = tmp_path / str(source) / name
        path.parent.mkdir()
        if name == "r.svg":
            p.export.svg(path, source=source)
        elif name == "r.txt":
            p.export.stacks(path, source=source, format="collapsed")
        else:
            p.save(path, source=source)
        files = path.rglob("*") if path.is_dir() else [path]
        texts[source] = b"".join(file.read_bytes() for file in files if file.is_file())
        if name == "r.html":
            texts[source] = readable(path).encode()
    shown = [word for word in SECRETS if word.encode() in texts[True]]
    assert shown or name in ("r.svg", "r.txt")
    assert [word for word in SECRETS if word.encode() in texts[False]] == []


def test_what_is_left_is_the_recording(session: Profile, tmp_path: Path) -> None:
    session.save(tmp_path / "run.nbprof", source=False)
    shared = open_profile(tmp_path / "run.nbprof")
    assert shared.cells()["wall_ns"].tolist() == session.cells()["wall_ns"].tolist()
    assert shared.cells()["name"].tolist() == ["In[1]", "In[2]"]
    assert shared.verdict.sentence.startswith("Run All takes about 2 ms: In[1] 50.0 %")
    assert all(claim.holds(shared.trace) for claim in shared.verdict.claims)
    assert shared.memory.names()["bytes"].tolist() == session.memory.names()["bytes"].tolist()


def test_launches_of_kernels_stay_as_they_are(tmp_path: Path) -> None:
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1, "dur": 2}
    launch = {"device": 0, "stream": 7, "grid": [40, 1, 1], "block": [128, 1, 1]}
    rows = {"schemaVersion": 1, "traceEvents": [{**kernel, "args": launch}]}
    (tmp_path / "gpu.json").write_text(json.dumps(rows))
    p = open_profile(tmp_path / "gpu.json")
    p.export.chrome(tmp_path / "run.json", source=False)
    table = open_profile(tmp_path / "run.json").trace.metadata["tables"]["device_events"]
    assert table[["grid", "block"]].to_numpy().tolist() == [["[40, 1, 1]", "[128, 1, 1]"]]


def test_a_comparison_without_source(recorded: Profile, tmp_path: Path) -> None:
    texts = {}
    for source in (True, False):
        nbp.compare(recorded, recorded).to_html(tmp_path / "c.html", source=source)
        texts[source] = readable(tmp_path / "c.html")
    assert [word for word in SECRETS if word in texts[True]]
    assert [word for word in SECRETS if word in texts[False]] == []
    # both sides number files alike, or nothing would be paired
    assert len(set(re.findall(r"work \(file \d+\)", texts[False]))) == 1


def test_the_page_of_ranks_without_source(recorded: Profile, tmp_path: Path) -> None:
    for rank in range(2):
        recorded.trace.save(tmp_path / f"customer-9-rank{rank}.nbprof")
    (tmp_path / "password-rank2.nbprof").write_bytes(b"damaged")
    ranks = nbp.read_ranks(dict(enumerate(sorted(tmp_path.glob("*.nbprof")))))
    texts = {}
    for source in (True, False):
        ranks.to_html(tmp_path / "ranks.html", source=source)
        texts[source] = readable(tmp_path / "ranks.html")
    assert [word for word in SECRETS if word in texts[True]]
    assert [word for word in SECRETS if word in texts[False]] == []
    assert re.search(r"work \(file \d+\)", texts[False])


def readable(path: Path) -> str:
    """Return the text of a report, with that of its compressed blocks."""
    text = path.read_text(encoding="utf-8")
    packed = [zlib.decompress(base64.b64decode(block)) for block in re.findall(r'"(eJ[\w+/=]+)"', text)]
    return text + "".join(block.decode("utf-8", "replace") for block in packed)
