// The page of a comparison: two timelines on one axis, what differs between them, and one selection over both.
import {Header} from '../page/header.js';
import {watchFocus} from '../page/input_focus.js';
import {attachKeyboard, helpPanel} from '../page/keyboard.js';
import {fitOnPaper} from '../page/printing.js';
import {watchTheme} from '../page/theme.js';
import {Asker} from '../shared/asker.js';
import {activeElement, element, textElement} from '../shared/elements.js';
import {isPicked} from '../shared/store.js';
import {createParts} from '../tabs/parts.js';
import {SharedAxis} from './axis.js';
import {butterfly, markPicked, sourceDiff} from './lists.js';
import {MemoryPair} from './memory.js';
import {ComparedSide, mountSide} from './side.js';
import {createSideStore, SIDES, startOf} from './side_store.js';
import {fromKernel} from './sources.js';
import {comparisonBar} from './toolbar.js';
import {Totals} from './totals.js';
import {Counterparts} from './words.js';

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
/** @type {Record<string, string>} */
const TROUBLES = {
  gone: 'The kernel that made this comparison has ended: what you see can no longer answer. Run this cell again.',
  waiting: 'The kernel is busy: what you see is from before.',
  lost: 'The kernel does not answer. If it was restarted, run the cell again.',
};

/**
 * Make the elements of the page.
 * @param {HTMLElement} el
 * @param {[string, string]} names
 */
function skeleton(el, names) {
  const root = element('div', 'nbp nbp-comparison nbp-loading', el);
  root.tabIndex = 0;
  root.setAttribute('role', 'region');
  root.setAttribute('aria-label', `comparison of ${names[0]} and ${names[1]}: timelines, differences, phases, stacks and source`);
  root.dataset.view = 'both';
  const head = element('div', 'nbp-head', root),
    trouble = element('div', 'nbp-trouble', root),
    bar = element('div', 'nbp-bar', root),
    pair = element('div', 'nbp-pair', root),
    sides = SIDES.map((side) => element('div', `nbp-compared nbp-compared-${side}`, pair)),
    titles = sides.map((box, i) => {
      const title = element('div', 'nbp-compared-title', box);
      element('i', `nbp-swatch nbp-swatch-${SIDES[i]}`, title);
      title.append(textElement('strong', '', names[i]), textElement('span', 'nbp-muted', ''));
      return title;
    }),
    timelines = sides.map((box) => element('div', 'nbp-figure nbp-timeline', box)),
    memoryTitle = element('div', 'nbp-compared-title', root),
    memory = element('div', 'nbp-figure nbp-memory nbp-memory-pair', root),
    below = element('div', 'nbp-differences', root);
  trouble.setAttribute('role', 'alert');
  trouble.hidden = true;
  return {
    root, head, trouble, bar, pair, titles, timelines, memoryTitle, memory, below,
    narrow: element('div', 'nbp-difference-lists', below),
    wide: element('div', 'nbp-difference-tables', below),
    pictures: element('div', 'nbp-difference-pictures', root),
  };
}

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
  /** @type {ReturnType<typeof butterfly>[]} */ lists = [];

  /**
   * @param {ReturnType<typeof skeleton>} boxes
   * @param {ComparisonSettings} settings
   * @param {Store} store
   * @param {ComparisonSource} source
   * @param {{store: Store, host: Host, meta: Meta, asker: Asker}[]} mounted
   */
  constructor(boxes, settings, store, source, mounted) {
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
      ctx = {...this.sides[1].ctx, store},
      parts = createParts(ctx, answer, pick);
    this.parts = parts;
    this.totals.take(answer);
    const add = (/** @type {string} */ title, /** @type {ReturnType<typeof butterfly>} */ list) => {
      const box = element('section', 'nbp-difference', boxes.narrow);
      box.append(textElement('div', 'nbp-part-title', title), list.element);
      this.lists.push(list);
    };
    if (answer.phases.length) add('Phases', butterfly(answer.phases, settings.names, pick));
    if (answer.source.length) add('Source', sourceDiff(answer.source, settings.names, pick));
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
        const now = JSON.stringify(this.aligned());
        if (now === before) return;
        before = now;
        this.bar.showSteps(this.aligned());
        this.showAligned();
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
    const resize = new ResizeObserver(() => {
      if (!root.offsetWidth) return;
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
        if (!this.help.hide()) this.store.clear('escape');
      },
    };
  }

  repaint() {
    for (const side of this.sides) side.repaint();
    this.memory.draw();
    this.parts?.theme();
  }

  close() {
    this.closed = true;
    clearTimeout(this.hintTimer);
    this.parts?.dispose();
    this.totals.close();
    this.memory.close();
    for (const action of this.undo.reverse()) action();
    for (const side of this.sides) side.close();
  }
}

/**
 * Mount the page of a comparison. Gives a function that takes it away.
 * @param {import('../page/mount.js').Mounting & {source?: ComparisonSource}} mounting
 * @returns {Promise<() => void>}
 */
export async function mountComparison({Bokeh, el, document: json, settings: given, transport, store, source = fromKernel(transport, store)}) {
  const settings = /** @type {ComparisonSettings} */ (given),
    documents = /** @type {Record<SideName, DocumentJson>} */ (/** @type {unknown} */ (json)),
    boxes = skeleton(el, settings.names),
    words = new Counterparts(settings.words),
    stores = SIDES.map((_, i) => createSideStore(store, /** @type {0 | 1} */ (i), words, source.own)),
    stopFitting = fitOnPaper(boxes.root);
  const say = (/** @type {string} */ text) => {
    boxes.trouble.textContent = text;
    boxes.trouble.hidden = !text;
  };
  /** @type {ComparisonPage | null} */
  let page = null;
  let disposed = false;
  const dispose = () => {
    if (disposed) return;
    disposed = true;
    stopFitting();
    page?.close();
    for (const one of stores) one.close();
    Reflect.deleteProperty(el, 'nbpComparison');
    el.replaceChildren();
  };
  try {
    const mounted = await Promise.all(
      SIDES.map(async (side, i) => {
        const asker = new Asker(await source.side(side, stores[i].store), (state) => say(TROUBLES[state ?? ''] ?? '')),
          places = i ? [boxes.timelines[i]] : [boxes.timelines[i], boxes.memory],
          [host, meta] = await mountSide(Bokeh, documents[side], places, asker);
        return {store: stores[i].store, asker, host, meta};
      }),
    );
    page = new ComparisonPage(boxes, settings, store, source, mounted);
    Object.assign(el, {nbpComparison: page});
  } catch (error) {
    say(`This comparison cannot be shown: ${/** @type {Error} */ (error).message}`);
  }
  return dispose;
}
