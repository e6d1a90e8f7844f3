"""Short labels for names, and the families by which names are coloured."""

from .names import MOST_LABELLED as MOST_LABELLED
from .names import STEP_MARKS as STEP_MARKS
from .names import evaluates as evaluates
from .names import family as family
from .names import family_code as family_code
from .names import merged_label as merged_label
from .names import merged_name as merged_name
from .names import short_names as short_names
from .names import track_label as track_label
from .names import variants as variants
