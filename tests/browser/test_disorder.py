"""The page's store and channels against a line that delays, reorders and loses messages, in a bare page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from notebook_prof.views import bundle

from .jupyter_page import Browser

SOURCES = Path(bundle.__file__).parents[2] / "js" / "src" / "shared"
PATIENCE = "const RESEND_MS = 15000"

# A kernel that handles every message after a wait of its own (so that they overtake one another), answers
# after another, loses some, and whose Python writes too. The page clicks, and takes back what it has clicked.
LINE = """
async ({seed, loss}) => {
    let s = seed;
    const random = () => ((s = (s * 1103515245 + 12345) % 2147483648) / 2147483648);
    const wait = (ms) => new Promise((done) => setTimeout(done, ms * random()));
    const lost = () => random() < loss;
    const truth = {name: null, step: null, focus: null, revision: 0};
    const write = (patch) => {
        const changed = Object.keys(patch).some((k) => JSON.stringify(patch[k]) !== JSON.stringify(truth[k]));
        if (changed) Object.assign(truth, patch, {revision: truth.revision + 1});
        if (changed) { const state = {...truth}; wait(12).then(() => store.adopt(state)); }
    };
    const send = (patch) => new Promise((reply) => {
        const deliver = async () => {
            if (lost()) { setTimeout(deliver, 60); return; }
            await wait(12);
            write(patch);
            const state = {...truth};
            if (lost()) { setTimeout(deliver, 60); return; }
            await wait(12);
            reply({state});
        };
        deliver();
    });
    const transport = {request: (message) => new Promise(async (reply) => {
        if (lost()) return;
        await wait(12);
        const answer = {content: {...message, columns: [], saw: {...truth}, revision: truth.revision, ms: 0}};
        if (lost()) return;
        await wait(12);
        reply({...answer, buffers: []});
    })};
    const store = createStore({...truth}, send), asker = createAsker(transport, () => {});
    store.whenConfirmed(asker.confirm);
    const shown = {}, failures = [];
    const channels = ['lod', 'table', 'phases'].map((t) => asker.channel(
        () => ({t}), (answer) => { shown[t] = answer.saw; },
        (error) => failures.push(String(error)), DIMENSIONS));
    store.subscribe((patch) => {
        if (Object.keys(patch).some((k) => k !== 'focus')) for (const one of channels) one.run();
    });
    for (const one of channels) one.run();
    for (let k = 0; k < 30; k++) {
        const dimension = random() < 0.5 ? 'name' : 'step', value = [Math.floor(4 * random())];
        if (random() < 0.3) write({[dimension]: value});
        else {
            store.set({focus: k}, 'timeline');
            const now = store.get()[dimension];
            store.set({[dimension]: String(now) === String(value) ? null : value}, 'timeline');
            if (random() < 0.3) store.set({[dimension]: null}, 'timeline');
        }
        await wait(25);
    }
    const pick = ({name, step}) => JSON.stringify([name ?? null, step ?? null]);
    const right = () => [store.get(), ...Object.values(shown)].every((one) => pick(one) === pick(truth));
    for (let tries = 0; tries < 6000 && !right(); tries++) await new Promise((done) => setTimeout(done, 10));
    return {truth: pick(truth), store: pick(store.get()), failures,
            shown: Object.fromEntries(Object.entries(shown).map(([t, saw]) => [t, pick(saw)]))};
}
"""


@pytest.fixture
def bare(browser: Browser, request: pytest.FixtureRequest) -> Any:
    """A page with the store and the channels only; they ask again after 50 ms or what is asked."""
    page = browser.page.context.new_page()
    code = "".join((SOURCES / f"{name}.js").read_text() for name in ("packing", "store", "asker"))
    assert PATIENCE in code
    page.add_script_tag(content=code.replace(PATIENCE, f"const RESEND_MS = {getattr(request, 'param', 50)}"))
    yield page
    page.close()


@pytest.mark.parametrize(("bare", "loss"), [(15_000, 0.0), (50, 0.1)], indirect=["bare"])
def test_every_view_ends_with_what_is_selected(bare: Any, loss: float) -> None:
    for seed in range(1, 5):
        end = bare.evaluate(LINE, {"seed": 7919 * seed, "loss": loss})
        wanted = end["truth"]
        assert end["store"] == wanted, f"seed {seed}"
        assert end["shown"] == dict.fromkeys(("lod", "table", "phases"), wanted), f"seed {seed}"
        if not loss:
            assert end["failures"] == []


def test_a_click_taken_back_at_once_stays_taken_back(bare: Any) -> None:
    """The second of two quick changes says nothing of the revision that it is made on."""
    sent = bare.evaluate(
        """async () => { const sent = [];
            const send = (...told) => { sent.push(told); return new Promise(() => {}); };
            const store = createStore({name: null, revision: 4}, send);
            store.set({name: ['mm']}, 'table'); store.set({name: null}, 'table');
            return {sent, now: store.get().name}; }"""
    )
    assert sent == {"sent": [[{"name": ["mm"]}, "table"], [{"name": None}, "table"]], "now": None}


def test_late_news_ends_what_it_confirms(bare: Any) -> None:
    """Python has replaced what the page clicked before the page hears that its click has arrived."""
    names = bare.evaluate(
        """async () => { let reply; const names = [];
            const send = () => new Promise((done) => { reply = done; });
            const store = createStore({name: null, revision: 4}, send);
            store.set({name: ['mm']}, 'table');
            store.adopt({name: ['conv'], revision: 6});
            names.push(store.get().name);
            reply({state: {name: ['mm'], revision: 5}});
            await new Promise((done) => setTimeout(done, 10));
            names.push(store.get().name);
            return names; }"""
    )
    assert names == [["mm"], ["conv"]]


@pytest.mark.parametrize("bare", [15_000], indirect=True)
def test_what_is_still_summed_up_is_told_until_the_answer(bare: Any) -> None:
    told = bare.evaluate(
        """async () => { const told = []; let left = 3;
            const request = async (message) => ({buffers: [], content: {columns: [], seq: message.seq,
                ...(message.t === 'table' && left-- > 0 ? {pending: true} : {ms: 1})}});
            const asker = createAsker({request}, () => {}, (...news) => told.push(news));
            await asker.ask({t: 'lod'}); await asker.ask({t: 'table'}); told.push('answered');
            left = 2; await asker.ask({t: 'table'}, () => left > 0).catch(() => told.push('given up'));
            return told; }"""
    )
    once = [["table", True], ["table", False]]
    assert told == [*once, "answered", *once, "given up"]
