// One figure of the ranks' page: draws what the kernel sends, and turns clicks and brushes into selections.
import {formatTicks, frameOf} from '../figures/document.js';
import {element} from '../shared/elements.js';
import {formatInstant, formatTime} from '../shared/units.js';

const RANK_DRAG_PX = 4;

/** @typedef {[number, number]} Position x and y in the figure's axes */

/** @param {(string | number)[]} values */
const unique = (values) => [...new Set(values)].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));

/** A figure, its title and legend. */
export class RankPanel {
  /** @type {RankPanelAnswer | null} */ answer = null;
  /** @type {Map<string, number> | null} */ places = null;
  /** @type {{event: PointerEvent, at: Position, moved: boolean} | null} */ drag = null;
  listening = new AbortController();

  /**
   * @param {RankContext} ctx
   * @param {RankPanelSettings} spec
   * @param {HTMLElement} box
   */
  constructor(ctx, spec, box) {
    this.ctx = ctx;
    this.spec = spec;
    this.box = box;
    this.view = ctx.host.viewOf(ctx.host.model(spec.name));
    /** @type {HTMLElement} */
    this.figure = this.view.el;
    const title = element('div', 'nbp-rank-title', box);
    box.prepend(title);
    this.caption = element('strong', '', title);
    this.caption.textContent = spec.title;
    this.legend = element('span', 'nbp-rank-legend', title);
    for (const [label, colour] of spec.legend) {
      const part = element('span', '', this.legend);
      element('i', '', part).style.background = colour;
      part.append(label);
    }
    this.brush = element('div', 'nbp-rank-brush', box);
    this.brush.hidden = true;
    this.note = element('p', 'nbp-rank-note', box);
    this.note.hidden = true;
    // the heat map and Marey's figure have a row for each rank and step: too many to write out
    this.byStep = spec.name === 'heat' || spec.name === 'marey';
    this.writeTicks();
    this.listen();
  }

  writeTicks() {
    const whole = (/** @type {number[]} */ ticks) => ticks.map((t) => (Number.isInteger(t) ? String(t) : ''));
    const named = (/** @type {number[]} */ ticks) => ticks.map((t) => this.answer?.labels?.[t] ?? '');
    const times = (/** @type {number[]} */ ticks) => {
      const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : 1,
        largest = Math.max(...ticks.map(Math.abs), 1);
      return ticks.map((t) => (t === 0 ? '0' : formatInstant(t, step, largest)));
    };
    /** @type {Record<string, (ticks: number[]) => string[]>} */
    const writers = {rank: whole, step: whole, time: times, 'late rank': named, talk: named};
    const {name, x, y} = this.spec;
    formatTicks(this.ctx.host.model(`${name}_x_ticks`), writers[x]);
    formatTicks(this.ctx.host.model(`${name}_y_ticks`), writers[y]);
  }

  drawn() {
    return this.answer;
  }

  /** @param {RankPanelAnswer} next */
  draw(next) {
    const {spec, view, legend, note} = this,
      {host} = this.ctx;
    this.answer = next;
    this.places = null;
    this.caption.textContent = next.title ?? spec.title;
    note.textContent = next.note ?? '';
    note.hidden = !next.note;
    this.box.classList.toggle('nbp-rank-empty', Boolean(next.note));
    view.pause?.();
    for (const [name, columns] of Object.entries(next.sources)) host.model(name).data = columns;
    host.model(`${spec.name}_xs`).setv({start: next.x[0], end: next.x[1]});
    host.model(`${spec.name}_ys`).setv({start: next.y[0], end: next.y[1]});
    if (next.colours) {
      const scale = next.scale ?? [];
      host.model(`${spec.name}_colours`).setv({low: next.colours[0], high: next.colours[1]});
      legend.replaceChildren();
      if (!next.note) legend.append(scale[0]);
      if (scale.length > 1) {
        element('b', 'nbp-rank-scale', legend);
        legend.append(scale[1]);
      }
    }
    view.unpause?.();
    this.frameWindow();
  }

  frameWindow() {
    const chosen = this.ctx.store.get().window;
    this.ctx.host.model(`${this.spec.name}_window`)?.setv({visible: Boolean(chosen), left: chosen?.[0] ?? 0, right: chosen?.[1] ?? 1});
  }

  /**
   * @param {MouseEvent} event
   * @returns {Position}
   */
  at(event) {
    const rect = this.figure.getBoundingClientRect(),
      {frame} = this.view;
    return [frame.x_scale.invert(event.clientX - rect.left), frame.y_scale.invert(event.clientY - rect.top)];
  }

  /** @param {MouseEvent} event */
  inside(event) {
    const f = frameOf(this.view, this.figure);
    return event.clientX >= f.left && event.clientX <= f.left + f.width && event.clientY >= f.top && event.clientY <= f.top + f.height;
  }

  /**
   * The mark under the pointer, or -1.
   * @param {MouseEvent} event
   */
  hit(event) {
    const {answer} = this,
      {name} = this.spec;
    if (!answer || !this.inside(event)) return -1;
    const [x, y] = this.at(event),
      [column, line] = [Math.round(x), Math.round(y)];
    if (name === 'late') return answer.rank?.[column] === undefined ? -1 : column;
    if (name === 'talk') return answer.members?.[line] === undefined ? -1 : line;
    if (name === 'marey') {
      const {y: rows, left, right} = /** @type {Record<string, number[]>} */ (answer.sources.marey_data);
      return rows.findIndex((row, i) => row === line && left[i] <= x && x <= right[i]);
    }
    if (name === 'heat' || name === 'links') {
      const data = /** @type {Record<string, number[]>} */ (answer.sources[`${name}_data`]);
      this.places ??= new Map(data.x.map((value, i) => [`${value},${data.y[i]}`, i]));
      return this.places.get(`${column},${line}`) ?? -1;
    }
    return answer.rank?.indexOf(column) ?? -1;
  }

  /**
   * Rank, step and time of a mark.
   * @param {number} i
   * @returns {{rank: number, step: number, ns: number}}
   */
  rowOf(i) {
    const data = this.answer?.sources[`${this.spec.name}_data`];
    if (this.spec.name === 'heat') return {rank: data.y[i], step: data.x[i], ns: data.value[i]};
    return {rank: data.y[i], step: data.step[i], ns: data.right[i] - data.left[i]};
  }

  /** @param {number} i */
  linesOf(i) {
    if (!this.byStep) return (this.answer?.tips?.[i] ?? '').split('\n');
    const {rank, step, ns} = this.rowOf(i);
    return [`rank ${rank}, step ${step}`, formatTime(ns)];
  }

  /** @param {number} i */
  ranksOf(i) {
    if (this.byStep) return [this.rowOf(i).rank];
    return this.answer?.members?.[i] ?? [this.answer?.rank?.[i] ?? 0];
  }

  /**
   * Select what a mark is of; the same again takes it away.
   * @param {number} i
   * @param {boolean} extend
   */
  choose(i, extend) {
    const {store} = this.ctx,
      now = /** @type {Record<string, unknown>} */ (store.get());
    /** @type {Record<string, (string | number)[] | null>} */
    const patch = {rank: this.ranksOf(i)};
    if (this.byStep) patch.step = [this.rowOf(i).step];
    const groups = this.answer?.groups;
    if (groups) patch.group = groups[i] ? [groups[i]] : null;
    const keys = Object.keys(patch);
    if (extend)
      for (const key of keys) {
        const chosen = patch[key];
        if (chosen) patch[key] = unique([.../** @type {(string | number)[]} */ (now[key] ?? []), ...chosen]);
      }
    const same = keys.every((key) => JSON.stringify(now[key] ?? null) === JSON.stringify(patch[key]));
    if (same) for (const key of keys) patch[key] = null;
    store.set(/** @type {SelectionPatch} */ (patch), this.spec.name);
  }

  /**
   * Select what lies in a box.
   * @param {Position} from
   * @param {Position} to
   */
  chooseBox([x0, y0], [x1, y1]) {
    const {answer} = this,
      {store} = this.ctx,
      {name} = this.spec;
    if (!answer) return;
    const within = (/** @type {number} */ value, /** @type {number} */ a, /** @type {number} */ b) =>
      value >= Math.min(a, b) - 0.5 && value <= Math.max(a, b) + 0.5;
    const some = (/** @type {number[]} */ values) => (values.length ? /** @type {number[]} */ (unique(values)) : null);
    if (name === 'marey') store.set({window: [Math.min(x0, x1), Math.max(x0, x1)]}, 'marey');
    else if (name === 'late') store.set({rank: some((answer.rank ?? []).filter((_, i) => within(i, x0, x1)))}, 'late');
    else if (name === 'heat') {
      const data = /** @type {Record<string, number[]>} */ (answer.sources.heat_data);
      store.set({rank: some(data.y.filter((r) => within(r, y0, y1))), step: some(data.x.filter((s) => within(s, x0, x1)))}, 'heat');
    } else if (name === 'links')
      store.set({rank: some((answer.members ?? []).filter(([s, d]) => within(s, y0, y1) && within(d, x0, x1)).flat())}, 'links');
    else if (answer.rank) store.set({rank: some(answer.rank.filter((r) => within(r, x0, x1)))}, name);
  }

  listen() {
    const {figure, ctx} = this,
      {signal} = this.listening;
    figure.addEventListener('pointerdown', (event) => this.pressed(event), {signal});
    figure.addEventListener('pointermove', (event) => this.moved(event), {signal});
    figure.addEventListener('pointerup', (event) => this.released(event), {signal});
    figure.addEventListener('pointercancel', () => this.cancel(), {signal});
    figure.addEventListener('pointerleave', () => ctx.tooltip.hide(), {signal});
    figure.addEventListener(
      'dblclick',
      (event) => {
        const i = this.hit(event);
        if (i >= 0) ctx.open(this.ranksOf(i));
      },
      {signal},
    );
  }

  /** @param {PointerEvent} event */
  pressed(event) {
    if (event.button !== 0 || !this.answer || !this.inside(event)) return;
    this.drag = {event, at: this.at(event), moved: false};
    event.preventDefault();
  }

  /** @param {PointerEvent} event */
  moved(event) {
    const {drag, figure} = this,
      {tooltip} = this.ctx;
    if (!drag) {
      const i = this.hit(event);
      figure.style.cursor = i < 0 ? '' : 'pointer';
      if (i < 0) tooltip.hide();
      else tooltip.show(event, this.linesOf(i));
      return;
    }
    if (!drag.moved && Math.hypot(event.clientX - drag.event.clientX, event.clientY - drag.event.clientY) < RANK_DRAG_PX) return;
    if (!drag.moved) figure.setPointerCapture?.(event.pointerId);
    drag.moved = true;
    tooltip.hide();
    this.drawBrush(drag.event, event);
  }

  /**
   * @param {PointerEvent} from
   * @param {PointerEvent} to
   */
  drawBrush(from, to) {
    const f = frameOf(this.view, this.figure),
      outer = this.box.getBoundingClientRect(),
      flat = !['heat', 'links'].includes(this.spec.name);
    const clampX = (/** @type {number} */ x) => Math.min(Math.max(x, f.left), f.left + f.width),
      clampY = (/** @type {number} */ y) => Math.min(Math.max(y, f.top), f.top + f.height);
    const [xa, xb] = [clampX(from.clientX), clampX(to.clientX)].sort((p, q) => p - q),
      [ya, yb] = flat ? [f.top, f.top + f.height] : [clampY(from.clientY), clampY(to.clientY)].sort((p, q) => p - q);
    Object.assign(this.brush.style, {left: `${xa - outer.left}px`, top: `${ya - outer.top}px`, width: `${xb - xa}px`, height: `${yb - ya}px`});
    this.brush.hidden = this.spec.name === 'talk';
  }

  /** @param {PointerEvent} event */
  released(event) {
    const begun = this.drag;
    this.cancel();
    if (!begun) return;
    if (begun.moved) {
      this.chooseBox(begun.at, this.at(event));
      return;
    }
    const i = this.hit(event);
    if (i >= 0) this.choose(i, event.ctrlKey || event.metaKey || event.shiftKey);
  }

  cancel() {
    this.drag = null;
    this.brush.hidden = true;
  }

  /**
   * Where a value stands on the screen, for whoever drives the page.
   * @param {number} x
   * @param {number} y
   */
  place(x, y) {
    const rect = this.figure.getBoundingClientRect();
    return [rect.left + this.view.frame.x_scale.compute(x), rect.top + this.view.frame.y_scale.compute(y)];
  }

  close() {
    this.listening.abort();
  }
}
