"""Recording CUDA's activity through the user's own libcupti, where no torch for CUDA does it for us."""

from .arena import possible
from .find import find_library
from .layouts import VERSIONS
from .library import Cupti, CuptiError
from .session import CuptiSession

__all__ = ["VERSIONS", "Cupti", "CuptiError", "CuptiSession", "find_library", "possible"]
