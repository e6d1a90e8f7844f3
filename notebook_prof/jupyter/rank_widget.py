"""The widget that hosts the page of many ranks."""

from __future__ import annotations

from ..ranks.page import RankProtocol
from ..ranks.page.board import RankBoard
from ..views.bundle import script, stylesheet
from .widget import LinkedWidget


class RankWidget(LinkedWidget):
    """One display of the ranks' dashboard, and of the timelines that are opened in it.

    Parameters
    ----------
    board : RankBoard
    uid : str
        Marks the static output that the live view hides.
    """

    _esm = script("rank_widget")
    _css = stylesheet() + stylesheet("ranks")

    def __init__(self, board: RankBoard, uid: str = "") -> None:
        answers = RankProtocol(board)
        settings = {**answers.settings(), "uid": uid}
        super().__init__(lambda: answers, board.selection, answers.document(), settings)
