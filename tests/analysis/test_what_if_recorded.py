"""What if, on real recordings: what is predicted is what a second recording measures."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

import notebook_prof as nbp
from notebook_prof import Profile

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.clock("what a real run took is chance on a machine with other jobs")

ITEM, BODY = 0.004, 0.010
TRIES = 5
AGREES = 0.1


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Timing on a shared machine is steadier with one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Slow(torch.utils.data.Dataset[Any]):
    """Takes some time to read an item."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        return 72

    def __getitem__(self, index: int) -> Any:
        if self.seconds:
            time.sleep(self.seconds)
        return torch.full((16,), float(index))


def train(item: float, workers: int = 0, body: float = BODY) -> Profile:
    loader = torch.utils.data.DataLoader(Slow(item), batch_size=4, num_workers=workers)
    layer = torch.nn.Linear(16, 16)
    with nbp.profile("torch", steps=(4, 16)) as profile:
        for batch in nbp.steps(loader):
            time.sleep(body)
            layer(batch).sum().backward()
    return profile


def length(profile: Profile) -> float:
    """Median length of the steps: workers prepare the first ones while the recording is being started."""
    return float(profile.trace.steps["dur"].median())


def closest(predicted: float, again: Any) -> float:
    """By how much a prediction is off from the nearest of some recordings, up to the first that agrees."""
    errors: list[float] = []
    while len(errors) < TRIES and min(errors, default=1) >= AGREES:
        errors.append(abs(predicted / length(again()) - 1))
    return min(errors)


def test_input_that_costs_nothing_or_half() -> None:
    profile = train(ITEM)
    answer = profile.what_if(data=0)
    assert answer.gain is not None
    assert answer.gain > 0.4 * answer.before
    assert closest(float(answer.after or 0), lambda: train(0)) < AGREES
    answer = train(ITEM).what_if(phase={"data": 0.5})
    assert closest(float(answer.after or 0), lambda: train(ITEM / 2)) < AGREES


@pytest.mark.parametrize(("now", "then"), [(0, 1), (2, 0), (2, 1)])
def test_another_number_of_workers(now: int, then: int) -> None:
    answer = next(one for _ in range(TRIES) if not (one := train(ITEM, now).what_if(workers=then)).refused)
    assert closest(float(answer.after or 0), lambda: train(ITEM, then)) < AGREES
