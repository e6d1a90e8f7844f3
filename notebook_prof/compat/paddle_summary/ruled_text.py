"""Tables of text between rules, with a title in the first one, as ``paddle.profiler`` prints them."""

from __future__ import annotations

from collections.abc import Sequence


class RuledTable:
    """Collects rows of fixed columns.

    Parameters
    ----------
    title : str
    widths : sequence of int
    heads : sequence of str
    unit : str, optional
        Written below the title.

    Examples
    --------
    >>> table = RuledTable("Device Summary", [20, 6], ["Device", "Use"])
    >>> table.row("CPU", "99.10")
    >>> print(table.text(closed=True).replace("  \\n", "\\n"))
    -------Device Summary-------
    --------------------  ------
    Device                Use
    --------------------  ------
    CPU                   99.10
    --------------------  ------
    """

    def __init__(self, title: str, widths: Sequence[int], heads: Sequence[str], unit: str = "") -> None:
        self._widths = list(widths)
        self._width = sum(widths) + 2 * len(widths) - 2
        self._lines = [self._titled(title)]
        if unit:
            self._lines.append(f"Time unit: {unit}")
        self.rule()
        self.row(*heads)
        self.rule()

    def rule(self) -> None:
        """A line under all columns."""
        self._lines.append("".join("-" * width + "  " for width in self._widths))

    def row(self, *cells: str) -> None:
        """A line of cells, as wide as they need."""
        self._lines.append("".join(f"{cell:<{w}}  " for cell, w in zip(cells, self._widths, strict=True)))

    def heading(self, text: str) -> None:
        """A title inside the table."""
        self._lines.append(self._titled(text))

    def line(self, text: str) -> None:
        """A line right below the title, above those that were put there before."""
        self._lines.insert(1, text)

    def text(self, *, closed: bool, note: str = "") -> str:
        """The table, two empty lines at the end; `note` goes below, with a rule of its own."""
        if closed:
            self.rule()
        if note:
            self._lines += [note, "-" * self._width]
        return "\n".join([*self._lines, "", "", ""])

    def _titled(self, text: str) -> str:
        left = (self._width - len(text)) // 2
        return "-" * left + text + "-" * (self._width - len(text) - left)
