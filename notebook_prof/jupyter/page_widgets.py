"""The widgets of the page of many ranks and of the page of a comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..views.bundle import script, stylesheet
from .widget import LinkedWidget

if TYPE_CHECKING:
    from ..comparison.comparison import Comparison
    from ..ranks.page.board import RankBoard


class RankWidget(LinkedWidget):
    """One display of the ranks' dashboard, and of the timelines opened in it."""

    _esm = script("rank_widget")
    _css = stylesheet() + stylesheet("ranks")

    def __init__(self, board: RankBoard, uid: str = "") -> None:
        from ..ranks.page import RankProtocol  # loads Bokeh

        answers = RankProtocol(board)
        settings = {**answers.settings(), "uid": uid}
        super().__init__(lambda: answers, board.selection, answers.document(), settings)


class ComparisonWidget(LinkedWidget):
    """One display of a comparison of recordings."""

    _esm = script("comparison_widget")
    _css = stylesheet() + stylesheet("comparison")

    def __init__(self, comparison: Comparison, uid: str = "") -> None:
        from ..comparison.page.queries import ComparisonProtocol

        answers = ComparisonProtocol(comparison)
        settings = {**answers.settings(), "uid": uid}
        super().__init__(lambda: answers, comparison.selection, answers.document(), settings)
