"""``notebook-prof report``, ``convert`` and ``formats``: the commands that read and write files."""

from __future__ import annotations

import argparse
import os
from typing import Any

from ..errors import OptionError
from ..profiles.files import open_profile
from ..ranks.profiles import read_ranks
from ..readers import list_formats
from .output import add_from, add_output_options, say, say_table


def add_report(commands: Any) -> None:
    description = (
        "Write the linked views of a recording into one HTML file that needs neither network nor kernel. "
        "Several files are the ranks of one run: their report compares them."
    )
    parser = commands.add_parser("report", help="write a self-contained HTML report", description=description)
    parser.add_argument("files", metavar="FILE", nargs="+")
    default = "default: FILE's name with .html; for ranks, ranks.html beside them"
    parser.add_argument("-o", "--output", metavar="REPORT.html", help=default)
    parser.add_argument("--ranks", action="store_true", help="FILE is a folder or a pattern of ranks' files")
    add_from(parser)
    _add_no_source(parser)
    parser.set_defaults(run=report)


def add_convert(commands: Any) -> None:
    description = (
        "Write a recording in the format that the ending of OUTPUT names: .json and .json.gz are Chrome "
        "traces, which Perfetto opens, too; .nbprof and .nbprof.zip keep everything and open at once."
    )
    parser = commands.add_parser(
        "convert", help="write a recording in another format", description=description
    )
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("output", metavar="OUTPUT", nargs="?")
    parser.add_argument("-o", "--output", dest="named", metavar="OUTPUT", help="the same, as for report")
    add_from(parser)
    _add_no_source(parser)
    parser.set_defaults(run=convert)


def _add_no_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-source", action="store_true", help="leave out source, file names and values of strings"
    )


def add_formats(commands: Any) -> None:
    parser = commands.add_parser("formats", help="list the formats that can be read")
    add_output_options(parser)
    parser.set_defaults(run=formats)


def report(options: argparse.Namespace) -> int:
    """Write the report; prints its path."""
    first = options.files[0]
    if options.ranks or len(options.files) > 1:
        return _report_ranks(options)
    output = options.output or _stem(first) + ".html"
    _not_the_same(first, output)
    open_profile(first, format=options.source).export.html(output, source=not options.no_source)
    say(output)
    return 0


def _report_ranks(options: argparse.Namespace) -> int:
    if options.source is not None:
        raise OptionError("--from is for one file: the format of each rank's file is recognised")
    first = options.files[0]
    folder = first if os.path.isdir(first) else os.path.dirname(first)
    output = options.output or os.path.join(folder, "ranks.html")
    for file in options.files:
        _not_the_same(file, output)
    read_ranks(options.files).to_html(output, source=not options.no_source)
    say(output)
    return 0


def convert(options: argparse.Namespace) -> int:
    """Write the file; prints its path."""
    outputs = [path for path in (options.output, options.named) if path]
    if len(outputs) != 1:
        raise OptionError("convert writes one file: name it once, as in notebook-prof convert FILE -o OUTPUT")
    _not_the_same(options.file, outputs[0])
    open_profile(options.file, format=options.source).save(outputs[0], source=not options.no_source)
    say(outputs[0])
    return 0


def formats(options: argparse.Namespace) -> int:
    say_table(options.format, list_formats())
    return 0


def _stem(path: str) -> str:
    name = path.rstrip("/").rstrip(os.sep)
    for ending in (".gz", ".zst", ".xz", ".zip", ".json"):
        name = name.removesuffix(ending)
    return name


def _not_the_same(source: str, target: str) -> None:
    if os.path.exists(target) and os.path.exists(source) and os.path.samefile(source, target):
        raise OptionError(f"{target} is the file to read: choose another name for the output")
