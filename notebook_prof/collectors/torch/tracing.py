"""Detects tracers of the user's code. Our hooks then do nothing; for TorchDynamo they are removed."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

from ..patches import ImportWatch

Call = Callable[[], None]

_CAPTURES: Final = ("get_traced_fn", "fullgraph_capture")
"""Functions that ``torch.export`` and ahead-of-time compilation call instead of the callbacks."""
_HOMES: Final = {
    "torch._dynamo.callback": (),
    "torch._dynamo.convert_frame": _CAPTURES,
    "torch._dynamo.functional_export": _CAPTURES,
}


def traces(torch: Any) -> tuple[Callable[[], bool], Callable[[], bool]]:
    """Return two tests: whether TorchDynamo compiles or exports, and whether anything else traces."""
    # The first is a constant to TorchDynamo. The second is true for code under ``torch.compile``, for
    # ``torch.jit.trace`` (also used by ONNX's exporter and TensorBoard's graphs), ``torch.fx``, transforms of
    # ``torch.func``, and stand-in tensors: fake ones, those of ``make_fx`` and of functionalization. A user's
    # dispatch mode does not trace.
    core, fx = torch._C, torch.fx._symbolic_trace
    # a flag of the module until torch 2.13, then one of the thread
    fx_traces = getattr(fx, "_get_is_fx_tracing", lambda: getattr(fx, "_is_fx_tracing_flag", False))
    compiles_frames = getattr(core._dynamo.eval_frame, "get_eval_frame_callback", lambda: None)
    traced, transform = core._get_tracing_state, core._functorch.peek_interpreter_stack
    depth, mode_of, keys = core._len_torch_dispatch_stack, core._get_dispatch_mode, core._TorchDispatchModeKey
    kinds = keys.FAKE, keys.PROXY, keys.FUNCTIONAL

    def tracing() -> bool:
        if compiles_frames() is not None or traced() or transform() is not None or fx_traces():
            return True
        return depth() > 0 and any(mode_of(kind) is not None for kind in kinds)

    return torch.compiler.is_compiling, tracing


def never_compile(torch: Any, *functions: Any) -> None:
    """Let TorchDynamo run these uncompiled if they are called from torch's frames, which it skips."""
    home = torch._C._dynamo.eval_frame
    if hasattr(home, "set_code_exec_strategy"):  # since torch 2.7, their callees are skipped too
        strategy = home._FrameExecStrategy(home._FrameAction.SKIP, home._FrameAction.SKIP)
        for function in functions:
            home.set_code_exec_strategy(function.__code__, strategy)
    elif hasattr(home, "skip_code"):
        for function in functions:
            home.skip_code(function.__code__)


class CompilationNotifier:
    """Notifies when TorchDynamo begins to compile or export, and when it has ended."""

    # Functions of TorchDynamo are wrapped while there are listeners, including those of modules imported
    # meanwhile. Its callbacks cannot be used, since ``torch._dynamo.reset()`` drops them, and exports do not
    # call them.
    def __init__(self) -> None:
        self._listeners: dict[object, tuple[Call, Call]] = {}
        self._undo: dict[str, Call] = {}
        self._imports: list[ImportWatch] = []
        self._lock = threading.RLock()
        self._depth = 0

    def add(self, owner: object, began: Call, ended: Call) -> None:
        """Call these functions from now on, until `owner` is dropped."""
        self._listeners[owner] = began, ended
        if not self._imports:
            for home in _HOMES:
                self._wrap(home)
                self._imports.append(ImportWatch(home, functools.partial(self._wrap, home)))
                self._imports[-1].watch()

    def drop(self, owner: object) -> None:
        """Remove an owner's listeners. Without any left, TorchDynamo is unwrapped. Safe to repeat."""
        self._listeners.pop(owner, None)
        if not self._listeners:
            while self._imports:
                self._imports.pop().unwatch()
            while self._undo:
                self._undo.popitem()[1]()

    def _wrap(self, home: str) -> None:
        module: Any = sys.modules.get(home)
        if module is None or home in self._undo or not self._listeners:
            return
        if home == "torch._dynamo.callback":
            handler = module.callback_handler
            calls = {"run_start_callbacks": self._begin, "run_end_callbacks": self._end}
            vars(handler).update({name: _first(call, getattr(handler, name)) for name, call in calls.items()})

            def undo() -> None:
                for name in calls:
                    vars(handler).pop(name, None)

            self._undo[home] = undo
            return
        originals = {name: getattr(module, name) for name in _HOMES[home] if hasattr(module, name)}
        originals = {name: getattr(one, "_notebook_prof_wraps", one) for name, one in originals.items()}
        vars(module).update({name: self._around(one) for name, one in originals.items()})
        self._undo[home] = lambda: vars(module).update(originals)

    def _around(self, original: Any) -> Any:
        @functools.wraps(original)
        def run(*args: Any, **kwargs: Any) -> Any:
            self._begin()
            try:
                return original(*args, **kwargs)
            finally:
                self._end()

        run._notebook_prof_wraps = original  # type: ignore[attr-defined]
        return run

    def _begin(self) -> None:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                for began, _ in tuple(self._listeners.values()):
                    began()

    def _end(self) -> None:
        with self._lock:
            self._depth = max(self._depth - 1, 0)
            if not self._depth:
                for _, ended in tuple(self._listeners.values()):
                    ended()


def _first(call: Call, original: Callable[..., None]) -> Callable[..., None]:
    def run(*args: Any) -> None:
        call()
        original(*args)

    return run


compilations: Final = CompilationNotifier()
"""The compilations of this process."""
