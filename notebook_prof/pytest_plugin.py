"""The pytest plugin: tests record their code, and compare it with limits and a baseline.

pytest loads it through its entry point. It imports nothing heavy until a test requests a recording; ``-p
no:notebook_prof`` disables it.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    import notebook_prof as nbp
    from notebook_prof.expectations.outcomes import Expectations
    from notebook_prof.profiles.profile import Profile

_FOLDER: Final = ".profiles"
_MARKER: Final = (
    "profile(*collectors, expect=(), baseline=(), **options): record the test and check expectations, "
    'as in expect=["step p50 < 120ms"]; baseline=["slower < 3%"] compares with the recording from '
    "--profile-update; options are those of nbp.profile"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("notebook_prof", "recordings of tests")
    group.addoption(
        "--profile-update",
        action="store_true",
        help="keep the recordings of tests as their baselines instead of comparing with them",
    )
    group.addoption(
        "--profile-baselines",
        metavar="FOLDER",
        help=f"where baselines are kept (default: {_FOLDER} beside each test's file)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)


class Recorder:
    """The fixture ``profile``: records blocks of a test, and checks limits."""

    def __init__(self, item: pytest.Item) -> None:
        self._item, self._recordings = item, 0

    def __call__(
        self,
        *collectors: str,
        expect: str | Sequence[str] = (),
        baseline: str | Sequence[str] = (),
        **options: Any,
    ) -> RecordedBlock:
        """Record a block, and check expectations if it ends without an exception.

        Parameters
        ----------
        *collectors : str
            As for `notebook_prof.profile`.
        expect : str or sequence of str
            Limits, as for ``Profile.expect``.
        baseline : str or sequence of str
            Limits for a comparison with the test's baseline, such as ``slower < 3%``.
        **options
            As for `notebook_prof.profile`, such as ``steps="3:14"``.

        Returns
        -------
        RecordedBlock
            To be used with ``with``; gives the Profile.
        """
        import notebook_prof as nbp

        number, self._recordings = self._recordings, self._recordings + 1
        judge = partial(self.judge, limits=_texts(expect), changes=_texts(baseline), number=number)
        return RecordedBlock(nbp.profile(*collectors, **options), judge)

    def judge(self, recording: Profile, limits: list[str], changes: list[str], number: int) -> None:
        """Check limits, and changes from the baseline; ExpectationError if one fails or is not decided."""
        __tracebackhide__ = True
        import notebook_prof as nbp

        outcomes = [self._noted(recording.expect(*limits, check=False))] if limits else []
        path = self.baseline_path(number)
        update = self._item.config.getoption("--profile-update")
        if changes and not update:
            comparison = nbp.compare(self._baseline(path), recording)
            outcomes.append(self._noted(comparison.expect(*changes, check=False)))
        for one in outcomes:
            one.check()
        if changes and update:  # a recording beyond the limits must not become the baseline
            path.parent.mkdir(parents=True, exist_ok=True)
            recording.save(path)

    def baseline_path(self, number: int = 0) -> Path:
        """Return the path of the baseline of a test's n-th recording."""
        folder = self._item.config.getoption("--profile-baselines")
        home = Path(folder) if folder else self._item.path.parent / _FOLDER
        name = re.sub(r"[^\w.\[\]-]+", "_", self._item.nodeid.rpartition("/")[2])[:100]
        which = f"-{number + 1}" if number else ""
        return home / f"{name}-{zlib.crc32(self._item.nodeid.encode()):08x}{which}.nbprof.zip"

    def _baseline(self, path: Path) -> Profile:
        __tracebackhide__ = True
        import notebook_prof as nbp

        if not path.exists():
            pytest.fail(
                f"there is no baseline to compare with: {path} does not exist. "
                "Run this test once with --profile-update, on the machine where it is compared.",
                pytrace=False,
            )
        baseline: Profile = nbp.open_profile(path)
        return baseline

    def _noted(self, outcomes: Expectations) -> Expectations:
        """Attach the measured values to the test, for JUnit files and other plugins."""
        for expectation, text in zip(outcomes.table["expectation"], outcomes.lines, strict=True):
            self._item.user_properties.append((f"profile: {expectation}", text))
        return outcomes


class RecordedBlock:
    """Records a ``with`` block. Gives the Profile, which is usable after the block."""

    def __init__(self, recording: nbp.profile, judge: Callable[[Profile], None]) -> None:
        self._recording, self._judge = recording, judge

    def __enter__(self) -> nbp.profile:
        return self._recording.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> bool:
        __tracebackhide__ = True
        ended: bool = self._recording.__exit__(kind, error, trail)
        if error is None or ended:
            self._judge(self._recording.cycles[-1])
        return ended


def _texts(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


@pytest.fixture
def profile(request: pytest.FixtureRequest) -> Recorder:
    """Record blocks of the test: ``with profile(steps="3:14", expect="step p50 < 120ms") as p: …``."""
    return Recorder(request.node)


def _joined(markers: Sequence[pytest.Mark]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the collectors and options of a test's markers."""
    # expectations accumulate, from the module's marker to the test's; for collectors and other options, the
    # nearest marker that has them counts
    collectors = next((marker.args for marker in markers if marker.args), ())
    options: dict[str, Any] = {}
    for marker in reversed(markers):
        limits = {name: _texts(marker.kwargs.get(name, ())) for name in ("expect", "baseline")}
        before = {name: options.get(name, []) for name in limits}
        options |= dict(marker.kwargs)
        options |= {
            name: [*before[name], *(text for text in texts if text not in before[name])]
            for name, texts in limits.items()
        }
    return collectors, options


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Drop the results of an earlier attempt, if a plugin reruns failed tests."""
    item.user_properties[:] = [one for one in item.user_properties if not one[0].startswith("profile: ")]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Record the call of a test with the marker, and check the marker's expectations."""
    markers = [*item.iter_markers("profile")]
    if not markers:
        yield
        return
    outcome: Any = None
    try:
        collectors, options = _joined(markers)
        with Recorder(item)(*collectors, **options):
            outcome = yield
            if outcome.excinfo is not None:
                raise _TestFailed
    except _TestFailed:
        pass  # pytest reports its exception
    except (Exception, pytest.fail.Exception) as error:
        if outcome is None:
            outcome = yield  # the recording could not begin
        if outcome.excinfo is None:
            judged = isinstance(error, AssertionError)  # the error's text says what failed
            outcome.force_exception(pytest.fail.Exception(str(error), pytrace=False) if judged else error)


class _TestFailed(Exception):
    """The test has raised: nothing is judged."""
