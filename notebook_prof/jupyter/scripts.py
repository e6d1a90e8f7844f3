"""Counts steps in loops of scripts that a profiled cell runs with ``%run``."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Hashable
from contextlib import suppress
from pathlib import Path
from types import CodeType
from typing import Any, Final

from .loops import counts_itself, find_loops
from .options import MagicOptions
from .rewriting import quietly, rewrite

_numbers: Final = itertools.count(1)


class _Shell:
    """A stand-in for the shell whose `compile` returns `code`."""

    def __init__(self, shell: Any, code: CodeType) -> None:
        self._shell, self._code = shell, code

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shell, name)

    def compile(self, source: bytes, filename: Any, mode: str) -> CodeType:
        """Return the prepared code. Compiles the source only for its warnings."""
        compile(source, filename, mode, dont_inherit=True)
        return self._code


def load(shell: Any) -> None:
    """Load the class that defines ``%run``. Recent versions of IPython load it on first use."""
    with suppress(KeyError):  # the shell has none
        shell.magics_manager.registry["ExecutionMagics"]


def begin(shell: Any, options: MagicOptions, places: dict[Hashable, str]) -> Callable[[], None]:
    """Let loops of scripts tick from now on; return a function that undoes this."""
    # Not if something else counts steps. `places` get the loops' places by token.
    magics = shell.magics_manager.registry.get("ExecutionMagics")
    counts = options.step_by in ("auto", "loop") and options.loop_line is None
    if not counts or magics is None or magics.default_runner is not None:
        return lambda: None

    def run(path: str, *namespaces: dict[str, Any], **more: Any) -> None:
        code = _ticking(path, options, namespaces[0], places)
        if code is None:
            shell.safe_execfile(path, *namespaces, **more)
        else:  # with `shell_futures`, it takes the shell's `compile`
            type(shell).safe_execfile(_Shell(shell, code), path, *namespaces, **more, shell_futures=True)

    def end() -> None:
        if magics.default_runner is run:
            magics.default_runner = None

    magics.default_runner = run
    return end


def _ticking(
    path: str, options: MagicOptions, namespace: dict[str, Any], places: dict[Hashable, str]
) -> CodeType | None:
    """Compile a script with step counting. None if it has no loops to count, or does not compile."""
    file = Path(path).expanduser().resolve()
    try:
        with quietly(str(file)):
            tree = ast.parse(file.read_bytes(), str(file))
            weak = options.steps is not None or options.step_by == "loop"
            found = find_loops(tree, weak=weak, namespace=namespace)
            if not found or counts_itself(tree, {}):
                return None
            made = rewrite(tree, found, stop_after=options.stop_after, marks=False, script=next(_numbers))
            code: CodeType = compile(made, str(file), "exec", dont_inherit=True)
    except Exception:  # running it as it is raises what it should
        return None
    for one in found:
        places[one.token] = f"the loop in line {one.line} of {file.name}: {one.text}"
    return code
