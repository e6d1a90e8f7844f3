"""What a comparison says of recordings: sums that hold exactly, and sentences that stand in its tables."""

from __future__ import annotations

import html.parser
import itertools
import json
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import notebook_prof as nbp
from notebook_prof.cli.main import main
from notebook_prof.comparison.comparison import Comparison
from notebook_prof.comparison.parts import KEYS
from notebook_prof.comparison.verdict import sentences, signed_ns
from notebook_prof.errors import ExpectationError, OptionError
from notebook_prof.testing import draw
from notebook_prof.trace import Trace, TraceBuilder

from .. import samples

RECORDED = ("cnn_sgd", "cnn_adam", "lm_adamw")


def recorded(data: Path, name: str) -> Path:
    return data / f"torch213_cpu/{name}.pt.trace.json.gz"


def means(c: Comparison) -> list[float]:
    table = c.steps[c.steps["used"]]
    return [float(table.loc[table["side"] == name, "dur_ns"].mean()) for name in c.names]


def check_sums(c: Comparison) -> None:
    """Every table's differences sum to that of the means, and its sides to the means themselves."""
    a, b = means(c)
    assert c.delta_ns == pytest.approx(b - a, abs=1)
    tables = {"phases": c.phases, "operators": c.operators, "lines": c.lines}
    tables |= {key: c.attribution(key) for key in KEYS}
    tables |= {"device": c.attribution("name", "device"), "all": c.attribution(KEYS)}
    for name, table in tables.items():
        assert table["delta_ns"].sum() == c.delta_ns, name
        assert table["a_ns"].sum() == pytest.approx(a, rel=1e-9, abs=1e-3), name
        assert table["b_ns"].sum() == pytest.approx(b, rel=1e-9, abs=1e-3), name
        assert (np.diff(table["delta_ns"].abs()) <= 0).all(), name
    assert c.stalls["delta_ns"].sum() == pytest.approx(b - a, rel=1e-9, abs=1e-3)


def check_sentences(c: Comparison) -> None:
    """What the verdict says stands in the tables."""
    said = sentences(c)
    text = " ".join(said)
    assert text == c.verdict
    assert ("≈" in said[0]) == (not c.significant and not math.isnan(c.interval[0]))
    assert (f"Only {100 * c.matched_share:.0f} %" in text) == (c.matched_share < 0.1)
    if c.significant:
        assert ("faster" in said[0]) == (c.change < 0)
    inside = r"(?:; by its own time the most in .*\((\S+ \S+)\))?"
    where = re.search(rf"The mean step changes by (\S+ \S+): (.*), all else (\S+ \S+){inside}\.(?: |$)", text)
    if where:
        if where[4]:
            assert where[4] in {signed_ns(delta) for delta in c.lines.query("significant")["delta_ns"]}
        of_lines = [table for table in (c.statements, c.lines) if (table["file"] != "").any()]
        table = of_lines[0] if of_lines else c.operators
        named = re.findall(r"\((?:new, |gone, )?([+−][\d.]+ \S+)\)", where[2])
        deltas = [int(delta) for delta in table.loc[table["significant"], "delta_ns"]]
        assert set(named) <= {signed_ns(delta) for delta in deltas}
        deltas = [delta for delta in deltas if signed_ns(delta) in named]
        whole = c.delta_ns
        assert where[1] == signed_ns(whole)
        sums = {a + b for a in [0, *deltas] for b in [0, *deltas]}
        assert where[3] in {signed_ns(whole - one) for one in sums}
    for one in c.conditions["what"]:
        assert one in text


@pytest.mark.parametrize(("a", "b"), [*itertools.combinations_with_replacement(RECORDED, 2)])
def test_differences_add_up(data: Path, a: str, b: str) -> None:
    c = nbp.compare(recorded(data, a), recorded(data, b))
    check_sums(c)
    check_sentences(c)
    back = nbp.compare(recorded(data, b), recorded(data, a))
    assert abs(back.delta_ns + c.delta_ns) <= 1
    assert back.shift.value == pytest.approx(-c.shift.value, abs=1e-9)
    key = ["phase", "name"]
    forth = c.operators.set_index(key)["delta_ns"]
    assert (back.operators.set_index(key)["delta_ns"] + forth).abs().max() <= 1
    if a == b:
        assert c.delta_ns == 0
        assert not c.significant
        assert set(c.operators["change"]) == {"same"}
        assert not c.attribution(KEYS)["significant"].any()


def check_comparisons(trace: Trace) -> None:
    """Against itself, where all is zero, and against a program that it is not."""
    own = nbp.Profile(trace)
    itself = nbp.compare(own, own)
    assert itself.delta_ns == 0
    assert not itself.attribution(KEYS)["delta_ns"].any()
    other = nbp.compare(own, nbp.Profile(samples.trace_of("data/torch213_cpu/cnn_sgd.pt.trace.json.gz")))
    check_sums(other)
    check_sentences(other)
    assert repr(other)


def training(
    factors: dict[str, float], seed: int, *, steps: int = 30, extra: int = 0, at: str = "cell:3  work(x)"
) -> Trace:
    """Steps of three statements of about 1 ms each, with 2 % noise; `factors` slow some of them down."""
    rng = np.random.default_rng(seed)
    builder = TraceBuilder()
    main, now = builder.track("main", tid=1), 1_000
    spans = []
    for _ in range(steps):
        begin = now
        for name in ("cell:2  load()", at, *(["cell:4  more()"] if extra else []), "cell:9  step()"):
            base = extra if "more" in name else 1e6
            dur = int(base * factors.get(name, 1.0) * math.exp(0.02 * rng.standard_normal()))
            builder.slices(ts=now, dur=dur, name=name, category="python", track=main)
            now += dur
        spans.append((begin, now - begin))
    ts, dur = zip(*spans, strict=True)
    builder.steps(list(range(steps)), ts, dur, "loop")
    return builder.seal()


def test_a_planted_change_is_found_at_its_operator() -> None:
    """Three runs a side, 20 % more in one of three statements."""
    a = [training({}, seed) for seed in range(3)]
    b = [training({"cell:3  work(x)": 1.2}, seed) for seed in range(10, 13)]
    c = nbp.compare(a, b)
    assert c.significant
    low, high = c.interval
    assert low <= 0.2 / 3 <= high
    top = c.operators.iloc[0]
    assert (top["name"], top["change"]) == ("work(x)", "slower")
    assert top["low_ns"] <= 0.2e6 <= top["high_ns"]
    assert not c.operators.iloc[1:]["significant"].any()
    check_sums(c)
    check_sentences(c)
    assert "b is 6." in c.verdict or "b is 7." in c.verdict
    assert "This is based on 3 and 3 runs." in c.verdict
    pairs = nbp.compare(a, b, paired=True)
    assert "This is based on 3 pairs of runs." in pairs.verdict
    assert pairs.change == pytest.approx(c.change)
    with pytest.raises(OptionError, match="as many runs of b as of a: there are 2 and 3"):
        nbp.compare(a, b[:2], paired=True)


def test_a_failed_expectation_names_the_rows_that_moved() -> None:
    """The planted line and its operator, each as in its table; nothing of what may be noise."""
    a = [training({}, seed) for seed in range(3)]
    b = [training({"cell:3  work(x)": 1.2}, seed) for seed in range(10, 13)]
    c = nbp.compare(a, b)
    table = c.expect("slower < 1%", "slower < 50%", check=False).table
    failed, passed = table["parts"]
    assert (table["outcome"].tolist(), passed) == (["fail", "pass"], ())
    row = c.operators.iloc[0]
    interval = f"({signed_ns(row['low_ns'])} … {signed_ns(row['high_ns'])})"
    assert f"slower: work(x) {signed_ns(row['delta_ns'])} {interval} (.operators)" in failed
    assert all("work(x)" in part or "line 3" in part for part in failed)
    with pytest.raises(
        ExpectationError, match=r"FAIL .*slower < 1%.*\n +· slower: line 3 .*\n +· slower: work"
    ):
        c.expect("slower < 1%")
    same = nbp.compare(a, [training({}, seed) for seed in range(20, 23)])
    assert same.expect("faster > 5%", check=False).table["parts"].tolist() == [()]


def test_what_is_new_moves_and_is_renamed() -> None:
    a = training({}, 1)
    b = training({}, 2, extra=500_000, at="cell:5  work(x)")
    c = nbp.compare(a, b)
    rows = c.operators.set_index("name")
    assert rows.loc["more()", "change"] == "new"
    assert rows.loc["more()", "a_ns"] == 0
    assert rows.loc["work(x)", "change"] == "same", "it stands on another line, and is the same statement"
    assert rows.loc["more()", "b_calls"] == 1
    check_sentences(c)


def test_two_runs_are_widened_and_reported() -> None:
    a, b = training({}, 1), training({}, 2)
    c = nbp.compare(a, b)
    assert c.shift.factor == pytest.approx(3 * math.sqrt(29 / 12))
    assert f"{c.shift.factor:.3g} times as wide" in c.verdict
    assert "%%profile_ab" in c.verdict


def test_a_stall_has_a_row_of_its_own() -> None:
    a, b = training({}, 1), training({}, 2)
    steps = b.steps.copy()
    slow = nbp.compare(a, _stalled(b, 17, 60_000_000))
    table = slow.stalls.set_index("part")
    assert table.loc["slow steps", "b_steps"] == 1
    assert table.loc["slow steps", "b_ns"] == pytest.approx(60e6 / 29, rel=0.02)
    assert "Slow steps (0 steps of a and 1 of b)" in slow.verdict
    assert abs(slow.change) < 0.1, "the shift is of the usual steps"
    assert len(steps) == 30
    check_sums(slow)


def _stalled(trace: Trace, step: int, ns: int) -> Trace:
    """The same steps with a pause in the middle of one."""
    builder = TraceBuilder()
    cut = int(trace.steps.loc[step, "ts"]) + 1_000_000
    ts = trace.slices["ts"].to_numpy()
    names, durs = trace.slices["name"].astype("str").tolist(), trace.slices["dur"].to_numpy()
    on = {"category": "python", "track": builder.track("main", tid=1)}
    builder.slices(ts=np.where(ts >= cut, ts + ns, ts), dur=durs, name=names, **on)
    begin = trace.steps["ts"].to_numpy()
    end = begin + trace.steps["dur"].to_numpy()
    begin, end = np.where(begin >= cut, begin + ns, begin), np.where(end >= cut, end + ns, end)
    builder.steps(trace.steps["step"].tolist(), begin, end - begin, "loop")
    return builder.seal()


def test_conditions_are_listed(data: Path) -> None:
    def made(**metadata: object) -> Trace:
        builder = TraceBuilder()
        builder.slices(ts=[0], dur=[10], name="mm", track=builder.track("main"))
        builder.metadata.update(metadata)
        return builder.seal()

    a = made(torch_version="2.12", devices=["A100"] * 8, machine={"torch_threads": 1})
    c = nbp.compare(a, made(torch_version="2.13", devices=["V100"], machine={"torch_threads": 4}))
    assert c.conditions[["what", "a", "b"]].values.tolist() == [
        ["devices", "8 × A100", "V100"],
        ["torch threads", "1", "4"],
        ["PyTorch", "2.12", "2.13"],
    ]
    check_sentences(c)


@pytest.mark.parametrize("wrong", [3, None, [None], [], ["a", 1]])
def test_what_is_no_recording_is_refused(wrong: object) -> None:
    trace = draw("main: [mm ]")
    with pytest.raises(
        (OptionError, FileNotFoundError), match=r"compare\(\)|nothing to compare|No such file"
    ):
        nbp.compare(trace, wrong)  # type: ignore[arg-type]


def test_unknown_keys_name_the_nearest() -> None:
    c = nbp.compare(draw("main: [mm ]"), draw("main: [mm ]"))
    with pytest.raises(OptionError, match="'phase'"):
        c.attribution("phases")
    with pytest.raises(OptionError, match="'device'"):
        c.attribution("name", "devices")
    with pytest.raises(OptionError, match="cannot divide by"):
        c.attribution(())


class Tags(html.parser.HTMLParser):
    """Whether every tag is closed by its own."""

    VOID = ("meta", "img", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        if tag == "img":
            assert str(dict(attrs)["src"]).startswith("data:image/png;base64,")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


PAIRS = [("cnn_sgd", "cnn_adam"), ("empty", "cnn_sgd"), ("odd_names", "threads")]


@pytest.mark.parametrize("pair", PAIRS)
def test_the_page_is_whole_and_asks_for_nothing(data: Path, tmp_path: Path, pair: tuple[str, str]) -> None:
    c = nbp.compare(*(recorded(data, name) for name in pair), names=("<before>", "after & more"))
    c.to_html(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert not {"link", "iframe", "svg"} & tags.names
    assert "<before>" not in text
    assert c._repr_html_() in text
    if "empty" in pair:  # there are no timelines to show
        assert "script" not in tags.names
        assert "http" not in text
    else:
        assert "default-src &#x27;none&#x27;; script-src &#x27;sha256-" in text


def test_recordings_that_took_no_time_are_compared(tmp_path: Path) -> None:
    b = nbp.TraceBuilder()
    b.slices(ts=0, dur=0, name="mark", track=b.track("main"), category="operator")
    profile = nbp.Profile(b.seal())
    nbp.compare(profile, profile).to_html(tmp_path / "both.html")
    assert "<h3>Steps</h3>" in (tmp_path / "both.html").read_text(encoding="utf-8")


def test_weights_without_a_unit_are_not_called_times(tmp_path: Path) -> None:
    for name, weight in (("a", 80), ("b", 60)):
        (tmp_path / f"{name}.folded").write_text(f"main;work {weight}\nmain;load 20\n")
    a, b = (str(tmp_path / f"{name}.folded") for name in "ab")
    assert str(nbp.compare(a, b).verdict).endswith(" Weights of a and b have no unit: 1 is shown as 1 ns.")


def test_the_command(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = (str(recorded(data, name)) for name in ("cnn_sgd", "cnn_adam"))
    assert main(["diff", a, b, "-t", "2", "--html", str(tmp_path / "d.html")]) == 0
    text = capsys.readouterr().out
    c = nbp.compare(a, b)
    assert text.startswith(c.verdict)
    assert "more" in text
    assert (tmp_path / "d.html").exists()
    assert main(["diff", a, f"{b},{b}", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert sum(row["delta_ns"] for row in printed["operators"]) == printed["delta_ns"]
    assert main(["diff", a, "no-such-file"]) == 2
    assert "no-such-file" in capsys.readouterr().err
    assert main(["diff", a, f"{b},", "-t", "0"]) == 0
    assert main(["diff", ",", b]) == 2
    assert "a has no recording" in capsys.readouterr().err
    assert main(["diff", "", b]) == 2
    assert "the path is empty" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["diff", a, b, "-t", "-3"])
    assert "'-3' is not a number of rows: 0 or more" in capsys.readouterr().err


def test_a_real_pair_from_other_hardware() -> None:
    """HTA's pair: A100 before and V100 after, with other code; figures worked out from the file."""
    folder = samples.ROOTS["shared"] / "hta/trace_diff"
    if not folder.exists():
        pytest.skip("../shared/traces is not here")
    c = nbp.compare(folder / "control.json.gz", folder / "test.json.gz")
    check_sums(c)
    check_sentences(c)
    assert c.steps.groupby("side")["used"].sum().tolist() == [5, 5]
    kernels = c.kernels.set_index("name")
    copies = kernels.loc["Memcpy DtoD (Device -> Device)"]
    assert copies["change"] == "more-often"
    assert kernels.loc["volta_sgemm_128x32_nt", "change"] == "new", "tensor cores were lost"
    assert c.conditions.set_index("what").loc["devices", "a"].startswith("8 × NVIDIA A100")
    assert isinstance(c.memory, pd.DataFrame)
