"""Numbers to text and back."""

import math

import pytest

from notebook_prof.errors import OptionError
from notebook_prof.units import format_bytes, format_clock, format_ns, format_share, parse_ns
from notebook_prof.views.pictures.views import tick_step_ns


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (7, "7 ns"),
        (999.9, "1 µs"),
        (1_234, "1.23 µs"),
        (999_999, "1 ms"),
        (45_600_000, "45.6 ms"),
        (-45_600_000, "-45.6 ms"),
        (7_890_000_000, "7.89 s"),
        (125_000_000_000, "2 min 5 s"),
        (36_300_000_000_000, "10 h 5 min"),
        (3_599_600_000_000, "1 h"),
        (math.nan, "–"),
    ],
)
def test_a_duration_reads_in_the_unit_that_suits_it(ns: float, text: str) -> None:
    assert format_ns(ns) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (3 * 2**20, "3 MiB"),
        (-1536, "-1.5 KiB"),
        (2**60, "1024 PiB"),
    ],
)
def test_bytes_read_in_binary_units(count: int, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0.0 %"), (0.8231, "82.3 %"), (1, "100.0 %"), (1e-6, "<0.1 %")]
)
def test_a_share_reads_as_a_percentage_and_never_as_nothing(share: float, text: str) -> None:
    assert format_share(share) == text


@pytest.mark.parametrize(
    ("text", "ns"),
    [("5us", 5000), ("1.5 ms", 1_500_000), ("2s", 2 * 10**9), ("7", 7), (7.4, 7), ("1e3µs", 10**6)],
)
def test_a_duration_is_read_with_its_unit(text: str | float, ns: int) -> None:
    assert parse_ns(text) == ns


@pytest.mark.parametrize("text", ["", "us", "5 parsecs", "nan", float("inf")])
def test_what_is_no_duration_is_refused_with_the_units_that_are(text: str | float) -> None:
    with pytest.raises(OptionError, match=r"not a duration"):
        parse_ns(text)


CLOCKS = [
    ((0.0, 60e9, 7200e9), "0:00 h"),
    ((1000e9, 100e9, 5000e9), "0:17 h"),
    ((1000e9, 1e9, 5000e9), "0:16:40 h"),
    ((5400e9, 600e9, 5400e9), "1:30 h"),
    ((1000e9, 50e9, 1000e9), "16:40 min"),
    ((125.25e9, 0.01e9, 130e9), "2:05.25 min"),
    ((119.9996e9, 0.001e9, 130e9), "2:00.000 min"),
    ((59.9e9, 1e9, 130e9), "1:00 min"),
    ((3_599.6e9, 1e9, 4000e9), "1:00:00 h"),
    ((360_000e9, 3600e9, 360_000e9), "100:00 h"),
]
"""Arguments of `format_clock`, and its text."""


@pytest.mark.parametrize(("arguments", "text"), CLOCKS)
def test_a_position_on_a_long_axis_reads_as_a_clock(arguments: tuple[float, float, float], text: str) -> None:
    assert format_clock(*arguments) == text
    assert format_clock(-arguments[0], *arguments[1:]) == (f"-{text}" if arguments[0] else text)


@pytest.mark.parametrize(
    ("least_ns", "step_ns"),
    [
        (0.3, 0.5), (1, 1), (1_300, 2_000), (0.3e9, 0.5e9), (0.6e9, 1e9), (7e9, 10e9), (12e9, 15e9),
        (31e9, 60e9), (200e9, 300e9), (1500e9, 1800e9), (1801e9, 3600e9), (1e13, 10800e9), (9e13, 172800e9),
    ],
)  # fmt: skip
def test_ticks_stand_at_whole_parts_of_minutes_hours_and_days(least_ns: float, step_ns: float) -> None:
    assert tick_step_ns(least_ns) == step_ns
