"""Numbers to text and back."""

import math

import pytest

from notebook_prof.errors import OptionError
from notebook_prof.units import format_bytes, format_ns, format_share, parse_ns


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
        (3_600_000_000_000, "60 min"),
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
