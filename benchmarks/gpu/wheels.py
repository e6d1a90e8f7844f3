"""What a bare machine lacks, as wheels: made where there is a network, unpacked where there is none."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 60_000_000
NEEDED: Final = (
    *("anywidget", "bokeh", "hypothesis", "ipykernel", "ipython", "ipywidgets", "msgspec", "nvidia-ml-py"),
    *("pandas", "py-spy", "pyarrow", "pytest", "tqdm"),
)
"""With all their dependencies."""
_UNWANTED: Final = ("numpy", "torch", "setuptools", "debugpy")
"""NumPy and torch are preinstalled; kernels work without debugpy."""
_PLATFORMS: Final = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "linux_x86_64")
_SUPERFLUOUS: Final = re.compile(
    r"(?:^|/)(?:tests?|include|src|typeshed)/|\.(?:pyx|pxd|pxi|h|hpp|cc|c|map|d\.ts|pdb|dll)$|\.data/"
    r"|flight|_cpp_tests|_orc|_?s3(?:fs)?\.|gcsfs|azurefs|hdfs|_encryption|libarrow_python\.so$|libarrow_python\.so\.\d+\.\d"
    r"|_?avif|_imagingft|harfbuzz|freetype"
    r"|bokeh/server/static/js/(?!bokeh(?:-(?:api|gl|tables|widgets))?\.min\.js)|labextension|nbextension"
)
"""Files of wheels that nothing here needs; they would make the folder half as large again."""


def cupti_python(driver: str) -> str:
    """Return the requirement for the newest ``cupti-python`` for a driver's CUDA, such as ``13.0``."""
    major, minor = map(int, driver.split("."))
    return f"cupti-python<{major}.{minor + 1}"


def make(folder: Path, python: str = "3.12", driver: str = "13.0", without: Iterable[str] = ()) -> int:
    """Fetch the wheels for Linux on x86-64, shrink them, and return their bytes, at most 60 MB.

    `python` is the machine's version, `driver` the driver's CUDA version, `without` the packages already
    there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    target = ["--only-binary=:all:", "--implementation", "cp", "--python-version", python]
    target += [word for platform in _PLATFORMS for word in ("--platform", platform)]
    pip = [sys.executable, "-m", "pip", "download", "-q", "-d", str(folder), *target]
    left_out = {_plain(name) for name in (*_UNWANTED, *without)}
    chosen = [name for name in NEEDED if _plain(name) not in left_out]
    subprocess.run([*pip, *chosen], check=True)
    if "cupti-python" not in left_out:  # its dependencies came with torch
        subprocess.run([*pip, "--no-deps", cupti_python(driver)], check=True)
    for wheel in folder.glob("*.whl"):
        if _name(wheel) in left_out:
            wheel.unlink()
        else:
            shrink(wheel)
    size = sum(wheel.stat().st_size for wheel in folder.glob("*.whl"))
    if size > MOST_BYTES:
        raise SystemExit(f"{size / 1e6:.1f} MB of wheels, and {MOST_BYTES / 1e6:.0f} can be carried")
    return size


def shrink(wheel: Path) -> None:
    """Leave out what nothing needs."""
    part = wheel.with_suffix(".part")
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as small:
        for one in whole.infolist():
            if not _SUPERFLUOUS.search(one.filename):
                small.writestr(one.filename, whole.read(one))
    part.replace(wheel)


def unpack(folder: Path, site: Path) -> list[str]:
    """Unpack the wheels of packages that this Python lacks into `site`; returns their names."""
    there = {_plain(one.metadata["Name"]) for one in distributions()}
    lacking = [wheel for wheel in sorted(folder.glob("*.whl")) if _name(wheel) not in there]
    for wheel in lacking:
        with zipfile.ZipFile(wheel) as file:
            file.extractall(site)
    return [_name(wheel) for wheel in lacking]


def _name(wheel: Path) -> str:
    return _plain(wheel.name.partition("-")[0])


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.strip()).lower()
