"""The previous run of a cell, and how much this one differs from it."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Final

from ..background import at_once
from ..errors import NotebookProfError
from .identity import Identity, Link, cell_hash, earlier_run, tokens
from .store import Store, environment_hash

if TYPE_CHECKING:
    from ..comparison.comparison import Comparison
    from ..comparison.run import Summary
    from ..profiles.profile import Profile
    from .change_sentence import Noise
    from .entry import HistoryRun

NAMES: Final = ("the run before", "this run")
OF_A_MACHINE: Final = ("computer", "devices", "cores", "torch threads", "Python", "PyTorch")
"""Conditions outside the code. Runs under different conditions say nothing about the noise between runs."""


class PreviousRun:
    """The run before a recording that has just ended."""

    # Nothing here raises: without a readable history there is none.

    # The comparison (60 modules) is imported only if there is an earlier run, so that the first result of a
    # kernel does not wait for it.

    def __init__(
        self,
        store: Store,
        me: Identity,
        options: str = "",
        failed: bool = False,
        *,
        load: float | None = None,
    ) -> None:
        self.store, self.me, self.options, self.failed, self.load = store, me, options, failed, load
        self._lock = threading.RLock()
        self._summary: Summary | None = None
        self._earlier: tuple[Link, HistoryRun] | None = None
        self._looked = False
        self._comparison: Comparison | None = None

    def summary(self, profile: Profile) -> Summary:
        """Return the totals of this run. They are computed once."""
        with self._lock, at_once():
            if self._summary is None:
                from ..comparison.run import TraceRun, summary_of

                self._summary = summary_of(TraceRun(profile), self.me.source)
            return self._summary

    def earlier(self) -> tuple[Link, HistoryRun] | None:
        """Return the previous run. It is looked up once."""
        with self._lock, at_once():
            if not self._looked:
                self._looked, self._earlier = True, None
                try:
                    link = earlier_run(self.store, self.me)
                    if link is not None:
                        from .entry import read_run

                        self._earlier = link, read_run(self.store, link.run)
                except NotebookProfError:  # the file is busy or broken: `history` reports that
                    pass
            return self._earlier

    def look_again(self) -> None:
        """Look up the previous run again."""
        # when cells run in quick succession, its row may have been written since
        with self._lock, at_once():
            was, self._looked = self._earlier, False
            now = self.earlier()
            if (None if was is None else was[1].run) != (None if now is None else now[1].run):
                self._comparison = None

    def noise(self, profile: Profile) -> Noise:
        """Return the factor that widens the interval between this run and the previous one."""
        from .change_sentence import Noise, noise_between
        from .entry import HistoryRun

        pair = self.earlier()
        if pair is None:
            return Noise(1.0, 0, False)
        run = HistoryRun(
            self.summary(profile).steps,
            {},
            kernel=self.me.kernel,
            environment=environment_hash(self.environment(profile))[0],
            load=self.load,
            at_ns=self.me.at_ns,
        )
        return noise_between(self.store, pair[1], run)

    def environment(self, profile: Profile) -> dict[str, str]:
        """Return the conditions that belong to the machine."""
        conditions = self.summary(profile).facts()
        return {name: conditions.get(name, "") for name in OF_A_MACHINE}

    def comparison(self, profile: Profile) -> Comparison | None:
        """Compare this run with the previous one; None if there is none."""
        with self._lock, at_once():
            if self._comparison is None and not self.failed and (pair := self.earlier()) is not None:
                from ..comparison.comparison import Comparison
                from ..comparison.run import Side

                sides = Side(pair[1], NAMES[0]), Side(self.summary(profile), NAMES[1])
                self._comparison = Comparison(*sides, noise=self.noise(profile).factor)
            return self._comparison

    def ratio(self, profile: Profile) -> float | None:
        """Return by how many half-widths this run differs from a previous one that is alike, else None."""
        pair = self.earlier()
        if pair is None or self.failed:
            return None
        before = pair[1]
        # alike: unchanged, and in the same kernel
        same = (
            tokens(self.me.source)
            and before.cell_hash == cell_hash(self.me.source)
            and before.kernel == self.me.kernel
            and before.options == self.options
            and before.environment == environment_hash(self.environment(profile))[0]
        )
        if not same:
            return None
        from ..comparison.run import Side
        from ..statistics import ratio_of_halves, shift_of_steps

        a, b = (Side(run, name).times() for run, name in ((before, "a"), (self.summary(profile), "b")))
        ratio = ratio_of_halves(shift_of_steps(a, b))
        return None if math.isnan(ratio) else ratio

    def sentence(self, profile: Profile) -> str:
        """Write what changed since the previous run; empty if there was none, or if nothing can be said."""
        compared = self.comparison(profile)
        pair = self.earlier()
        if compared is None or pair is None:
            return ""
        from ..comparison.run import core_share
        from .change_sentence import sentence

        share = [share for share in (core_share(profile.trace), pair[1].core_share) if share is not None]
        return sentence(compared, pair[0].why, self.noise(profile), min(share, default=1.0))
