// The page of a comparison: two timelines on one axis, what differs between them, and one selection over both.
import {Header} from '../page/header.js';
import {watchFocus} from '../page/input_focus.js';
import {attachKeyboard, helpPanel} from '../page/keyboard.js';
import {watchTheme} from '../page/theme.js';
import {activeElement, element, textElement} from '../shared/elements.js';
import {isPicked} from '../shared/store.js';
import {createParts} from '../tabs/parts.js';
import {SharedAxis} from './axis.js';
import {ComparedDetail} from './detail.js';
import {butterfly, markPicked, sourceDiff} from './lists.js';
import {MemoryPair} from './memory.js';
import {ComparedSide} from './side.js';
import {SIDES, startOf} from './side_store.js';
import {comparisonBar} from './toolbar.js';
import {Totals} from './totals.js';

const HINT_MS = 2500,
  ROOM = 0.04; // beside the aligned steps, of the longer one
const HELP = [
  ['F', 'flip: show the other side in the same place'],
  ['B', 'show both sides again, above one another'],
  ['W / S', 'zoom in / out at the pointer, on both sides'],
  ['A / D', 'pan left / right'],
  ['wheel', 'zoom (with Ctrl, or after a click in a timeline); Shift: pan'],
  ['drag', 'pan; Shift + drag: select a window of time on both sides'],
  ['click', 'select what has that name, on both sides; on a step: align it'],
  ['double-click', 'zoom to a slice'],
  ['0', 'show both recordings as a whole'],
  ['Esc', 'clear the selection'],
  ['?', 'this list'],
];

/** The mounted page. */
export class ComparisonPage {
  /** @type {(() => void)[]} */ undo = [];
  /** @type {Record<string, number>} */ counts = {};
  /** @type {number | null} */ pointer = null;
  mode = 'pan';
  inTimeline = false;
  hintTimer = 0;
  closed = false;
  axis = new SharedAxis();
  /** @type {[ComparedSide, ComparedSide]} */ sides;
  /** @type {ReturnType<typeof createParts> | null} */ parts = null;
  /** @type {Context | null} */ partsContext = null;
  /** @type {ReturnType<typeof butterfly>[]} */ lists = [];

  /**
   * @param {ReturnType<typeof import('./skeleton.js').skeleton>} boxes
   * @param {ComparisonSettings} settings
   * @param {Store} store
   * @param {ComparisonSource} source
   * @param {import('./words.js').Counterparts} words
   * @param {{store: Store, host: Host, meta: Meta, asker: Asker}[]} mounted
   */
  constructor(boxes, settings, store, source, words, mounted) {
    this.boxes = boxes;
    this.settings = settings;
    this.store = store;
    this.source = source;
    boxes.root.classList.remove('nbp-loading');
    const around = this.around(),
      made = mounted.map(
        ({store: own, host, meta, asker}, i) =>
          new ComparedSide({
            around, host, meta, asker, store: own, settings: settings.sides[SIDES[i]], box: boxes.timelines[i],
            start: () => startOf(store, /** @type {0 | 1} */ (i)),
          }),
      );
    this.sides = [made[0], made[1]];
    this.axis.sides = made;
    this.bar = comparisonBar(this, boxes.bar);
    const headContext = {settings, store, meta: {tracks: []}};
    this.header = new Header(/** @type {import('../page/header.js').HeaderContext} */ (headContext), boxes.head);
    this.totals = new Totals(this, this.header.totalsText);
    this.memory = new MemoryPair(this.sides, settings.names, boxes.memory, boxes.memoryTitle, () => this.colours());
    this.detail = new ComparedDetail(this, boxes.detail, words);
    this.help = helpPanel(boxes.root, HELP);
    this.listen();
    this.showAligned();
    for (const side of this.sides) side.refresh();
    this.memory.refresh();
    this.differences().catch((error) => this.trouble(error));
  }

  /** Colours of the sides, of the theme. @returns {[string, string]} */
  colours() {
    const {theme} = this.sides[0].ctx;
    return [theme.muted, theme.accent];
  }

  /** @returns {import('./side.js').Around} */
  around() {
    const {boxes, axis} = this;
    return {
      root: boxes.root,
      axis,
      hint: (text) => this.hint(text),
      trouble: (error) => this.trouble(error),
      inTimeline: () => this.inTimeline && boxes.root.contains(activeElement()),
      mode: () => this.mode,
      point: (at) => (this.pointer = at),
      align: (step) => this.alignAt(step),
      focused: (side) => this.focused(side),
      hoverLine: () => {},
      drawn: (name) => (this.counts[name] = (this.counts[name] ?? 0) + 1),
    };
  }

  /** @param {string} text */
  hint(text) {
    this.bar.hint.textContent = text;
    clearTimeout(this.hintTimer);
    if (text) this.hintTimer = setTimeout(() => (this.bar.hint.textContent = ''), HINT_MS);
  }

  /** @param {Error} error */
  trouble(error) {
    if (this.closed || !this.boxes.trouble.hidden) return;
    this.boxes.trouble.textContent = `A view could not be updated: ${error.message}`;
    this.boxes.trouble.hidden = false;
  }

  /** Numbers of the steps that are aligned. */
  aligned() {
    return SIDES.map((side, i) => this.settings.steps[side].find(([, ts]) => ts === startOf(this.store, /** @type {0 | 1} */ (i)))?.[0] ?? -1);
  }

  /**
   * Align a step that was clicked, of the side under the pointer.
   * @param {number} step
   */
  alignAt(step) {
    const [a, b] = this.aligned(),
      inB = this.boxes.timelines[1].matches(':hover');
    this.source.align(inB ? a : step, inB ? step : b);
  }

  /**
   * A side has another slice in focus, or none: then the other has none.
   * @param {ComparedSide} side
   */
  focused(side) {
    if (side.store.get().focus != null) this.sides[side === this.sides[0] ? 1 : 0].store.set({focus: null}, 'comparison');
    this.detail.update();
  }

  /** Show the aligned steps, and a little beside them. */
  showAligned() {
    const lengths = SIDES.map((side, i) => {
      const step = this.aligned()[i];
      return this.settings.steps[side].find(([number]) => number === step)?.[2] ?? 0;
    });
    const long = Math.max(...lengths, 1);
    this.axis.show(-ROOM * long, (1 + ROOM) * long);
  }

  /** Show the other side in the same place; both, where it is told so. @param {'both' | 'a' | 'b'} [view] */
  flip(view) {
    const {root} = this.boxes,
      now = root.dataset.view;
    root.dataset.view = view ?? (now === 'a' ? 'b' : 'a');
    this.bar.showView(root.dataset.view);
    this.hint(root.dataset.view === 'both' ? '' : `${this.settings.names[root.dataset.view === 'a' ? 0 : 1]} · F flips, B shows both`);
  }

  /**
   * A click on a row or a mark; the same again takes it away.
   * @param {SelectionPatch | null} patch
   */
  pick = (patch) => {
    if (!patch) return;
    const {store} = this,
      keys = Object.keys(patch);
    store.set(isPicked(store.get(), patch) ? Object.fromEntries(keys.map((key) => [key, null])) : patch, 'difference');
  };

  /** Ask what differs, and show it. */
  async differences() {
    const answer = await this.source.compared();
    if (this.closed) return;
    const {boxes, settings, store, pick} = this,
      ctx = (this.partsContext = {...this.sides[1].ctx, store}),
      parts = createParts(ctx, answer, pick);
    this.parts = parts;
    this.totals.take(answer);
    const add = (/** @type {string} */ title, /** @type {ReturnType<typeof butterfly>} */ list) => {
      const box = element('section', 'nbp-difference', boxes.narrow);
      box.append(textElement('div', 'nbp-part-title', title), list.element);
      this.lists.push(list);
    };
    if (answer.phases.length) add('Phases', butterfly(answer.phases, settings.names, settings.delta, pick));
    if (answer.source.length) add('Source', sourceDiff(answer.source, settings.names, settings.delta, pick));
    const second = answer.source.length ? boxes.wide : boxes.narrow; // where no source stands there is room beside
    parts.elements.forEach((part, i) => (parts.kinds[i] === 'picture' ? boxes.pictures : i === 1 ? second : boxes.wide).append(part));
    await parts.mount();
    this.redraw();
    this.counts.differences = 1;
  }

  redraw() {
    this.parts?.redraw();
    for (const {items} of this.lists) markPicked(items, this.store.get());
  }

  listen() {
    const {boxes, store, undo, sides, memory} = this,
      {root} = boxes;
    undo.push(watchTheme(root, () => this.repaint()));
    undo.push(
      store.subscribe(() => {
        this.header.draw();
        this.totals.draw();
        this.redraw();
        this.sides[0].asker.transport.flush?.();
      }),
    );
    undo.push(
      store.whenConfirmed((_, changed) => {
        const state = /** @type {ComparedState} */ (store.get());
        sides.forEach(({asker}, i) => asker.confirm(state[SIDES[i]]?.revision ?? 0, changed));
      }),
    );
    let before = JSON.stringify(this.aligned());
    undo.push(
      store.whenAdopted(() => {
        const {runs} = /** @type {ComparedState} */ (store.get()),
          now = JSON.stringify(this.aligned());
        if (now === before || runs?.some((run, i) => run !== this.settings.shown[i])) return; // a page of others is coming
        before = now;
        this.bar.showSteps(this.aligned());
        this.showAligned();
        this.detail.update();
      }),
    );
    sides[0].range.properties.start.change.connect(() => sides[0].host.frames.before(() => memory.moved()));
    sides[0].range.properties.end.change.connect(() => sides[0].host.frames.before(() => memory.moved()));
    undo.push(watchFocus(root, [...boxes.timelines, boxes.memory], (inside) => (this.inTimeline = inside)));
    undo.push(attachKeyboard(this.keyContext(), root));
    const both = (/** @type {KeyboardEvent} */ event) => {
      const inText = /^(INPUT|TEXTAREA|SELECT)$/.test(/** @type {HTMLElement} */ (event.composedPath()[0]).tagName);
      if (event.key.toLowerCase() === 'b' && event.isTrusted && !inText && !event.ctrlKey && !event.metaKey && !event.altKey) this.flip('both');
    };
    root.addEventListener('keydown', both);
    undo.push(() => root.removeEventListener('keydown', both));
    let width = sides[0].timeline.widthPx();
    const resize = new ResizeObserver(() => {
      const now = sides[0].timeline.widthPx();
      if (!root.offsetWidth || now === width) return;
      width = now;
      for (const side of sides) side.refresh();
      memory.refresh();
    });
    resize.observe(root);
    undo.push(() => resize.disconnect());
  }

  /** What keys do: as on the page of one recording, on both sides. @returns {Context} */
  keyContext() {
    const {ctx, start} = this.sides[0];
    return {
      ...ctx,
      pointerTime: () => (this.pointer === null ? null : this.pointer + start()),
      setView: (a, b) => {
        const [begin, end] = ctx.meta.span;
        if (a === begin && b === end) {
          const [first, last] = this.axis.whole();
          this.axis.show(first, last);
        } else ctx.setView(a, b);
      },
      fitSelection: () => this.flip(),
      help: () => this.help.toggle(),
      escape: () => {
        if (this.help.hide()) return;
        this.store.clear('escape');
        for (const {store} of this.sides) store.set({focus: null}, 'escape');
      },
    };
  }

  repaint() {
    for (const side of this.sides) side.repaint();
    this.memory.draw();
    if (this.partsContext) this.partsContext.theme = this.sides[1].ctx.theme;
    this.parts?.theme();
  }

  close() {
    this.closed = true;
    clearTimeout(this.hintTimer);
    this.parts?.dispose();
    this.totals.close();
    this.detail.close();
    this.memory.close();
    for (const action of this.undo.reverse()) action();
    for (const side of this.sides) side.close();
  }
}
