// One side of a comparison: its timeline, on the axis that both have.
import {formatTicks, mountDocument} from '../figures/document.js';
import {shownTrace} from '../page/context.js';
import {fetchMeta} from '../page/mount.js';
import {ResponsiveLayout} from '../page/responsive.js';
import {paintFigures, readTheme} from '../page/theme.js';
import {instantTexts, linesOf, showWindow} from '../page/wiring.js';
import {filters} from '../shared/store.js';
import {attachTimeGestures} from '../timeline/gestures.js';
import {Timeline} from '../timeline/timeline.js';
import {countFrom} from './axis.js';

const nothing = () => {};

/**
 * What a side asks of the page around it.
 * @typedef {object} Around
 * @property {HTMLElement} root
 * @property {import('./axis.js').SharedAxis} axis
 * @property {(text: string) => void} hint
 * @property {(error: Error) => void} trouble
 * @property {() => boolean} inTimeline
 * @property {() => string} mode
 * @property {(at: number | null) => void} point where the pointer is, from the aligned start
 * @property {(step: number) => void} align
 * @property {(side: ComparedSide) => void} focused
 * @property {(line: string) => void} hoverLine
 * @property {(name: string) => void} drawn
 */

/** A recording with its timeline. */
export class ComparedSide {
  /** @type {(() => void)[]} */ undo = [];
  closed = false;

  /**
   * @param {object} given
   * @param {Around} given.around
   * @param {Host} given.host
   * @param {Meta} given.meta
   * @param {Settings} given.settings
   * @param {Store} given.store
   * @param {Asker} given.asker
   * @param {() => number} given.start
   * @param {HTMLElement} given.box
   */
  constructor({around, host, meta, settings, store, asker, start, box}) {
    this.around = around;
    this.host = host;
    this.meta = meta;
    this.store = store;
    this.asker = asker;
    this.start = start;
    this.box = box;
    /** @type {BokehRange} */
    this.range = host.model('view');
    this.span = meta.span;
    this.ctx = this.context(settings);
    this.layout = new ResponsiveLayout(this.ctx, around.root);
    this.layout.fit();
    countFrom(host.model('timeline').above[0].ticker, start);
    for (const name of ['timeline_time', 'memory_time'])
      if (host.model(name)) formatTicks(host.model(name), (ticks) => instantTexts(ticks.map((t) => Math.round((t - start()) * 1e3) / 1e3)));
    this.timeline = new Timeline(this.ctx, box);
    this.listen();
    paintFigures(host.doc, this.ctx.theme);
    showWindow(this.ctx);
  }

  /**
   * @param {Settings} settings
   * @returns {Context}
   */
  context(settings) {
    const {around, host, meta, store, asker, range, start} = this,
      {root, axis} = around;
    return {
      ...shownTrace({host, settings, meta, store, asker, range, root}),
      search: nothing,
      count: around.drawn,
      trouble: around.trouble,
      hint: around.hint,
      hoverLine: around.hoverLine,
      reveal: nothing,
      takeFocus: () => root.focus({preventScroll: true}),
      inTimeline: around.inTimeline,
      mode: around.mode,
      pointerTime: () => null,
      settled: nothing,
      totals: nothing,
      setView: (a, b) => axis.show(a - start(), b - start()),
      zoom: (factor, at) => axis.zoom(factor, at - start()),
      fitSelection: nothing,
      showSelection: nothing,
      walk: async () => {},
      goTo: nothing,
      neighbour: async () => {},
      follow: nothing,
      why: nothing,
      whatIf: nothing,
      path: nothing,
      explain: nothing,
      goBack: nothing,
      copyAsPandas: async () => {},
      find: nothing,
      clearFind: nothing,
      measure: nothing,
      focusFilter: nothing,
      help: nothing,
      escape: nothing,
    };
  }

  listen() {
    const {ctx, undo, range, host, timeline} = this;
    undo.push(this.gesturesOn(this.box, timeline.view, (event, time) => timeline.hit(time, timeline.laneAt(event))));
    const changed = () => host.frames.before(() => timeline.moved());
    range.properties.start.change.connect(changed);
    range.properties.end.change.connect(changed);
    undo.push(this.store.subscribe((patch, origin) => this.selected(patch, origin)));
    undo.push(this.store.whenConfirmed((revision, dimensions) => ctx.asker.confirm(revision, dimensions)));
  }

  /**
   * @param {HTMLElement} element
   * @param {BokehObject} view
   * @param {(event: MouseEvent, time: number) => import('../timeline/hit.js').Hit} hitOf
   */
  gesturesOn(element, view, hitOf) {
    const {ctx, range, start} = this,
      tip = ctx.tooltip;
    return attachTimeGestures(ctx, element, view, {
      hover: (event, time) => {
        const found = hitOf(event, time),
          lines = linesOf(found, time, range.end - range.start, start());
        this.around.point(time - start());
        this.around.hoverLine(found.kind === 'slice' ? found.line : '');
        if (found.kind === 'step' && lines) lines[lines.length - 1] = 'click: align this step';
        if (lines) tip.show(event, lines);
        else tip.hide();
      },
      leave: () => {
        this.around.point(null);
        this.around.hoverLine('');
      },
      click: (event, time) => {
        if (event.detail < 2) this.click(hitOf(event, time)); // the second of a double click takes nothing back
      },
      doubleClick: (event, time) => {
        const found = hitOf(event, time);
        if (found.kind === 'slice') ctx.setView(found.ts - 0.2 * found.dur, found.ts + 1.2 * found.dur);
        else if (found.kind === 'bin') ctx.zoom(0.1, time);
      },
      verticalDrag: (px) => this.timeline.scrollBy(px),
    });
  }

  /**
   * A click puts a slice into focus and selects its name on both sides, or takes that back; or it aligns a step.
   * @param {import('../timeline/hit.js').Hit} found
   */
  click(found) {
    const {store} = this;
    if (found.kind === 'step') this.around.align(found.step);
    if (found.kind !== 'slice') return;
    const again = store.get().focus === found.id;
    store.set({focus: again ? null : found.id, name: again ? null : [found.name], phase: null, line: null}, 'timeline');
  }

  /**
   * @param {SelectionPatch} patch
   * @param {string} origin
   */
  selected(patch, origin) {
    const {timeline} = this,
      filtered = filters(patch, 'window');
    if (filtered) timeline.refresh();
    if (filtered || 'window' in patch) timeline.indicators.changed(filtered ? origin : undefined);
    if ('name' in patch) timeline.foresee();
    if ('window' in patch) showWindow(this.ctx);
    if ('track' in patch) timeline.marks();
    if ('pinned' in patch) timeline.pin();
    if ('focus' in patch) this.around.focused(this);
  }

  refresh() {
    this.layout.fit();
    this.timeline.refresh();
  }

  repaint() {
    this.ctx.theme = readTheme(this.around.root);
    paintFigures(this.host.doc, this.ctx.theme);
    this.timeline.repaint();
  }

  close() {
    this.closed = true;
    for (const action of this.undo.reverse()) action();
    this.timeline.close();
    this.asker.close();
    this.host.dispose();
  }
}

/**
 * Put the figures of a side into the page, and ask for what must be known once.
 * @param {BokehObject} Bokeh
 * @param {DocumentJson} json
 * @param {HTMLElement[]} elements
 * @param {Asker} asker
 * @returns {Promise<[Host, Meta]>}
 */
export const mountSide = (Bokeh, json, elements, asker) => Promise.all([mountDocument(Bokeh, json, elements), fetchMeta(asker)]);
