// Stacked bars: one a step, one colour a phase. Click a bar for its step, a legend entry for its phase; a drag takes several steps.
import {frameOf, paintSource} from '../figures/document.js';
import {formatShare, formatTime} from '../shared/units.js';
import {PhaseLegend} from './phase_legend.js';

export const STEP_PHASES = 'Step phases';

/** @type {Record<string, number>} */
const STEPS_OF_KEY = {ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity};

/**
 * @typedef {[bar: number, from: number, to: number, colour: string, alpha: number]} Box
 */

/**
 * Whether a bar is in the selected window and steps.
 * @param {PhasesAnswer} answer
 * @param {SelectionState} state
 * @param {number} i
 */
const isLit = ({data}, {window: w, step: s}, i) =>
  (!s || s.some((n) => n >= data.first[i] && n <= data.last[i])) && (!w || (data.ts[i] < w[1] && data.end[i] > w[0]));

/**
 * The boxes of all bars, and the bars' heights.
 * @param {PhasesAnswer} answer
 * @param {SelectionState} state
 * @param {Meta} meta
 */
export function barsOf(answer, state, {colours}) {
  const {data, phases, filtered} = answer,
    cells = phases.length,
    chosen = state.phase;
  /** @type {Box[]} */
  const boxes = [];
  /** @param {Box} box */
  const add = (...box) => {
    if (box[2] > box[1]) boxes.push(box);
  };
  const heights = Array.from({length: answer.bars}, (_, i) => {
    const lit = isLit(answer, state, i);
    let y = 0;
    phases.forEach((phase, k) => {
      const total = data.total[i * cells + k],
        colour = colours.phase[phase],
        bright = lit && (!chosen || chosen.includes(phase));
      if (filtered) {
        // what the other views selected is solid, the rest of the bar a ghost
        const part = Math.min(total, data.part[i * cells + k]);
        add(i, y, y + part, colour, bright ? 1 : 0.28);
        add(i, y + part, y + total, colour, 0.22);
      } else add(i, y, y + total, colour, bright ? 1 : 0.25);
      y += total;
    });
    return y;
  });
  return {boxes, heights};
}

/**
 * The ranges of the axes.
 * @param {number[]} heights
 * @param {number} bars
 */
export const rangesOf = (heights, bars) => ({
  xs: {start: -0.6, end: bars - 0.4},
  ys: {start: 0, end: Math.max(1, ...heights) * 1.06},
});

/**
 * @param {Pick<DOMRect, 'left' | 'top' | 'width' | 'height'>} frame
 * @param {Pick<BokehRange, 'start' | 'end'>} xs
 * @param {Pick<BokehRange, 'start' | 'end'>} ys
 */
export const axesOf = ({left, top, width, height}, xs, ys) => ({
  x: (/** @type {number} */ v) => left + ((v - xs.start) / (xs.end - xs.start)) * width,
  y: (/** @type {number} */ v) => top + (1 - (v - ys.start) / (ys.end - ys.start)) * height,
});

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {Box[]} boxes
 * @param {ReturnType<typeof axesOf>} axes
 */
export function paintBars(pen, boxes, {x, y}) {
  for (const [bar, from, to, colour, alpha] of boxes) {
    const left = x(bar - 0.42);
    Object.assign(pen, {fillStyle: colour, globalAlpha: alpha});
    pen.fillRect(left, y(to), x(bar + 0.42) - left, y(from) - y(to));
  }
}

/** The figure of the steps' phases. */
export class Phases {
  /** @type {PhasesAnswer | null} */ last = null;
  cursor = -1;
  pressed = -1;
  /** @type {Box[]} */ boxes = [];
  /** @type {[bar: number, height: number][]} */ framed = [];

  /**
   * @param {Context} ctx
   * @param {HTMLElement} element
   * @param {HTMLElement} legend
   * @param {HTMLElement} title
   */
  constructor(ctx, element, legend, title) {
    const {host} = ctx;
    this.ctx = ctx;
    this.element = element;
    this.title = title;
    this.view = host.viewOf(host.model('phases'));
    /** @type {BokehRange} */
    this.xs = host.model('bars_x');
    /** @type {BokehRange} */
    this.ys = host.model('bars_y');
    this.legend = new PhaseLegend(ctx, legend);
    // painted straight: BokehJS takes 15 ms to copy, index and project a thousand boxes
    this.asks = [
      paintSource(this.view, 'bars', (pen) => this.paintBoxes(pen)),
      paintSource(this.view, 'chosen', (pen) => this.paintFrames(pen)),
    ];
    title.textContent = STEP_PHASES;
    this.channel = ctx.asker.channel(
      () => ({t: 'phases'}),
      (answer) => {
        this.last = answer;
        this.redraw();
        ctx.count('phases');
      },
      (error) => ctx.trouble(error),
      ['name', 'category', 'track', 'rank'],
      host.frames.turn,
    );
    this.listen();
  }

  at() {
    return axesOf(this.view.frame.bbox, this.xs, this.ys);
  }

  /** @param {CanvasRenderingContext2D} pen */
  paintBoxes(pen) {
    const {x, y} = this.at();
    paintBars(pen, this.boxes, this.at());
    Object.assign(pen, {strokeStyle: this.ctx.theme.text, globalAlpha: 0.7, lineWidth: 1});
    this.ghosts().forEach((ns, i) => pen.strokeRect(x(i - 0.42), y(ns), x(i + 0.42) - x(i - 0.42), 0));
  }

  /** How long steps took in the run before, where each has a bar of its own. */
  ghosts() {
    const {last} = this,
      before = this.ctx.before?.steps ?? [];
    return last?.bars && last.data.first.every((step, i) => step === last.data.last[i]) ? before.slice(0, last.bars) : [];
  }

  /** @param {CanvasRenderingContext2D} pen */
  paintFrames(pen) {
    const {x, y} = this.at();
    Object.assign(pen, {strokeStyle: this.ctx.theme.text, lineWidth: 1.5});
    for (const [bar, high] of this.framed) pen.strokeRect(x(bar - 0.46), y(high), x(bar + 0.46) - x(bar - 0.46), y(0) - y(high));
  }

  redraw() {
    const {last, view} = this;
    if (!last?.bars) return;
    const state = this.ctx.store.get(),
      {boxes, heights} = barsOf(last, state, this.ctx.meta),
      ghosts = this.ghosts(),
      {xs, ys} = rangesOf([...heights, ...ghosts], last.bars);
    this.boxes = boxes;
    this.framed = heights.flatMap((high, i) => ((state.step && isLit(last, state, i)) || i === this.cursor ? [[i, high]] : []));
    view.pause();
    this.xs.setv(xs);
    this.ys.setv(ys);
    view.unpause();
    for (const ask of this.asks) ask();
    this.legend.show(last, (i) => isLit(last, state, i));
    this.title.textContent = [
      STEP_PHASES,
      ...(last.filtered ? [`solid: the selected slices${last.estimate ? ' (≈)' : ''}`] : []),
      ...(ghosts.length ? ['lines: the run before'] : []),
    ].join(' · ');
  }

  /** @param {MouseEvent} event */
  barAt(event) {
    const {last, xs} = this,
      f = frameOf(this.view, this.element),
      x = xs.start + ((event.clientX - f.left) / f.width) * (xs.end - xs.start),
      i = Math.round(x);
    return last?.bars && event.clientX >= f.left && event.clientX <= f.left + f.width && i >= 0 && i < last.bars ? i : -1;
  }

  /**
   * @param {PhasesAnswer} answer
   * @param {MouseEvent} event
   * @param {number} i
   */
  phaseAt({data, phases}, event, i) {
    const f = frameOf(this.view, this.element),
      y = this.ys.end * (1 - (event.clientY - f.top) / f.height),
      cells = phases.length;
    let sum = 0;
    for (let k = 0; k < cells; k++) {
      sum += data.total[i * cells + k];
      if (y >= 0 && y <= sum) return phases[k];
    }
    return null;
  }

  /**
   * @param {PhasesAnswer} answer
   * @param {number} i
   */
  stepsOf({data}, i) {
    return Array.from({length: data.last[i] - data.first[i] + 1}, (_, k) => data.first[i] + k);
  }

  listen() {
    const {element, ctx} = this;
    element.tabIndex = 0;
    element.setAttribute('role', 'application');
    element.setAttribute('aria-label', 'steps: arrows move, Enter selects, Shift+arrows extend');
    element.addEventListener('keydown', (event) => this.keyed(event));
    element.addEventListener('blur', () => {
      this.cursor = -1;
      this.redraw();
    });
    element.addEventListener('pointerdown', (event) => {
      if (event.button === 0) {
        this.pressed = this.barAt(event);
        ctx.takeFocus();
        event.preventDefault();
      }
    });
    element.addEventListener('pointerup', (event) => this.released(event));
    element.addEventListener('dblclick', (event) => {
      const {last} = this,
        i = this.barAt(event);
      if (last && i >= 0) ctx.store.set({step: this.stepsOf(last, i), phase: null}, 'phases');
    });
    element.addEventListener('pointermove', (event) => this.hover(event));
    element.addEventListener('pointerleave', () => ctx.tooltip.hide());
  }

  /** @param {KeyboardEvent} event */
  keyed(event) {
    const {last} = this,
      {store} = this.ctx;
    if (!last?.bars || event.ctrlKey || event.metaKey || event.altKey) return;
    const by = STEPS_OF_KEY[event.key];
    if (by === undefined && event.key !== 'Enter' && event.key !== ' ') return;
    event.preventDefault();
    event.stopPropagation();
    if (by !== undefined) this.cursor = Math.max(0, Math.min(last.bars - 1, this.cursor < 0 ? 0 : this.cursor + by));
    if (this.cursor < 0) return;
    const steps = this.stepsOf(last, this.cursor),
      now = store.get().step ?? [];
    if (by === undefined) store.set({step: now.length === steps.length && steps.every((s) => now.includes(s)) ? null : steps}, 'phases');
    else if (event.shiftKey) store.set({step: [...new Set([...now, ...steps])].sort((p, q) => p - q)}, 'phases');
    this.redraw();
    this.ctx.hint(`step ${steps[0]}, ${formatTime(last.data.end[this.cursor] - last.data.ts[this.cursor])}`);
  }

  /** @param {PointerEvent} event */
  released(event) {
    const {last} = this,
      {store} = this.ctx,
      from = this.pressed,
      to = this.barAt(event);
    this.pressed = -1;
    if (!last || from < 0 || to < 0) return;
    const [a, b] = [Math.min(from, to), Math.max(from, to)],
      steps = [];
    for (let i = a; i <= b; i++) steps.push(...this.stepsOf(last, i));
    const {step, phase: chosen} = store.get(),
      now = step ?? [],
      phase = a === b ? this.phaseAt(last, event, a) : null,
      again = a === b && now.length === steps.length && steps.every((s) => now.includes(s)) && (chosen?.[0] ?? null) === phase;
    if (event.ctrlKey || event.metaKey || event.shiftKey)
      store.set({step: [...new Set([...now, ...steps])].sort((p, q) => p - q)}, 'phases');
    else if (again) store.set({step: null, phase: null}, 'phases');
    else store.set({step: steps, phase: phase ? [phase] : null}, 'phases');
  }

  /** @param {PointerEvent} event */
  hover(event) {
    const {last} = this,
      {tooltip} = this.ctx,
      i = this.barAt(event);
    if (i < 0 || !last) {
      tooltip.hide();
      return;
    }
    const {data, phases} = last,
      cells = phases.length,
      row = Array.from(data.total.slice(i * cells, (i + 1) * cells)),
      all = row.reduce((p, q) => p + q, 0);
    const under = this.phaseAt(last, event, i),
      [a, b] = [data.first[i], data.last[i]];
    tooltip.show(event, [
      a === b ? `step ${a} · ${formatTime(all)}` : `steps ${a}–${b}, mean · ${formatTime(all)}`,
      ...phases.map((name, k) =>
        row[k] ? `${name === under ? '▸ ' : ''}${name}  ${formatTime(row[k])}  ${formatShare(row[k] / Math.max(all, 1))}` : '',
      ),
      'click: select the step and the phase · double-click: the step',
    ]);
  }

  refresh() {
    this.channel.run();
  }

  close() {
    this.channel.close();
  }

  /** @param {number} i */
  labelOf(i) {
    const {last} = this;
    return last?.bars && last.data.first[i] !== undefined ? String(last.data.first[i]) : '';
  }

  snapshot() {
    return {
      bars: this.last?.bars ?? 0,
      filtered: this.last?.filtered ?? false,
      bright: this.boxes.filter((box) => box[4] === 1).length,
      drawn: this.boxes.length,
      ghosts: this.ghosts().length,
    };
  }

  /**
   * Where the bar of a step is on the screen.
   * @param {number} step
   */
  locate(step) {
    const {last, xs, ys} = this,
      i = last ? Array.from(last.data.first).findIndex((a, k) => step >= a && step <= last.data.last[k]) : -1;
    if (!last || i < 0) return null;
    const f = frameOf(this.view, this.element),
      cells = last.phases.length,
      all = last.data.total.slice(i * cells, (i + 1) * cells).reduce((p, q) => p + q, 0);
    return {x: f.left + ((i - xs.start) / (xs.end - xs.start)) * f.width, y: f.top + f.height * (1 - all / 2 / ys.end)};
  }
}
