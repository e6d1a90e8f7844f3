"""The layouts of CUPTI's records against C headers, where a compiler and headers are found."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from notebook_prof.collectors.cupti import find
from notebook_prof.collectors.cupti.find import find_library
from notebook_prof.collectors.cupti.layouts import (
    EITHER,
    FIELDS,
    LATER,
    STRUCTS,
    VERSIONS,
    record,
    release,
    sizes,
)
from notebook_prof.errors import RecordingError


@pytest.fixture(autouse=True)
def look_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not among the libraries that other tests have loaded."""
    monkeypatch.setattr(find, "mapped", dict)


def headers() -> Path:
    """Folder of ``cupti_activity.h`` that belongs to the library found; else skip."""
    path = find_library()
    if path is None or "/" not in path:
        pytest.skip("no libcupti with a known place is installed")
    for folder in (Path(path).parents[1] / "include", Path(path).parents[2] / "include"):
        if (folder / "cupti_activity.h").is_file():
            return folder
    pytest.skip("this libcupti came without its headers")


def generations(header: str) -> dict[str, str]:
    """The latest structure of each name: ``Kernel`` → ``CUpti_ActivityKernel9``."""
    latest: dict[str, tuple[int, str]] = {}
    for name, base, number in re.findall(r"^\} (CUpti_Activity([A-Za-z]+)(\d*));", header, re.M):
        latest[base] = max(latest.get(base, (0, "")), (int(number or 1), name))
    return {base: name for base, (_, name) in latest.items()}


def printed(folder: Path, names: dict[str, str], tmp_path: Path) -> list[list[str]]:
    """What a C program says of sizes and places; of later fields, those that these headers name."""
    header = (folder / "cupti_activity.h").read_text(encoding="latin1")
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    lines = ['printf("version %d\\n", CUPTI_API_VERSION);']
    for struct, fields in FIELDS.items():
        c = names[struct]
        lines.append(f'printf("size {struct} %zu\\n", sizeof({c}));')
        body = header[: header.index(f"}} {c};")].rpartition("typedef struct")[2]
        later = [field for field in LATER.get(struct, {}) if f" {field};" in body]
        for field in ("kind", *fields, *later):
            lines.append(
                f'printf("field {struct} {field} %zu %zu\\n", '
                f"offsetof({c}, {field}), sizeof((({c}*)0)->{field}));"
            )
    source, program = tmp_path / "layouts.c", tmp_path / "layouts"
    source.write_text(
        "#include <stdio.h>\n#include <stddef.h>\n#include <cuda.h>\n#include <cupti_activity.h>\n"
        "#include <cupti_version.h>\nint main(void) {\n" + "\n".join(lines) + "\nreturn 0;}\n"
    )
    folders = [folder, Path("/usr/local/cuda/include")]
    built = subprocess.run(
        [compiler, "-w", *(f"-I{one}" for one in folders), str(source), "-o", str(program)],
        capture_output=True,
        text=True,
    )
    if absent := re.search(r"fatal error: (\S+): No such file", built.stderr):
        pytest.skip(f"{absent[1]} is not installed beside CUPTI's headers")
    assert built.returncode == 0, built.stderr
    text = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return [line.split() for line in text.splitlines()]


def test_the_tables_are_those_of_the_headers(tmp_path: Path) -> None:
    folder = headers()
    names = generations((folder / "cupti_activity.h").read_text(encoding="latin1"))
    lines = printed(folder, names, tmp_path)
    version = int(lines[0][1])
    if release(version) not in VERSIONS:
        pytest.skip(f"the headers are of version {version}, which is not in the tables")
    bytes_of = sizes(version)
    for word, struct, *figures in lines[1:]:
        if word == "size":
            assert int(figures[0]) in (bytes_of[struct], EITHER.get(version, {}).get(struct)), struct
            continue
        field, position, width = figures[0], int(figures[1]), int(figures[2])
        dtype = record(struct, bytes_of[struct])
        assert dtype.fields is not None
        assert field in dtype.fields, (struct, field)
        kind, offset = dtype.fields[field][:2]
        assert (offset, kind.itemsize) == (position, width), (struct, field)


STEPS = """
import json, sys
from notebook_prof.collectors.cupti import Cupti
from notebook_prof.errors import RecordingError
try:
    cupti = Cupti(sys.argv[1])
except RecordingError as error:
    print(json.dumps({"refused": str(error)}))
    sys.exit()
told = {"version": cupti.version, "strides": cupti.strides}
told["calls"] = [cupti.api_name(2, 211), cupti.api_name(1, 307)]
for doing in (cupti.subscribe, lambda: cupti.enable(10)):
    try:
        doing()
    except RecordingError as error:
        told.setdefault("errors", []).append(str(error))
    else:
        told.setdefault("worked", []).append(True)
print(json.dumps(told))
"""


def test_the_real_library_steps_as_the_tables_say() -> None:
    """In a process of its own: some releases crash without a driver."""
    path = find_library()
    if path is None:
        pytest.skip("no libcupti is installed")
    done = subprocess.run([sys.executable, "-c", STEPS, path], capture_output=True, text=True)
    if done.returncode < 0:
        pytest.skip(f"this release of libcupti crashes without a driver: signal {-done.returncode}")
    answer = json.loads(done.stdout)
    if "refused" in answer:
        assert (
            "CUPTI could not tell its version" in answer["refused"] or "not known here" in answer["refused"]
        )
        pytest.skip(answer["refused"])
    bytes_of = sizes(answer["version"])
    for kind, struct in STRUCTS.items():
        assert answer["strides"][str(kind)] in (
            bytes_of[struct],
            EITHER.get(answer["version"], {}).get(struct),
        )
    assert answer["calls"] == ["cudaLaunchKernel", "cuLaunchKernel"]
    for sentence in answer.get("errors", ()):  # none where there is a card
        assert re.match(
            r"CUPTI could not (claim this process|record kind 10) \(CUPTI_ERROR_\w+ \d+\): ", sentence
        )
        assert "driver" in sentence
    assert len(answer.get("errors", ())) + len(answer.get("worked", ())) == 2


def test_an_unknown_version_is_refused_in_words() -> None:
    for version in (16, 19, 140000, 129999):
        with pytest.raises(RecordingError, match=r"layout of its records is not known.*11\.7.*13\.5"):
            sizes(version)


def test_sizes_tell_generations_apart() -> None:
    kernel = [sizes(v if v < 100 else v * 100)["Kernel"] for v in VERSIONS]
    assert kernel == [176, 200, *[208] * 7, 216, 224, 224, 232, 248, 248]
    assert all(size % 8 == 0 for v in VERSIONS for size in sizes(v if v < 100 else v * 100).values())
    last = {struct: max(offset for offset, _ in fields.values()) for struct, fields in FIELDS.items()}
    assert all(last[struct] + 8 <= size + 4 for struct, size in sizes(17).items())
