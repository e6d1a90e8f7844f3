"""Rounds: what users do with one kernel, in an order that is drawn, and what is measured after each."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from . import page
from .cells import KINDS, SETUP, Kind
from .kernel import Deed, Heard, Soaked
from .laws import FIRST, Broken, Measured
from .outside import Observed, until

CELLS: Final = ("one", "two", "three", "four")
"""Identities of the cells that show something: the notebook is short, and its cells are run again."""
PROFILES: Final = (4, 7)
"""How many cells are profiled in a round."""
KEPT: Final = ("kept.nbprof", "kept.nbprof.zip", "kept.json.gz", "kept.json")
QUESTIONS: Final = (
    "str(p.verdict)",
    "p.lines()",
    "p.account()",
    "repr(p)",
    "p.summary()",
    "p.plot.timeline()",
)
SETTLE: Final = 5
"""How many times it is measured before something counts as more than in earlier rounds."""
WHEN_INTERRUPTED: Final = (
    *("", "KeyboardInterrupt", "CancelledError", "RuntimeError", "CalledProcessError", "BrokenPipeError"),
)
"""How a cell may end then: children of the kernel are interrupted too, and who waits for them is told so."""
TIDY: Final = """
import ipywidgets
print([type(w).__name__ for w in ipywidgets.widgets.widget._instances.values()].count('ProfileWidget'))
ipywidgets.Widget.close_all()
p = q = values = out = pool = None
%reset -f out
multiprocessing.active_children(); gc.collect(); multiprocessing.active_children(); None
"""
"""A user who closes what is open; outputs that IPython keeps for ever would keep their Profiles.

The last line waits for children of an interrupted pool, which are the user's.
"""


@dataclass
class Figures:
    """What was done, and what was found."""

    done: Counter[str] = field(default_factory=Counter)
    broken: list[Broken] = field(default_factory=list)
    slopes_mb: list[float] = field(default_factory=list)


class Player:
    """Plays rounds with one kernel."""

    def __init__(self, kernel: Soaked, draw: random.Random, figures: Figures) -> None:
        self.kernel, self.draw, self.figures = kernel, draw, figures
        self.rounds: list[Measured] = []
        self.actions: list[str] = []
        self._profiles = 0
        self._took: dict[str, float] = {}
        self._highest: Counter[str] = Counter()
        self._log_read = self._homeless = 0
        self._details: dict[str, tuple[str, ...]] = {}
        self._must(SETUP)
        self._must("%%profile --quiet\n1 + 1")
        self.rounds.append(self.measure())

    def warm(self) -> None:
        """Do everything once: what is imported and cached at its first use is there before round 1."""
        for kind in KINDS:
            self.kernel.cell(kind.source(quiet=True))
            self._profiles += 1
        for kind in (one for one in KINDS if one.name in ("python", "training")):
            heard = self.kernel.cell(kind.source(quiet=False), CELLS[0])
            self._profiles += 1
            for model in heard.shown:
                self.kernel.ask(model, [*page.opening(self.draw), *page.tabs()])
        for name in KEPT:
            self._keep(name)
        for question in QUESTIONS:
            self._must(question)
        self.report()

    def play(self) -> Measured:
        """One round; gives what was measured after it."""
        self.actions = []
        draw = self.draw
        deeds: list[Callable[[], None]] = [self.profile] * draw.randint(*PROFILES)
        deeds += [self.show] * draw.randint(1, 2) + [self.look]
        deeds += [self.reload] * (draw.random() < 0.4) + [self.unload] * (draw.random() < 0.3)
        deeds += [self.keep] * (draw.random() < 0.3) + [self.report] * (draw.random() < 0.15)
        draw.shuffle(deeds)
        for deed in deeds:
            deed()
        self.tidy()
        self.read_log()
        self.rounds.append(self.measure())
        self.figures.done["rounds"] += 1
        return self.rounds[-1]

    def profile(self) -> None:
        """Profile a cell of some kind; it may be shown, interrupted, or lose its py-spy."""
        kind, draw = self.draw.choice(KINDS), self.draw
        quiet = draw.random() < 0.5
        cell = draw.choice(("", *CELLS)) if not quiet else ""
        deeds: list[Deed] = []
        interrupted = draw.random() < 0.35
        took = self._took.get(kind.name, 0.5)
        if interrupted:
            deeds.append((draw.uniform(0, 1.1 * took), self.kernel.interrupt))
        if draw.random() < 0.15:
            deeds.append((draw.uniform(0, took), self._kill_py_spy))
        self._profiles += 1
        before = self.figures.done["py-spies killed"]
        heard = self.kernel.cell(kind.source(quiet), cell, deeds)
        killed = self.figures.done["py-spies killed"] - before
        if not interrupted and kind.name not in self._took:
            self._took[kind.name] = heard.seconds
        self.figures.done.update({"profiles": 1, "interrupts": interrupted, "lost answers": heard.lost})
        self.figures.done["interrupted cells"] += heard.error == "KeyboardInterrupt"
        self._note(
            f"{kind.name}{'' if quiet else ' shown'}{' interrupted' if interrupted else ''}"
            f"{' py-spy killed' if killed else ''}{' LOST' if heard.lost else ''}"
        )
        self._homeless += len(heard.shown) if not cell else 0
        self._check(kind, heard, interrupted)
        if kind.name == "reloads" and interrupted:
            self._must("%load_ext notebook_prof")  # an interrupt may have met IPython between its two halves
        self._converse(heard)

    def show(self) -> None:
        """Show the last Profile again, in a cell that is run once more, as a display or as a value."""
        code = self.draw.choice(["display(nbp.last)", "nbp.last"])
        heard = self._must(code, self.draw.choice(CELLS))
        self._note("display")
        self.figures.done["displays"] += 1
        self._converse(heard)

    def look(self) -> None:
        """Ask a Profile from Python."""
        question = self.draw.choice(QUESTIONS)
        self._must(f"p = nbp.last\n{question}\nNone")
        self._note(question)

    def reload(self) -> None:
        """``%reload_ext`` between cells."""
        self._must("%reload_ext notebook_prof")
        self._note("reload")
        self.figures.done["reloads"] += 1

    def unload(self) -> None:
        """``%unload_ext`` and ``%load_ext``, while traces may still be made and views be drawn."""
        self._must("%unload_ext notebook_prof")
        self._must("%load_ext notebook_prof")
        self._note("unload, load")
        self.figures.done["reloads"] += 1

    def keep(self) -> None:
        """Save the last Profile to a file and open that."""
        name = self.draw.choice(KEPT)
        self._keep(name)
        self._note(f"saved as {name}")

    def _keep(self, name: str) -> None:
        self._must(
            "import shutil, os\nif len(nbp.last.trace.slices):\n"
            f"    nbp.last.save({name!r})\n    q = nbp.open_profile({name!r}); str(q.verdict); display(q)\n"
            f"    shutil.rmtree({name!r}) if os.path.isdir({name!r}) else os.remove({name!r})",
            self.draw.choice(CELLS),
        )

    def report(self) -> None:
        """Write a report."""
        self._must("import os\nnbp.last.export.html('r.html'); os.remove('r.html')")
        self._note("report")

    def tidy(self) -> None:
        """Close all that is shown, and leave a small Profile as the last one."""
        self.kernel.cell("1 / 0  # IPython keeps the last error with all that its frames hold")
        heard = self._must(TIDY)
        views = int(heard.printed.split()[0])
        if views > len(CELLS) + self._homeless:
            self._break(
                "views", f"{views} are open; {len(CELLS)} cells, {self._homeless} shown without a cell"
            )
        self._homeless = 0
        self._must("%%profile --quiet\n1 + 1")
        self._profiles += 1
        self.figures.done["profiles"] += 1

    def measure(self) -> Measured:
        """Measure with the extension unloaded, so that nothing waits for the next recording."""
        # It is repeated a little later while something counts higher than in earlier rounds.
        self._waiting(self.kernel.inside(), self.kernel.processes.observe())
        self._must("%unload_ext notebook_prof")
        for again in range(SETTLE):
            inside = self.kernel.inside()
            observed = self.kernel.processes.observe()
            counts = _counts(observed, inside["objects"], inside["widgets"])
            processes = (*observed.children, *observed.beside, *observed.zombies)
            left = [*processes, *observed.shared, *observed.files]
            high = len(self.rounds) > FIRST and any(counts[n] > self._highest[n] for n in counts)
            if not left and not high:
                break
            until(lambda: False, again)
        self._must("%load_ext notebook_prof")
        if left:
            self._break("unloaded", f"still there after %unload_ext: {left}")
        self._highest |= Counter(counts)
        details = {**observed.lists, "threads": (*observed.threads, *inside["threads"])}
        return Measured(
            number=len(self.rounds),
            profiles=self._profiles,
            memory_bytes=observed.memory_bytes,
            blocks=inside["blocks"],
            used_bytes=inside["used_bytes"],
            counts=counts,
            state=inside["state"],
            details=self._news(details),
            actions=tuple(self.actions),
        )

    def _waiting(self, inside: dict[str, Any], observed: Observed) -> None:
        """Judge what waits for the next recording: a py-spy, and the thread that watches it."""
        if inside["working"]:
            self._break("threads", f"still at work a minute later: {inside['working']}")
        if inside["refused"]:
            self._note(f"py-spy refused: {inside['refused']}")
        watching = inside["threads"].count("notebook_prof py-spy")
        if watching > 1 or len(observed.beside) > 1:
            self._break("waiting", f"{watching} threads that watch a py-spy; {observed.beside}")

    def read_log(self) -> None:
        """What the kernel has written beside its answers is no place for errors."""
        text = self.kernel.log_text
        new, self._log_read = text[self._log_read :], len(text)
        for word in ("Fatal Python error", "please report", "Exception ignored"):
            if word in new:
                self._break("log", f"{word}: {new[new.index(word) :][:1500]}")
        if "Traceback" in new and "notebook_prof" in new:
            self._break("log", new[new.index("Traceback") :][:1500])
        self.figures.done["lines in logs"] += new.count("\n")

    def _converse(self, heard: Heard) -> None:
        """Let a page come to what was shown."""
        for model in heard.shown:
            if self.draw.random() < 0.2:
                continue
            questions = page.opening(self.draw)
            questions += page.questions(self.draw, self.draw.randint(2, 8))
            answers = self.kernel.ask(model, questions)
            self.figures.done["pages"] += 1
            if self.draw.random() < 0.1:
                self.kernel.tell(model, self.draw.choice(page.SHAPELESS))
            for question, answer in zip(questions, answers, strict=True):
                if answer is None:
                    self._break("messages", f"no answer to {question}")
        self.figures.done["messages"], self.figures.done["answers"] = (
            self.figures.done["messages"] + self.kernel.sent,
            self.figures.done["answers"] + self.kernel.received,
        )
        self.kernel.sent = self.kernel.received = 0
        for complaint in self.kernel.complaints:
            self._break("messages", complaint)
        self.kernel.complaints.clear()

    def _check(self, kind: Kind, heard: Heard, interrupted: bool) -> None:
        fits = heard.error in (WHEN_INTERRUPTED + kind.errors if interrupted else kind.errors)
        if not fits and not heard.lost:
            self._break("cells", f"{kind.name} ended with {heard.error_text or 'no error'}")
        ours = "Traceback" in heard.complaints and "notebook_prof" in heard.complaints
        if "please report" in heard.complaints or ours:
            self._break("cells", f"{kind.name} wrote {heard.complaints[-1500:]}")

    def _must(self, code: str, cell: str = "") -> Heard:
        heard = self.kernel.cell(code, cell)
        if heard.error:
            self._break("cells", f"{code!r:.120} ended with {heard.error_text:.300}")
        return heard

    def _kill_py_spy(self) -> None:
        self.figures.done["py-spies killed"] += self.kernel.kill_py_spy()

    def _news(self, details: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """What there is more of than in the round before."""
        before, self._details = self._details, details
        return {
            name: tuple((Counter(there) - Counter(before.get(name, ()))).elements())
            for name, there in details.items()
        }

    def _note(self, action: str) -> None:
        self.actions.append(action)

    def _break(self, law: str, sentence: str) -> None:
        at = Measured(len(self.rounds), self._profiles, actions=tuple(self.actions))
        self.figures.broken.append(Broken(law, sentence, (at,)))


def _counts(observed: Observed, objects: dict[str, int], widgets: int) -> dict[str, int]:
    counts = {name: len(there) for name, there in observed.lists.items()}
    counts |= {f"objects: {name}": count for name, count in objects.items()}
    return {**counts, "widgets": widgets}
