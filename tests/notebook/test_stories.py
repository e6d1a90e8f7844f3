"""The stories of the gallery, each run in a kernel from its first cell to its finding."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.notebook.conftest import COMPLETE_NAMES, Kernel, new_kernel

nbformat = pytest.importorskip("nbformat")

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
BUSY = "the machine may be busy with other work"
CLOCK = pytest.mark.clock(BUSY)
STORIES = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb") if ".executed" not in path.stem)
STORIES.remove("quickstart")


@pytest.fixture(scope="module")
def story_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel for all stories, in a copy of their folder."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("gallery") / "notebooks"
    shutil.copytree(NOTEBOOKS, folder, ignore=shutil.ignore_patterns(".notebook_prof", ".ipynb_checkpoints"))
    for made in new_kernel(tmp_path_factory.mktemp("ipython")):
        made.must(COMPLETE_NAMES)
        made.must(f"import os; os.environ['NOTEBOOK_PROF_HISTORY'] = {str(folder / 'history')!r}")
        made.must(f"os.chdir({str(folder)!r})")
        yield made


def finding_of(kernel: Kernel, story: str, expression: str, short: tuple[str, str] = ("", "")) -> Any:
    """Run a story from an empty namespace, check that it ends with a number, and give what variables hold."""
    # A part of its text may be replaced by what runs for a shorter time.
    kernel.must("%reset -f")
    printed = ""
    for cell in nbformat.read(NOTEBOOKS / f"{story}.ipynb", as_version=4).cells:
        if cell.cell_type == "code":
            reply = kernel.run(cell.source.replace(*short))
            assert reply.ok or "raises-exception" in cell.metadata.get("tags", ()), (cell.source, reply)
            printed = reply.stdout
    assert any(sign.isdigit() for sign in printed), f"{story} ends without a number: {printed!r}"
    return json.loads(kernel.must(f"import json; print(json.dumps({expression}, default=float))").stdout)


@pytest.mark.parametrize("story", ["pandas_cell", "which_line", "starving_loader", "did_it_help"])
def test_a_story_whose_finding_is_a_time_runs(story_kernel: Kernel, story: str) -> None:
    """The clock needs six rounds of each way to tell them apart; without it two are enough."""
    finding_of(story_kernel, story, "1", short=("--rounds 6", "--rounds 2"))


@CLOCK
def test_the_line_that_takes_the_pandas_cell(story_kernel: Kernel) -> None:
    expression = "{'line': culprit.text, 'share': culprit.share, 'faster': was / now, 'rule': advice.rule}"
    finding = finding_of(story_kernel, "pandas_cell", expression)
    assert finding["line"] == 'fares["fare"] = fares.apply(price, axis=1)'
    assert finding["rule"] == "pandas-apply-rows"
    assert finding["share"] > 0.5
    assert finding["faster"] > 3


def test_what_a_notebook_holds_and_must_run_again(story_kernel: Kernel) -> None:
    expression = "{'held': largest['name'], 'again': list(again['name']), 'count': len(cells)}"
    finding = finding_of(story_kernel, "whole_notebook", expression)
    assert finding["held"].startswith("raw")
    again = [name.partition("] ")[2] for name in finding["again"]]
    assert [text.partition(" =")[0] for text in again] == ["tariff", 'rides["fare"]', "best"]
    assert finding["count"] == 8, "with that of nbp.notebook()"
    assert story_kernel.value("len(get_ipython().events.callbacks['pre_run_cell'])") == 1


@CLOCK
def test_what_run_all_costs(story_kernel: Kernel) -> None:
    expression = "{'slow': slow['name'], 'faster': slow['wall_ns'] / quick['wall_ns']}"
    finding = finding_of(story_kernel, "whole_notebook", expression)
    assert "pd.Timestamp(" in finding["slow"]
    assert finding["faster"] > 1.5


@CLOCK
def test_the_line_of_the_transformer(story_kernel: Kernel) -> None:
    expression = (
        "{'line': culprit.text, 'cost': culprit.cost, 'backward': culprit.backward_ns / culprit.self_ns,"
        " 'faster': was / now}"
    )
    finding = finding_of(story_kernel, "which_line", expression)
    assert "self.distance[" in finding["line"]
    assert finding["cost"] > 0.3
    assert finding["backward"] > 0.5, "most of it comes in the backward, where no line of the model runs"
    assert finding["faster"] > 1.2


def test_what_keeps_the_memory(story_kernel: Kernel) -> None:
    expression = (
        "{'name': culprit['name'], 'line': culprit.created_line, 'step': growth(p), 'after': growth(after),"
        " 'at_error': locals_['bytes'].tolist(), 'steps': len(p.steps())}"
    )
    finding = finding_of(story_kernel, "out_of_memory", expression)
    assert finding["name"] == "validation[] › AddmmBackward0"
    assert finding["line"] == "cell:10"
    saved = 2 * 1024 * 512 * 4
    assert saved <= finding["step"] < 1.1 * saved
    assert finding["after"] < 4096
    assert sorted(finding["at_error"])[-2:] == [2_000_000 * 16 * 4] * 2, "the points, and the centred points"


@CLOCK
def test_the_loader_that_starves_the_model(story_kernel: Kernel) -> None:
    expression = (
        "{'bound': bounds.bound, 'best': best, 'faster': now / was, 'sentence': alone.verdict.sentence,"
        " 'waits': [data_share(alone), data_share(crew)]}"
    )
    finding = finding_of(story_kernel, "starving_loader", expression)
    assert finding["bound"] == "storage"
    assert "`time.sleep(0.005)`" in finding["sentence"]
    assert 1 <= finding["best"] <= 16
    assert finding["waits"][0] > 0.2
    assert finding["faster"] > 1.1


@CLOCK
def test_the_change_that_helped(story_kernel: Kernel) -> None:
    expression = "{'change': scaling.change, 'line': scaling.lines['text'][0], 'placebo': placebo.interval}"
    finding = finding_of(story_kernel, "did_it_help", expression)
    assert finding["change"] < -0.5
    assert finding["line"] == "x = (x - x.mean(0)) / x.std(0)"
    low, high = finding["placebo"]
    assert low < 0.05
    assert high > -0.05


def test_the_late_rank(story_kernel: Kernel) -> None:
    expression = (
        "{name: culprit[name] for name in ('last_count', 'collectives', 'mean_late_ns', 'before')}"
        " | {'rank': int(culprit['rank']), 'waited': waited}"
    )
    finding = finding_of(story_kernel, "late_rank", expression)
    assert (finding["rank"], finding["before"]) == (5, "read shard")
    assert finding["last_count"] == finding["collectives"] == 5
    assert finding["mean_late_ns"] == pytest.approx(60e6, rel=0.1), "planted: 60 ms"
    assert finding["waited"] == pytest.approx(7 * 53, rel=0.05)


def test_recordings_of_other_frameworks(story_kernel: Kernel) -> None:
    expression = "{'table': table.to_dict(), 'suspect': suspect['name']}"
    finding = finding_of(story_kernel, "other_frameworks", expression)
    shares = finding["table"]["share"]
    assert shares == pytest.approx({"MegEngine": 0.81, "Paddle": 0.59, "MindSpore": 0.58}, abs=0.01)
    assert finding["table"]["backward / forward"]["MegEngine"] == pytest.approx(23.07, abs=0.01)
    assert finding["suspect"] == "MapOp_2"


def test_the_device_that_copies(story_kernel: Kernel) -> None:
    expression = (
        "{'kind': p.verdict.kind, 'bytes': size, 'ratio': device.memory_ns / device.compute_ns,"
        " 'fetched': fetched['device_ns'].sum() / device.memory_ns}"
    )
    finding = finding_of(story_kernel, "idle_gpu", expression)
    assert finding["kind"] == "copy-bound"
    assert finding["bytes"] == 25_475_253_792
    assert finding["ratio"] == pytest.approx(42.01, abs=0.01)
    assert finding["fetched"] > 0.4


@pytest.mark.parametrize("story", [*STORIES, "quickstart"])
def test_a_story_is_kept_without_outputs(story: str) -> None:
    book = nbformat.read(NOTEBOOKS / f"{story}.ipynb", as_version=4)
    nbformat.validate(book)
    assert book.cells[0].source.startswith("# ")
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in book.cells)
