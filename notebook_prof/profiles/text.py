"""A Profile as plain text."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

import pandas as pd

from .. import analysis
from ..trace.trace import Trace
from ..units import cut, format_count, format_items, format_ns, format_share

_NAME_WIDTH: Final = 48
_EXAMPLE_WIDTH: Final = 120
_FINDINGS: Final = 3


class PlainText(str):
    """A str whose repr is the text itself, without quotes and escapes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def profile_text(trace: Trace, verdict: analysis.Verdict, trust: pd.DataFrame, lines: pd.DataFrame) -> str:
    """Return the verdict, the five hottest lines with bars, and the losses of the recording."""
    # a trace without slices gets the issues of its report instead
    if not len(trace.slices):
        return "\n".join([*verdict.lines, *map(str, trace.report)][:5])
    first, *further = verdict.lines
    shown = line_bars(lines) if further else ()  # one line is enough for a trivial cell
    return "\n".join(filter(None, [first, *shown, *further, trust_line(trust)]))


def line_bars(lines: pd.DataFrame, rows: int = 5) -> list[str]:
    """Return the hottest lines, each with a bar, its share, time, count and source."""
    shown = lines.head(rows)
    locations = [
        str(number) if file == "cell" else f"{base_name(file)}:{number}"
        for file, number in zip(shown["file"], shown["line"], strict=True)
    ]
    width = max(map(len, locations), default=0)
    counts = ["" if pd.isna(count) else f"{format_count(int(count))} ×  " for count in shown["count"]]
    count_width = max(map(len, counts), default=0)
    return [
        f"  {location.rjust(width)}  {_bar(share)}  {format_share(share).rjust(7)}"
        f"  {format_ns(total).rjust(7)}  {count.rjust(count_width)}{cut(text, _NAME_WIDTH)}".rstrip()
        for location, share, total, count, text in zip(
            locations, shown["share"], shown["total_ns"], counts, shown["text"], strict=True
        )
    ]


def summary_text(
    headline: str,
    account: pd.DataFrame,
    lines: pd.DataFrame,
    operators: pd.DataFrame,
    rows: int,
    *,
    of_notebook: bool = False,
) -> PlainText:
    """Summarise a Profile: headline, account, hottest lines, operators."""
    parts, titles = [headline], ("Account", "Lines")
    if of_notebook:  # shares are of all runs of its cells, as those of `lines` are
        titles = ("Cells, all runs", "Lines, all runs")
        account = account[account["kind"] == "code"]
        account = account.assign(share=account["dur"] / max(int(account["dur"].sum()), 1))
    if len(account) > 1:
        parts.append("\n".join([titles[0], *_account_lines(account)]))
    if len(lines):
        parts.append("\n".join([titles[1], *line_bars(lines, rows)]))
    if len(operators):
        parts.append(f"{operator_table(operators, 'name', rows)}")
    return PlainText("\n\n".join(parts))


def _account_lines(account: pd.DataFrame) -> list[str]:
    labels = [
        cut(" ".join(filter(None, dict.fromkeys(words))), _NAME_WIDTH)
        for words in zip(account["part"], account["text"], strict=True)
    ]
    width = max(map(len, labels))
    return [
        f"  {label.ljust(width)}  {_bar(share)}  {format_share(share).rjust(7)}  {format_ns(dur).rjust(7)}"
        for label, share, dur in zip(labels, account["share"], account["dur"], strict=True)
    ]


def _bar(share: float, width: int = 10) -> str:
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    full, part = divmod(eighths, 8)
    return ("█" * full + ("" if not part else " ▏▎▍▌▋▊▉"[part])).ljust(width)


def base_name(path: object) -> str:
    """Return a file's name without its folder."""
    return str(path).replace("\\", "/").rpartition("/")[2]


def trust_line(trust: pd.DataFrame) -> str:
    """Summarise the losses and errors of a trust report in one line; empty if there are none."""
    bad = trust[trust["severity"] != "info"]
    if not len(bad):
        return ""
    shown = bad.head(_FINDINGS)
    parts = list(map(_with_share, shown["finding"], shown["device_share"]))
    if len(bad) > _FINDINGS:
        parts.append(f"and {format_items(len(bad) - _FINDINGS, 'more finding')}")
    mark = "✗" if (bad["severity"] == "error").any() else "!"
    return f"{mark} Trust: {'; '.join(parts)}. p.trust says what to do."


def trust_lines(trust: pd.DataFrame) -> list[str]:
    """Return `trust_line`, then a line for each loss or error with its effect and advice."""
    first = trust_line(trust)
    bad = trust[trust["severity"] != "info"]
    columns = (bad[name] for name in ("code", "finding", "device_share", "effect", "advice", "example"))
    return [first, *(_explained(*row) for row in zip(*columns, strict=True))] if first else []


def _with_share(finding: str, share: float) -> str:
    return finding + (f" ({format_share(share)} of device time)" if share == share else "")


def _explained(code: str, finding: str, share: float, effect: str, advice: str, example: str) -> str:
    """Describe a finding with its effect on the numbers, what to do, and the first or worst example."""
    shown = f"for example: {cut(example, _EXAMPLE_WIDTH)}" if example else ""
    parts = [_with_share(finding, share), effect, advice, shown]
    sentences = (f"{part[0].upper()}{part[1:].rstrip('.')}." for part in parts if part)
    return f"{' '.join(sentences)} [{code}]"


def operator_table(operators: pd.DataFrame, by: str, rows: int) -> PlainText:
    """Format the first rows of the operators, labelled by the column `by`, and the number of others."""
    # device columns appear only if there is device time, and a last column with codes of the trust report
    # only if it doubts a row
    shown = operators.head(rows)
    columns = {
        by: ["–" if pd.isna(label) else cut(str(label), _NAME_WIDTH) for label in shown[by]],
        "calls": [format_count(int(count)) for count in shown["count"]],
        "self": [format_ns(value) for value in shown["self_ns"]],
        "share": [format_share(value) for value in shown["share"]],
        "total": [format_ns(value) for value in shown["total_ns"]],
    }
    if (operators["device_ns"] > 0).any():
        columns["device self"] = [format_ns(value) for value in shown["device_self_ns"]]
        columns["device total"] = [format_ns(value) for value in shown["device_ns"]]
    if "doubt" in shown:
        columns["doubt"] = list(shown["doubt"])
    lines = aligned([list(columns), *zip(*columns.values(), strict=True)], left=[0])
    if len(operators) > len(shown):
        lines.append(f"… and {format_count(len(operators) - len(shown))} more")
    return PlainText("\n".join(lines))


def aligned(rows: Sequence[Sequence[str]], left: Container[int] = ()) -> list[str]:
    """Format rows as lines. Columns are two spaces apart and right-aligned, except those in `left`."""
    pads = [str.ljust if i in left else str.rjust for i in range(len(rows[0]))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(pad(cell, width) for pad, cell, width in zip(pads, row, widths, strict=True)).rstrip()
        for row in rows
    ]
