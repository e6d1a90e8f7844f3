"""A soak test: ``make soak``.

Profiles, displays, messages of pages, interrupts, reloads and kills in real kernels, in an order that is
drawn from a seed, round after round. What is measured after each round is judged by `tests.soak.laws`.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from .cells import KINDS
from .kernel import Deed, Soaked, Stuck
from .laws import FIRST, LEAST, Broken, can_be_judged, judged, slope_mb
from .playing import Figures, Player

LIFE: Final = 40
"""Rounds of a kernel that is judged; two kernels that die early follow each."""


def say(text: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def live(folder: Path, rounds: int, until: float, draw: random.Random, figures: Figures) -> bool:
    """One kernel from its start to its end; whether it was judged."""
    kernel = Soaked(folder)
    player = None
    try:
        player = Player(kernel, draw, figures)
        if rounds >= FIRST:
            player.warm()
        while len(player.rounds) <= rounds and time.monotonic() < until:
            one = player.play()
            say(
                f"round {one.number:3}: {one.profiles:4} profiles, {one.memory_bytes / 1e6:7.1f} MB, "
                f"{one.used_bytes / 1e6:6.1f} MB in use, {one.blocks / 1e3:5.0f}k blocks, "
                f"{one.counts['threads']} threads, {one.counts['descriptors']} descriptors; "
                f"{', '.join(one.actions)}"
            )
        figures.broken += end(kernel, player, draw, figures, by_force=time.monotonic() < until)
    except Stuck as stuck:
        actions = "; ".join(player.actions) if player is not None else "its start"
        figures.broken.append(Broken("answers", f"{stuck} after {actions}\n{kernel.stacks()}"))
        kernel.kill()
    finally:
        kernel.close()
    if player is None:
        return False
    figures.broken += judged(player.rounds)
    if can_be_judged(player.rounds):
        figures.slopes_mb.append(slope_mb(player.rounds))
    return can_be_judged(player.rounds)


def end(
    kernel: Soaked, player: Player, draw: random.Random, figures: Figures, by_force: bool
) -> list[Broken]:
    """End a kernel in the middle of a profiled cell, or as a user does; and see what remains."""
    if by_force:
        kind, after_s = draw.choice(KINDS), draw.uniform(0, 0.7)
        deeds: list[Deed] = [(after_s, kernel.kill)]
        kernel.cell(kind.source(draw.random() < 0.5), "one", deeds)
        kernel.kill()  # where the cell was shorter
        how = f"killed {after_s:.2f} s after the begin of {kind.name}"
        figures.done["kernels killed"] += 1
    else:
        kernel.manager.shutdown_kernel()
        how = "shut down"
    say(f"kernel {how}")
    return [Broken("death", f"{how}: {left} remains") for left in kernel.after_death()]


def main() -> None:
    """Play for ``--seconds``, and say what does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1200)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--life", type=int, default=LIFE, help="rounds of a kernel that is judged")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    say(f"--seed {seed}")
    draw, figures, kernels, was_judged = random.Random(seed), Figures(), 0, False
    until = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory(prefix="nbp-soak-", ignore_cleanup_errors=True) as folder:
        while time.monotonic() < until:
            rounds = options.life if kernels % 3 == 0 else draw.randint(1, 2)
            was_judged |= live(Path(folder) / str(kernels), rounds, until, draw, figures)
            kernels += 1
    say("")
    for broken in figures.broken:
        say(broken.table())
    done = ", ".join(f"{count} {name}" for name, count in sorted(figures.done.items()))
    say(f"{kernels} kernels, {done}")
    say(f"memory: {', '.join(f'{slope:+.4f}' for slope in figures.slopes_mb) or 'nothing'} MB a profile")
    if not was_judged:
        say(f"no kernel lived for {FIRST + LEAST - 1} rounds: growth was not judged, give it more --seconds")
    say(f"{len(figures.broken)} laws are broken")
    sys.exit(bool(figures.broken) or not was_judged)


if __name__ == "__main__":
    main()
