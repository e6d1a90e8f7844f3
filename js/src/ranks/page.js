// The page of many ranks: linked figures, a table of the ranks, and the timelines of chosen ranks below, all under one
// selection. Figures are computed by the kernel: a thousand ranks are small once they are reduced.
import {mountDocument} from '../figures/document.js';
import {Header} from '../page/header.js';
import {mount} from '../page/mount.js';
import {fitOnPaper} from '../page/printing.js';
import {paintFigures, readTheme, watchTheme} from '../page/theme.js';
import {createTooltip} from '../page/tooltip.js';
import {Asker} from '../shared/asker.js';
import {element} from '../shared/elements.js';
import {formatNumbers} from '../shared/units.js';
import {RankList} from './list.js';
import {RankPanel} from './panel.js';

/** @typedef {import('../page/mount.js').Mounting} Mounting */

/** @type {Record<string, string>} */
const TROUBLES = {
  gone: 'The kernel that read these ranks has ended: run this cell again.',
  waiting: 'The kernel is busy: what you see is from before.',
  lost: 'The kernel does not answer. If it was restarted, run the cell again.',
};

/**
 * Make the elements of the page.
 * @param {HTMLElement} el
 */
function skeleton(el) {
  const root = element('div', 'nbp nbp-ranks', el);
  root.tabIndex = 0;
  root.setAttribute('role', 'region');
  root.setAttribute('aria-label', 'ranks: steps, lateness, communication and timelines');
  const parts = {
    root,
    head: element('div', 'nbp-head', root),
    trouble: element('div', 'nbp-trouble', root),
    grid: element('div', 'nbp-rank-grid', root),
    list: element('div', 'nbp-rank-list', root),
    below: element('div', 'nbp-rank-below', root),
  };
  parts.trouble.setAttribute('role', 'alert');
  parts.trouble.hidden = true;
  return parts;
}

/** The mounted page. */
class RankPage {
  /** @type {(() => void)[]} */ undo = [];
  /** @type {(() => void) | null} */ closeTimeline = null;
  closed = false;
  draws = 0;

  /**
   * @param {Mounting} mounting
   * @param {ReturnType<typeof skeleton>} parts
   * @param {Host} host
   * @param {Asker} asker
   * @param {Record<string, HTMLElement>} boxes
   */
  constructor(mounting, parts, host, asker, boxes) {
    const {el, store, transport} = mounting,
      settings = /** @type {RankSettings} */ (mounting.settings);
    this.mounting = mounting;
    this.parts = parts;
    this.host = host;
    /** @type {RankContext} */
    this.ctx = {
      host,
      settings,
      store,
      meta: {tracks: []},
      tooltip: createTooltip(parts.root),
      theme: readTheme(parts.root),
      open: (ranks) => this.open(ranks),
    };
    this.header = new Header(this.ctx, parts.head);
    /** @type {Record<string, RankPanel>} */
    this.panels = Object.fromEntries(settings.panels.map((panel) => [panel.name, new RankPanel(this.ctx, panel, boxes[panel.name])]));
    this.list = new RankList(this.ctx, parts.list);
    this.channel = asker.channel(
      () => ({t: 'ranks'}),
      (answer) => this.arrived(answer),
      (error) => this.say(`The ranks could not be drawn: ${error.message}`),
    );
    this.listen();
    Object.assign(el, {nbpRanks: (this.public = {store, panels: this.panels, transport, open: this.ctx.open, draws: 0, doc: host.doc, timeline: undefined})});
    this.repaint();
    this.channel.run();
  }

  /** @param {string} text */
  say(text) {
    this.parts.trouble.textContent = text;
    this.parts.trouble.hidden = !text;
  }

  /** @param {RanksAnswer} answer */
  arrived(answer) {
    if (this.closed) return;
    for (const [name, drawn] of Object.entries(answer.panels)) this.panels[name]?.draw(drawn);
    this.list.drawTable(answer.table);
    this.public.draws = ++this.draws;
  }

  /**
   * Open the timelines of some ranks below.
   * @param {number[] | null | undefined} ranks
   */
  async open(ranks) {
    const {Bokeh, transport, store} = this.mounting,
      {below} = this.parts;
    if (!ranks?.length || !this.list.hasTimelines) return;
    below.textContent = `reading rank ${formatNumbers(ranks)} …`;
    below.scrollIntoView?.({block: 'nearest'});
    // not through the asker: reading takes as long as it takes, and must not be asked for twice
    const answer = await transport.request({t: 'open', ranks}),
      opened = /** @type {OpenedTimelines} */ (/** @type {unknown} */ (answer.content));
    if (this.closed) return;
    this.closeTimeline?.();
    this.closeTimeline = null;
    below.replaceChildren();
    if (opened.failed) {
      this.say(`The timelines could not be opened: ${opened.failed}`);
      return;
    }
    this.say('');
    if (opened.select) store.set({rank: opened.select}, 'open'); // tables are of what is shown
    const inner = element('div', 'nbp-host', below);
    /** @type {Transport} */
    const line = {...transport, request: (message) => transport.request({...message, of: opened.of})};
    this.closeTimeline = await mount({Bokeh, el: inner, document: JSON.parse(opened.document), settings: opened.settings, transport: line, store});
    Object.assign(this.public, {timeline: /** @type {{nbp?: unknown}} */ (inner).nbp});
  }

  listen() {
    const {undo, panels} = this,
      {store} = this.mounting,
      {root, below} = this.parts;
    undo.push(watchTheme(root, () => this.repaint()));
    undo.push(
      store.subscribe((patch) => {
        this.header.draw();
        this.list.drawBar();
        for (const panel of Object.values(panels)) panel.frameWindow();
        if (Object.keys(patch).some((key) => ['rank', 'step', 'window', 'group'].includes(key))) this.channel.run();
      }),
    );
    const keys = (/** @type {KeyboardEvent} */ event) => {
      if (event.key === 'Escape' && !below.contains(/** @type {Node} */ (event.target))) store.clear('escape');
    };
    root.addEventListener('keydown', keys);
    undo.push(() => root.removeEventListener('keydown', keys));
    for (const panel of Object.values(panels)) undo.push(() => panel.close());
  }

  repaint() {
    this.ctx.theme = readTheme(this.parts.root);
    paintFigures(this.host.doc, this.ctx.theme);
  }

  close() {
    this.closed = true;
    this.closeTimeline?.();
    for (const action of this.undo.reverse()) action();
    this.host.dispose();
  }
}

/**
 * Mount the page of many ranks. Gives a function that takes it away.
 * @param {Mounting} mounting
 * @returns {Promise<() => void>}
 */
export async function mountRanks(mounting) {
  const {Bokeh, el, document: json, settings, transport} = mounting,
    parts = skeleton(el);
  const say = (/** @type {string} */ text) => {
    parts.trouble.textContent = text;
    parts.trouble.hidden = !text;
  };
  const asker = new Asker(transport, (state) => say(TROUBLES[state ?? ''] ?? ''));
  const {panels} = /** @type {RankSettings} */ (settings),
    boxes = Object.fromEntries(panels.map((panel) => [panel.name, element('section', 'nbp-rank-panel', parts.grid)])),
    figures = panels.map((panel) => element('div', 'nbp-rank-figure', boxes[panel.name]));
  /** @type {RankPage | null} */
  let page = null;
  const stopFitting = fitOnPaper(parts.root);
  let disposed = false;
  const dispose = () => {
    if (disposed) return;
    disposed = true;
    stopFitting();
    page?.close();
    asker.close();
    Reflect.deleteProperty(el, 'nbpRanks');
    el.replaceChildren();
  };
  let host;
  try {
    host = await mountDocument(Bokeh, json, figures);
  } catch (error) {
    say(`The ranks cannot be shown: ${/** @type {Error} */ (error).message}`);
    return dispose;
  }
  page = new RankPage(mounting, parts, host, asker, boxes);
  return dispose;
}
