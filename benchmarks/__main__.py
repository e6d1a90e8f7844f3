"""Run every benchmark: ``python -m benchmarks [NAME …] [--write FILE]``; prints tables in Markdown.

A benchmark is a module of this folder with a `TITLE` and ``run() -> list[dict]``.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import platform
import re
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

import benchmarks

LIBRARIES = ("numpy", "pandas", "torch", "ipython", "bokeh")
HOW_TO_READ = """\
These tables come from `make bench`; run it anew before you quote a figure. Where others shared the two cores,
the section says so. Read the quartiles: ratios of 1.00 and 1.02 are the same number here.

```console
$ python -m benchmarks --write benchmarks/results/performance.md overhead      # one section anew
```"""


def benchmark_modules() -> dict[str, ModuleType]:
    """Benchmarks of this folder, by name."""
    modules = {}
    for info in sorted(pkgutil.iter_modules(benchmarks.__path__), key=lambda info: info.name):
        if info.name != "__main__":
            module = importlib.import_module(f"benchmarks.{info.name}")
            if hasattr(module, "run") and hasattr(module, "TITLE"):
                modules[info.name] = module
    return modules


def as_markdown(rows: Iterable[dict[str, Any]]) -> str:
    """A table for each run of rows that have the same columns."""
    tables: list[list[str]] = []
    columns: list[str] = []
    for row in rows:
        if list(row) != columns:
            columns = list(row)
            tables.append([_line(columns), _line("---" for _ in columns)])
        tables[-1].append(_line(_cell(row[name]) for name in columns))
    return "\n\n".join("\n".join(table) for table in tables)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def machine() -> str:
    """One line on where the figures come from."""
    libraries = []
    for name in LIBRARIES:
        try:
            libraries.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{platform.system()} {platform.machine()}, {cpus} CPUs, Python {platform.python_version()}, "
        + ", ".join(libraries)
    )


def main() -> int:
    """Run what was asked for."""
    modules = benchmark_modules()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Run benchmarks.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"out of {', '.join(modules)}; all by default"
    )
    parser.add_argument(
        "--write",
        type=Path,
        metavar="FILE",
        help="also write the tables to FILE; with NAMEs, only their sections of it are replaced",
    )
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in modules]:
        parser.error(f"no benchmark {unknown[0]!r}; choose from {', '.join(modules)}")
    parts = ["# Performance", f"Measured by `python -m benchmarks` on {machine()}.", HOW_TO_READ]
    print("\n\n".join(parts), flush=True)
    for name in options.names or modules:
        module = modules[name]
        summary = (module.__doc__ or "").strip()
        part = f"## {module.TITLE}\n\n{summary}\n\n{as_markdown(module.run())}"
        print(f"\n{part}", flush=True)
        parts.append(part)
    if options.write is not None:
        text = "\n\n".join(parts) + "\n"
        if options.names and options.write.exists():
            text = replaced(options.write.read_text(encoding="utf-8"), parts[3:])
        options.write.write_text(text, encoding="utf-8")
    return 0


def replaced(text: str, sections: Iterable[str]) -> str:
    """A page with these sections in place of those of the same heading, or after all others.

    Examples
    --------
    >>> replaced("# Page\\n\\n## A\\n\\nold\\n\\n## B\\n\\nkept\\n", ["## A\\n\\nnew"])
    '# Page\\n\\n## A\\n\\nnew\\n\\n## B\\n\\nkept\\n'
    """
    for section in sections:
        heading = section.split("\n", 1)[0]
        old = re.search(rf"^{re.escape(heading)}\n.*?(?=^## |\Z)", text, flags=re.MULTILINE | re.DOTALL)
        if old is None:
            text = f"{text.rstrip()}\n\n{section}\n"
        else:
            after = text[old.end() :]
            text = text[: old.start()] + section + ("\n\n" if after else "\n") + after
    return text


if __name__ == "__main__":
    sys.exit(main())
