"""%profile_open in a real kernel."""

import json
from pathlib import Path

import pytest

from tests.notebook.conftest import Kernel

EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5, "dur": 2}


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "my run.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [EVENT]}))
    return path


@pytest.mark.parametrize(
    "form", ["{}", "'{}'", '"{}"', "  {}  ", "--format kineto {}", "'{}' --format=kineto"]
)
def test_opens_shows_and_binds(kernel: Kernel, recording: Path, form: str) -> None:
    reply = kernel.must("%profile_open " + form.format(recording))
    assert reply.displays
    assert (reply.stdout, reply.results) == ("", [])
    assert kernel.value("[type(_profile).__name__, _profile is nbp.last]") == ["Profile", True]
    assert kernel.value("_profile.operators()['name'].tolist()") == ["aten::mm"]


def test_what_was_saved_opens(kernel: Kernel, tmp_path: Path) -> None:
    kernel.must(f"%%profile p --quiet --save {tmp_path}/run.nbprof.zip\nx = sum(range(1000))")
    kernel.must(f"path = '{tmp_path}/run.nbprof.zip'")
    kernel.must("%profile_open {path}")
    assert kernel.value("_profile is not p and _profile.trace.slices.equals(p.trace.slices)") is True


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "the path of a recording is missing: %profile_open [--format NAME] PATH"),
        ("{}/my rnu.json", "there is no file or folder"),
        ("{}/my rnu.json", "did you mean 'my run.json'?"),
        ("{}/no/such/run.json", "is there"),
        ("{}/text", "the format is not recognised"),
        ("--format kinetoo {}/my run.json", "did you mean 'kineto'?"),
    ],
)
def test_bad_paths_get_a_sentence(
    kernel: Kernel, recording: Path, tmp_path: Path, line: str, says: str
) -> None:
    (tmp_path / "text").write_text("nothing")
    kernel.must("before = nbp.last")
    reply = kernel.run("%profile_open " + line.format(tmp_path))
    assert (reply.status, reply.error) == ("error", "UsageError")
    assert says in reply.message
    assert "Traceback" not in reply.traceback
    assert kernel.value("nbp.last is before") is True
