"""One declaration of options: what parses, what is refused and with which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from notebook_prof.errors import OptionError
from notebook_prof.jupyter.options import flags, help_text, parse
from notebook_prof.session.schedule import StepRange


def test_defaults() -> None:
    options = parse("")
    assert (options.name, options.steps, options.collectors, options.step_by) == (None, None, (), "auto")
    assert (options.quiet, options.stop_after, options.save, options.loop_line) == (False, False, None, None)
    recorded = options.recorded
    assert (recorded.shapes, recorded.memory, recorded.modules, recorded.stack) == (None, True, True, False)
    assert (recorded.python, recorded.min_duration_ns) == (None, 0)


def test_everything_at_once() -> None:
    options = parse(
        "p --steps 3:14 --with torch,system --step-by optimizer --no-shapes --no-memory --no-modules --stack "
        "--python calls --warmup 2 --stop-after --min-duration 5us --quiet --save 'my run.nbp'"
    )
    assert (options.name, options.steps) == ("p", StepRange(3, 14, 2))
    assert (options.collectors, options.step_by) == (("torch", "system"), "optimizer")
    recorded = options.recorded
    assert (recorded.shapes, recorded.memory, recorded.modules, recorded.stack) == (False, False, False, True)
    assert (recorded.python, recorded.min_duration_ns) == ("calls", 5000)
    assert (options.stop_after, options.quiet, options.save) == (True, True, Path("my run.nbp"))


def test_a_line_means_to_step_by_the_loop() -> None:
    assert (parse("--loop 7").loop_line, parse("--loop 7").step_by) == (7, "loop")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--stpes 3:4", "no option --stpes; did you mean '--steps'"),
        ("--stop_after", "did you mean '--stop-after'"),
        ("--save=f --shape", "'--shapes'"),
        ("--bogus-thing=3", "no option --bogus-thing; choose from"),
        ("p q", "at most one NAME"),
        ("3p", "name of a variable"),
        ("class", "name of a variable"),
        ("--steps", "expected one argument"),
        ("--steps 5:3", "contains no step"),
        ("--steps many", "cannot be understood"),
        ("--steps 3:4 --warmup 0", "warm"),
        ("--step-by optimiser", "optimizer"),
        ("--min-duration soon", "not a duration"),
        ("--loop 3 --step-by mark", "contradict"),
        ("'unfinished", "cannot be split"),
    ],
)
def test_what_is_wrong_is_said(line: str, words: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse(line)
    assert str(caught.value).startswith("%%profile: ")
    assert words in str(caught.value)


def test_help_names_every_option() -> None:
    text = help_text()
    assert text.startswith("usage: %%profile")
    assert all(flag in text for flag in flags())
    assert "NAME" in text
    assert "NAME" not in help_text(named=False)
    assert max(map(len, text.splitlines())) <= 100
