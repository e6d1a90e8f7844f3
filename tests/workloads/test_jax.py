"""Cells of JAX and Flax, in an environment without torch: see ``make test-workloads``."""

import re

from .conftest import Play, compared, needs, timed
from .laws import check_laws, check_statements


@timed
@needs("jax", "optax")
def test_jax(play: Play) -> None:
    run = play("jax")
    match = re.search(r"first ([\d.]+) rest ([\d.]+)", run.printed)
    assert match, run.printed
    # the first call compiles; the loop is both, to the two digits that the cell prints
    part_s = run.part_s(10, 13)
    assert abs(part_s - float(match[1]) - float(match[2])) <= 0.05 + 0.05 * part_s, run.account.to_string()
    check_laws(run)


@compared
@needs("flax", "optax")
def test_flax(play: Play) -> None:
    run = play("flax")
    assert run.printed.strip().splitlines()[-1] == "40"
    check_statements(run)
    check_laws(run)
