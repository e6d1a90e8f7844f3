"""What is written on the screen for a name: short, and by which family it is coloured."""

from .names import (
    MOST_LABELLED,
    STEP_MARKS,
    evaluates,
    family,
    family_code,
    merged_label,
    merged_name,
    short_names,
    track_label,
    variants,
)

__all__ = [
    "MOST_LABELLED",
    "STEP_MARKS",
    "evaluates",
    "family",
    "family_code",
    "merged_label",
    "merged_name",
    "short_names",
    "track_label",
    "variants",
]
