"""Short labels for names, and the families by which names are coloured."""

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
    "MOST_LABELLED", "STEP_MARKS", "evaluates", "family", "family_code", "merged_label", "merged_name",
    "short_names", "track_label", "variants",
]  # fmt: skip
