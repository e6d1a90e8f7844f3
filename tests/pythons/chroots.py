"""Debian's later releases in folders, each with a Python that this machine lacks."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

SUITES: Final = {"3.13": "trixie", "3.14": "sid", "3.15": "sid"}
"""Version of Python, and the release of Debian that has it."""
SOURCE: Final = Path("/src/repository")
"""Where the repository lies inside; shared/ lies beside it, as it does here."""


def refusal() -> str:
    """Return why no release can be laid into a folder here; empty if it can."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "a chroot needs root: run it as root, or have the interpreter on PATH"
    missing = [name for name in ("debootstrap", "unshare", "chroot", "apt-get") if shutil.which(name) is None]
    if missing:
        return f"a chroot needs {', '.join(missing)}: apt-get install debootstrap util-linux"
    if not mirror():
        return "a chroot needs a mirror of Debian, and apt's sources name none"
    return ""


def mirror() -> str:
    """Return the mirror of Debian that this machine's apt uses; empty if it has none."""
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(SITE)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=False,
    )
    return mirror_of(listed.stdout.splitlines())


def mirror_of(lines: Iterable[str]) -> str:
    """Return the first mirror of Debian itself, not of its security updates nor of others' packages."""
    for line in lines:
        origin, label, site = line.split("|", 2)
        if (origin, label) == ("Debian", "Debian"):
            return site
    return ""


def make(suite: str, folder: Path) -> Path:
    """Lay a release into a folder, once."""
    root = folder / suite
    if not root.is_dir():
        part = folder / f"{suite}.part"
        shutil.rmtree(part, ignore_errors=True)
        subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={_packages(suite)}", suite, str(part), mirror()],
            stdout=(folder / f"{suite}.log").open("w"),
            stderr=subprocess.STDOUT,
            check=True,
        )
        part.rename(root)
    return root


def _packages(suite: str) -> str:
    versions = [version for version, there in SUITES.items() if there == suite]
    return ",".join(["ca-certificates", *(f"python{one},python{one}-venv" for one in versions)])


def pip_paths() -> list[Path]:
    """Return what pip's configuration here consists of and names: files and folders."""
    commands = [["pip", "config", "debug"], ["pip", "config", "list"]]
    text = "\n".join(
        subprocess.run(["python3", "-m", *one], capture_output=True, text=True, check=False).stdout
        for one in commands
    )
    paths = paths_in(text)
    return [
        path.parent if path.name == "simple" else path for path in paths
    ]  # an index's files lie beside it


def paths_in(text: str) -> list[Path]:
    """Return the absolute paths in a text that are there, as words or as ``file:`` addresses."""
    words = (word.strip("',\"=") for line in text.splitlines() for word in line.replace("=", " ").split())
    paths = (urlsplit(word).path if word.startswith("file:") else word for word in words)
    return [Path(path) for path in dict.fromkeys(paths) if path.startswith("/") and Path(path).exists()]


def command(root: Path, repository: Path, inside: str) -> list[str]:
    """Return the command that runs a shell's text inside of a release, at the repository."""
    # All mounts are in a namespace of its own and go with it; the repository cannot be written to.
    mounts = ["mount --make-rprivate /"]
    for path in ("/proc", "/dev", "/sys"):
        mounts.append(f"mount --rbind {path} {shlex.quote(str(root / path[1:]))}")
    bound = {SOURCE: repository} | {path: path for path in (*pip_paths(), *_certificates()) if _outside(path)}
    if (shared := repository.parent / "shared").is_dir():
        bound[SOURCE.parent / "shared"] = shared.resolve()
    for to, path in bound.items():
        target = shlex.quote(str(root / str(to)[1:]))
        create = f"mkdir -p {target}" if path.is_dir() else f"mkdir -p $(dirname {target}) && touch {target}"
        mounts += [
            create,
            f"mount --bind {shlex.quote(str(path))} {target}",
            f"mount -o remount,bind,ro {target}",
        ]
    shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")
    program = f"cd {SOURCE} && {inside}"
    script = " && ".join(
        [*mounts, f"exec chroot {shlex.quote(str(root))} /bin/bash -c {shlex.quote(program)}"]
    )
    return ["unshare", "--mount", "--propagation", "private", "bash", "-euc", script]


def _certificates() -> list[Path]:
    """Return the files of certificates that the environment names."""
    names = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE")
    return paths_in("\n".join(os.environ.get(name, "") for name in names))


def _outside(path: Path) -> bool:
    """Return whether a path is none that the release has for itself."""
    return not any(
        path.is_relative_to(folder) for folder in ("/proc", "/dev", "/sys", "/usr", "/lib", "/bin")
    )
