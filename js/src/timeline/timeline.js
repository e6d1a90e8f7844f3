// The timeline: what is in view, drawn and found under the pointer. The picture moves with the hand in the next frame; fresh
// data follow where it does not reach (pictures.js).
import {frameOf, renew} from '../figures/document.js';
import {remember} from '../page/remembered.js';
import {PICTURED} from '../shared/store.js';
import {showAllFrames, showHidden} from './all_frames.js';
import {createCounters} from './counters.js';
import {drawFocus} from './focus.js';
import {Gutter} from './gutter.js';
import {createHandle} from './handle.js';
import {hitAt} from './hit.js';
import {Indicators} from './indicators.js';
import {FEWEST_LANES, laneKeyOf, Lanes, lanesFor} from './lanes.js';
import {Painter} from './painter.js';
import {PathLayer} from './path.js';
import {drawPicture} from './picture_items.js';
import {BESIDE, Pictures, rowsInSight} from './pictures.js';

const SETTLE_MS = 120;
const MOST_LANES = 60;

/** The figure of the slices, with the names of the tracks beside it. */
export class Timeline {
  settleTimer = 0;
  /** @type {import('./focus.js').Marked | null} */ detail = null;

  /**
   * @param {Context} ctx
   * @param {HTMLElement} element
   */
  constructor(ctx, element) {
    const {host, meta} = ctx;
    this.ctx = ctx;
    this.element = element;
    this.figure = host.model('timeline');
    this.view = host.viewOf(this.figure);
    /** @type {BokehRange} */
    this.range = host.model('view');
    /** @type {BokehRange} */
    this.laneRange = host.model('lanes');
    /** @type {import('./focus.js').FocusSources} */
    this.sources = {focus: host.model('focus'), links: host.model('links'), heads: host.model('heads')};
    this.lanes = new Lanes(meta);
    this.lanes.pin(ctx.store.get().pinned ?? []);
    this.gutter = new Gutter(ctx, this.lanes, (why) => {
      if (why === 'layout') this.relayout();
      else if (why === 'frames') showAllFrames(this, !this.lanes.allFrames);
      else this.scrolled();
    });
    element.append(this.gutter.top, this.gutter.pins, this.gutter.box);
    this.gutter.rove(element);
    createHandle(element, {lanes: () => this.lanes.room(), lane: ctx.settings.lane, set: (lanes) => this.setHeight(lanes)});
    this.path = new PathLayer(ctx, this);
    this.painter = new Painter(
      () => this.view.frame.bbox,
      this.range,
      this.laneRange,
      () => this.lanes.stuck(),
      (pen, geometry) => this.path.paint(pen, geometry),
    );
    this.painter.attach(this.view);
    this.counters = createCounters(ctx, this.view, this);
    this.pictures = new Pictures(this);
    this.indicators = new Indicators(this);
    this.relayout();
  }

  /**
   * Take over the picture that was painted before the figure was there, and ask for the rest.
   * @param {import('./early.js').EarlyPicture | null} early
   */
  start(early) {
    if (early) this.pictures.arrived(early.answer, early.asked, false);
    const chosen = this.ctx.store.get(),
      nothing = PICTURED.every((key) => chosen[key] == null);
    this.pictures.changed = !early || early.answer.filtered || !nothing; // marks of what has been selected meanwhile
    this.ask();
  }

  widthPx() {
    return Math.max(1, this.view.frame.bbox.width);
  }

  /** Pixels a nanosecond. */
  timeScale() {
    return this.widthPx() / (this.range.end - this.range.start);
  }

  relayout() {
    const shown = this.lanes.room(),
      {settings} = this.ctx;
    this.figure.height = settings.axis + shown * settings.lane;
    this.gutter.setHeights(shown);
    this.scrolled();
  }

  /** @param {number} lanes */
  setHeight(lanes) {
    const before = this.lanes.stuck();
    remember('lanes', Math.max(FEWEST_LANES, Math.min(lanes, MOST_LANES, this.lanes.count())));
    this.resized(before);
  }

  /**
   * Show as many lanes as a window has room for, unless somebody has dragged the edge.
   * @param {number} height of the window
   */
  fitHeight(height) {
    const {lanes} = this,
      [room, stuck] = [lanes.room(), lanes.stuck()];
    lanes.lanesShown = lanesFor(height);
    if (lanes.room() !== room) this.resized(stuck);
  }

  /** @param {number} stuck lanes that stayed in sight before */
  resized(stuck) {
    if (this.lanes.stuck() !== stuck) this.gutter.render();
    this.relayout();
  }

  scrolled() {
    const {laneRange, pictures} = this,
      shown = this.lanes.room(),
      top = this.gutter.box.scrollTop / this.ctx.settings.lane;
    if (laneRange.start !== top + shown || laneRange.end !== top) laneRange.setv({start: top + shown, end: top});
    this.drawRules();
    this.counters.scrolled();
    this.indicators.draw();
    if (pictures.have && pictures.have.lanes !== this.laneKey()) pictures.refresh();
    else if (pictures.have) this.draw();
  }

  /** Pinned tracks have changed. */
  pin() {
    this.lanes.pin(this.ctx.store.get().pinned ?? []);
    this.gutter.render();
    this.relayout();
  }

  /** Lanes in sight, and their places. */
  lanesInSight(more = BESIDE) {
    const all = this.lanes.all();
    return this.lanes.placesInSight(this.laneRange.end, this.laneRange.start, more).map((place) => ({place, lane: all[place]}));
  }

  /**
   * Where a lane stands in the figure.
   * @param {number} place
   */
  yOf(place) {
    return this.lanes.yOf(place, this.laneRange.end);
  }

  /** Where the pinned tracks end in the figure: what scrolls is seen below. */
  edge() {
    return this.laneRange.end + this.lanes.stuck();
  }

  /** Places and rows of the tracks in view. */
  visibleLanes() {
    return rowsInSight(this.lanes, this.laneRange.end, this.laneRange.start);
  }

  laneKey() {
    return laneKeyOf(this.visibleLanes());
  }

  refresh() {
    this.pictures.changed = true;
    this.ask();
  }

  ask() {
    this.pictures.channel.run();
    this.counters.refresh();
    this.indicators.ask();
  }

  /** On every change of the range, once a frame. */
  moved() {
    clearTimeout(this.settleTimer);
    this.settleTimer = setTimeout(this.ctx.settled, SETTLE_MS);
    this.pictures.moved();
    this.counters.moved();
    this.indicators.moved();
  }

  /** Show what has been clicked before the kernel answers. */
  foresee() {
    this.pictures.foresee();
  }

  draw() {
    const {have} = this.pictures;
    if (!have) return;
    drawPicture(this.painter, this.ctx, have, this.lanes.placeOfSteps());
    this.drawFocus();
  }

  /** Thin lines above every track in sight. */
  drawRules() {
    /** @type {number[]} */
    const y = [];
    const {span} = this.ctx.meta,
      far = (span[1] - span[0]) * 4;
    for (const {place, lane} of this.lanesInSight()) {
      const at = this.yOf(place);
      if (place && (lane.kind === 'group' || lane.first) && (place < this.lanes.stuck() || at > this.edge())) y.push(at);
    }
    renew(this.ctx.host.model('rules'), {x0: y.map(() => span[0] - far), x1: y.map(() => span[1] + far), y0: y, y1: y});
  }

  drawFocus() {
    drawFocus(this.sources, this.detail, this, this.timeScale());
  }

  /**
   * What is at a time and a lane.
   * @param {number} time
   * @param {number} y
   */
  hit(time, y) {
    return hitAt(this, time, y);
  }

  marks() {
    this.gutter.render();
  }

  close() {
    clearTimeout(this.settleTimer);
    this.pictures.close();
    this.counters.close();
    this.indicators.close();
  }

  repaint() {
    if (this.pictures.have) this.draw();
  }

  /** @param {number} px */
  scrollBy(px) {
    this.gutter.box.scrollTop += px;
  }

  /**
   * @param {number} row
   * @param {number} [id] the slice that is looked for in it
   */
  showRow(row, id) {
    if (showHidden(this, row, id)) return;
    if (this.lanes.reveal(row)) {
      if (!this.lanes.filter) this.gutter.filter.value = '';
      this.gutter.render();
      this.relayout();
    }
    this.showPlace(this.lanes.placeOfRow(row));
  }

  /**
   * Scroll to a lane, unless it is in sight.
   * @param {number} place
   */
  showPlace(place) {
    const {lane} = this.ctx.settings,
      stuck = this.lanes.stuck(),
      {box} = this.gutter,
      top = (place - stuck) * lane;
    if (place < stuck || (top >= box.scrollTop && top + lane <= box.scrollTop + box.clientHeight)) return;
    box.scrollTop = top - box.clientHeight / 2;
  }

  firstRow() {
    const lanes = this.lanesInSight(0).map(({lane}) => lane);
    return lanes.find((lane) => lane.kind === 'lane')?.row ?? 0;
  }

  /** @param {{clientY: number}} event */
  laneAt(event) {
    const f = frameOf(this.view, this.element);
    return this.laneRange.end + (event.clientY - f.top) / this.ctx.settings.lane;
  }

  /** @param {import('./focus.js').Marked | null} next */
  setDetail(next) {
    this.detail = next;
    this.drawFocus();
  }

  snapshot() {
    const answer = this.pictures.have?.answer;
    return {
      mode: answer?.mode,
      quads: answer?.quads,
      total: answer?.total,
      filtered: answer?.filtered,
      matched: answer ? answer.data.match.reduce((sum, m) => sum + m, 0) : 0,
      labels: this.painter.labels(),
      links: this.sources.links.data.xs?.length ?? 0,
      outlined: this.painter.outlined.length,
      lanes: this.lanes.count(),
      names: answer ? [...new Set(Array.from(answer.data.name, this.ctx.nameOf))] : [],
    };
  }

  /**
   * Where a slice of a name is on the screen: what a test, or a tour, needs to point at it.
   * @param {string} name
   */
  locate(name, place = 0) {
    const {have} = this.pictures;
    if (!have) return null;
    const f = frameOf(this.view, this.element),
      scale = this.timeScale(),
      {data} = have.answer,
      found = [];
    for (let i = 0; i < data.x0.length; i++) {
      if (this.ctx.nameOf(data.name[i]) !== name) continue;
      const x = f.left + (data.x0[i] + data.dur[i] / 2 - this.range.start) * scale,
        lane = have.places[data.slot[i]],
        y = f.top + (this.yOf(lane) + 0.5 - this.laneRange.end) * this.ctx.settings.lane;
      if (lane >= this.lanes.stuck() && this.yOf(lane) < this.edge()) continue;
      if (x > f.left + 4 && x < f.left + f.width - 4) found.push({x, y, id: data.id[i], dur: data.dur[i], width: data.dur[i] * scale});
    }
    found.sort((p, q) => q.dur - p.dur);
    return found[place] ?? null;
  }
}
