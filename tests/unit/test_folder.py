"""Folders as recordings: what is inside is read, what is outside is not."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from notebook_prof.errors import FormatError, OptionError
from notebook_prof.readers import read_trace
from notebook_prof.readers.base import Folder
from notebook_prof.trace import ImportReport


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "run"
    (root / "deep").mkdir(parents=True)
    (root / "a.txt").write_bytes(b"\xef\xbb\xbfalpha")
    (root / "deep" / "b.gz").write_bytes(gzip.compress(b"beta"))
    (tmp_path / "secret.txt").write_text("secret")
    return root


def test_files_are_listed_and_read_inside(tree: Path) -> None:
    folder = Folder(tree, ImportReport())
    assert folder.names == ("a.txt", "deep/b.gz")
    assert folder.read("a.txt") == folder.head("a.txt") == b"alpha"
    assert folder.read("deep/b.gz") == folder.head("deep/b.gz") == b"beta"
    assert Path(folder) == tree
    assert folder.describe() == "2 files: a.txt, deep/b.gz"


def test_links_do_not_lead_outside(tree: Path) -> None:
    (tree / "inside.txt").symlink_to(tree / "a.txt")
    (tree / "outside.txt").symlink_to(tree.parent / "secret.txt")
    (tree / "up").symlink_to(tree.parent, target_is_directory=True)
    (tree / "loop").symlink_to(tree / "loop")
    os.mkfifo(tree / "pipe")
    report = ImportReport()
    folder = Folder(tree, report)
    assert folder.names == ("a.txt", "deep/b.gz", "inside.txt")
    assert report["link-outside"].example == "outside.txt"
    for name in ("outside.txt", "../secret.txt", "up/secret.txt", str(tree.parent / "secret.txt"), "absent"):
        with pytest.raises(FormatError, match="inside the folder"):
            folder.read(name)


def test_a_link_that_is_turned_outside_later_is_not_followed(tree: Path) -> None:
    folder = Folder(tree, ImportReport())
    (tree / "a.txt").unlink()
    (tree / "a.txt").symlink_to(tree.parent / "secret.txt")
    with pytest.raises(FormatError, match="inside the folder"):
        folder.read("a.txt")


def test_an_unknown_folder_is_refused_by_what_it_holds(tree: Path) -> None:
    with pytest.raises(FormatError, match=r"run: no format is recognised.*2 files: a\.txt, deep/b\.gz"):
        read_trace(tree)
    empty = tree / "empty"
    empty.mkdir()
    with pytest.raises(FormatError, match="no files"):
        read_trace(empty)
    (tree / "t.json").write_text('{"schemaVersion": 1, "traceEvents": []}')
    with pytest.raises(FormatError, match=r"Open a single file of it instead: t\.json \(kineto\)"):
        read_trace(tree)
    (tree / "u.json").write_text('{"schemaVersion": 1, "traceEvents": []}')
    with pytest.raises(FormatError, match=r"u\.json \(kineto\)\. nbp\.read_ranks\(folder\) reads several"):
        read_trace(tree)
    with pytest.raises(FormatError, match="format of single files"):
        read_trace(tree, format="kineto")
    with pytest.raises(OptionError, match="'kineto' takes no option 'fp_point'"):
        read_trace(tree / "t.json", fp_point="x")
