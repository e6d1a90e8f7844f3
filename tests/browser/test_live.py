"""A recording that is watched and stopped while its cell runs, in JupyterLab."""

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from .desk import TORCH
from .goldens import REPOSITORY, UPDATES_IMAGES, image_path
from .jupyter_page import NotebookPage

SETUP = """\
%load_ext notebook_prof
import os, time, torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 30 * 30, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
images = torch.randn(1, 3, 32, 32).expand(960000, -1, -1, -1)
data = torch.utils.data.TensorDataset(images, torch.randint(0, 10, (960000,)))
loader = torch.utils.data.DataLoader(data, batch_size=16)

def good_enough(loss):
    time.sleep(PAUSE_S)
    return os.path.exists("enough")
""".replace("PAUSE_S", "0" if UPDATES_IMAGES else "0.05")
# With few steps a second, a slow browser takes its pictures before the size limit ends the recording.
# The picture of the documentation shows the training alone.
STEPS = 60000
TRAINING = """\
%%profile p
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if good_enough(loss):
        break
print("the cell has gone on to its end")
"""
HEAR = """() => {
    const {kernel} = window.jupyterapp.shell.currentWidget.context.sessionContext.session;
    window.heard = [];
    kernel.anyMessage.connect((_, {msg}) => window.heard.push({
        at: Date.parse(msg.header.date), type: msg.header.msg_type, comm: msg.content.comm_id ?? '',
        bytes: new Blob([JSON.stringify(msg.content)]).size, data: msg.content.data ?? {}})); }"""
COMMS_WAIT = """() => {
    const {kernel} = window.jupyterapp.shell.currentWidget.context.sessionContext.session;
    kernel.commsOverSubshells = 'disabled'; }"""
"""As with JupyterLab's setting: messages of comms wait until the cell has ended."""
CELL = "window.jupyterapp.shell.currentWidget.content.widgets[1]"
CUT = """() => [...document.querySelectorAll('.nbp-live-legend > span')].filter((label) => {
    const [inner, outer] = [label, label.closest('.nbp-live')].map((one) => one.getBoundingClientRect());
    return label.scrollWidth > label.clientWidth + 1 || inner.left < outer.left || inner.right > outer.right;
}).map((label) => label.textContent)"""


def _is_running(shown: NotebookPage) -> bool:
    return bool(shown.page.evaluate(f"() => {CELL}.model.executionState === 'running'"))


def _wait_step(shown: NotebookPage, least: int) -> int:
    """Wait until the display tells of a step; which."""
    shown.page.wait_for_function(
        "(n) => /step ([0-9]+)/.exec(document.querySelector('.nbp-live-progress')?.textContent)?.[1] >= n",
        arg=least,
    )
    return _step(shown)


def _step(shown: NotebookPage) -> int:
    match = re.search(r"step (\d+)", shown.part(".nbp-live-progress").inner_text())
    assert match
    return int(match[1])


def _check_phases(shown: NotebookPage) -> None:
    """All phases of a step are told with their shares, in the order in which a step has them."""
    labels = shown.part(".nbp-live-legend > span").all_inner_texts()
    matches = [re.fullmatch(r"(\w+) (\d+) %", label) for label in labels]
    shares = {match[1]: int(match[2]) for match in matches if match}
    assert list(shares) == ["data", "other", "backward", "optimizer"]
    assert abs(sum(shares.values()) - 100) <= 2, "each is rounded"
    assert shown.part(".nbp-live-phases > i").count() == 4


def _look(shown: NotebookPage) -> None:
    """No label may be cut, narrow and wide, light and dark; the wide and light one is the guide's picture."""
    page, cell = shown.page, shown.part(".jp-CodeCell").nth(1)
    page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 0; }")
    for theme, light in (("Dark", "false"), ("Light", "true")):
        shown.command("apputils:change-theme", theme=f"JupyterLab {theme}")
        page.wait_for_function(f"() => document.body.dataset.jpThemeLight === '{light}'")
        for width in (560, 1000):
            page.set_viewport_size({"width": width, "height": 900})
            cell.scroll_into_view_if_needed()
            page.mouse.move(3, 3)
            wide = (theme, width) == ("Light", 1000)
            name = "live.png" if wide else f"live-{theme.lower()}-{width}.png"
            cell.screenshot(path=image_path("live.png") if wide else REPOSITORY / "test-output" / name)
            assert page.evaluate(CUT) == [], (theme, width)


def _check_messages(heard: list[dict[str, Any]]) -> None:
    """At most 2 kB each and five a second; the rate and the end that they tell follow from their steps."""
    (comm,) = {one["comm"] for one in heard if "steps" in one["data"].get("state", {}).get("state", {})}
    messages = [one for one in heard if one["comm"] == comm and one["type"] == "comm_msg"]
    assert len(messages) >= 10
    assert max(one["bytes"] for one in messages) <= 2048
    times = [one["at"] for one in messages]
    assert max(sum(begin <= at < begin + 1000 for at in times) for begin in times) <= 5
    tells = [one["data"]["state"] for one in heard if one["comm"] == comm and "state" in one["data"]]
    states = [one["state"] for one in tells if "state" in one]
    for before, state in pairwise(states):
        assert state["steps"] >= before["steps"]
    for number, state in enumerate(states[7:], 7):
        assert state["step"] == state["steps"], "there is one loop"
        if state["rate"]:
            assert state["left"] == pytest.approx((STEPS - state["step"]) / state["rate"], rel=0.02)
        else:
            assert state["left"] is None, (
                "no step has ended for three seconds: on a busy machine the first takes long"
            )
        # of three seconds: as many steps a second as in one of the last halves of a second, and as few
        rates = [_rate(*pair) for pair in pairwise(states[number - 7 : number + 1])]
        assert 0.8 * min(rates) <= state["rate"] <= 1.25 * max(rates)


def _rate(before: dict[str, Any], state: dict[str, Any]) -> float:
    """Steps a second between two states, which tell tenths of seconds."""
    return float((state["steps"] - before["steps"]) / max(state["seconds"] - before["seconds"], 0.1))


def test_a_recording_is_watched_and_stopped_while_its_cell_runs(
    notebook: Callable[..., NotebookPage], tmp_path: Path
) -> None:
    """Steps, phases, rate and end are told meanwhile; the button ends the recording and not the cell."""
    pytest.importorskip("torch")
    enough = tmp_path / "enough"
    shown = notebook(
        "live.ipynb", SETUP.replace('"enough"', repr(str(enough))), TRAINING, kernel=TORCH, run=False
    )
    page = shown.page
    page.set_viewport_size({"width": 1000, "height": 900})
    shown.command("application:toggle-left-area")
    page.evaluate(HEAR)
    page.evaluate(COMMS_WAIT)
    page.evaluate("() => void window.jupyterapp.commands.execute('notebook:run-all-cells')")
    live = shown.part(".jp-CodeCell:nth-of-type(2) .nbp-live[data-state=recording]")
    live.wait_for()
    page.wait_for_function("() => document.querySelectorAll('.nbp-live-steps > i').length === 60")
    first = _step(shown)
    progress = rf"step \d+ of {STEPS} · [\d.]+ steps/s · about \d+ (s|min) left"
    shown.part(".nbp-live-progress", has_text=re.compile(progress)).wait_for()
    assert re.match(
        r"\d+ recorded · median of the last 60: ", shown.part(".nbp-live-steps + .nbp-live-note").inner_text()
    )
    _check_phases(shown)
    assert "loss.backward()" in shown.part(".nbp-live-lines").inner_text()
    assert _wait_step(shown, first + 1) > first
    assert _is_running(shown)
    shown.part(".nbp-live-stop:not([hidden]):enabled").wait_for()
    _look(shown)
    page.wait_for_function("() => window.heard.filter(({data}) => data.state?.state?.steps).length >= 10")
    shown.part(".nbp-live-stop").click()
    shown.part(".nbp-live-state", has_text="Recording stopped; the cell goes on").wait_for()
    stopped = _step(shown)
    assert _wait_step(shown, stopped + 10) < STEPS
    assert _is_running(shown)
    enough.touch()
    shown.wait_ready()
    assert not _is_running(shown)
    assert shown.part(".nbp-live").count() == 0
    outputs = str(shown.outputs(1))
    assert "the cell has gone on to its end" in outputs
    recorded, ended = map(int, shown.kernel("print(len(p.steps()), p.trace.metadata['steps_seen'])").split())
    assert 60 <= recorded <= ended - 10
    assert "it was stopped by hand" in shown.kernel("print(p.trace.report['ended-early'].example)")
    _check_messages(page.evaluate("() => window.heard"))
