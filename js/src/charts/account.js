// The account of the cell, a thin strip above the other views: each stretch of time belongs to one part (steps, a statement,
// steps that were not asked for, the profiler itself, what nobody recorded). A click selects the time of a stretch.
import {formatCount, formatShare, formatTime} from '../shared/units.js';
import {AccountPainter} from './account_painter.js';
import {drawnSpans, spanWords} from './account_spans.js';

const THIN_PX = 2; // what is thinner does not interrupt its neighbours
/** @type {Record<string, number>} */
const STRETCHES_OF_KEY = {ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity};

/** @typedef {import('./account_spans.js').AccountSpan} AccountSpan */

/** The strip of the account. */
export class Account {
  /** @type {AccountPart[]} */ parts = [];
  /** @type {AccountSpan[]} */ recorded = [];
  /** @type {AccountSpan[]} what is drawn of them */ stretches = [];
  thinned = false;
  cursor = -1;
  closed = false;
  canvas = document.createElement('canvas');
  title = document.createElement('span');

  /**
   * @param {Context} ctx
   * @param {HTMLElement} element
   */
  constructor(ctx, element) {
    this.ctx = ctx;
    this.element = element;
    /** @type {[number, number]} */
    this.span = ctx.meta.span;
    this.painter = new AccountPainter(ctx, this.canvas);
    this.title.className = 'nbp-account-title';
    element.append(this.title, this.canvas);
    this.listen();
    this.resize = new ResizeObserver(() => ctx.host.frames.paint(() => this.draw()));
    this.resize.observe(element);
  }

  ask() {
    const {ctx, element} = this;
    ctx.asker.ask({t: 'account'}, () => !this.closed).then(
      (answer) => {
        if (!this.closed) this.arrived(answer);
      },
      (error) => {
        if (this.closed) return;
        element.hidden = true; // the other views tell where time went, too
        ctx.trouble(error);
      },
    );
  }

  box() {
    const rect = this.element.getBoundingClientRect(),
      {gutter, margin} = this.ctx.settings;
    return {left: rect.left + gutter, width: Math.max(1, rect.width - gutter - margin), height: rect.height};
  }

  /** @param {AccountAnswer} answer */
  arrived({parts, shown, thinned, data}) {
    const {element} = this,
      {span} = this.ctx.meta;
    this.parts = parts;
    this.thinned = thinned;
    this.recorded = Array.from(data.ts, (from, i) => ({from, to: from + data.dur[i], part: data.part[i], steps: data.steps[i]}));
    element.hidden = !shown;
    if (element.hidden) return;
    this.span = [Math.min(span[0], this.recorded[0].from), Math.max(span[1], this.recorded[this.recorded.length - 1].to)];
    const whole = parts.reduce((sum, part) => sum + part.dur, 0);
    this.title.textContent = `account of ${formatTime(whole)}`;
    element.tabIndex = 0;
    element.setAttribute('role', 'application');
    const most = [...parts].sort((p, q) => q.dur - p.dur).slice(0, 6);
    element.setAttribute(
      'aria-label',
      `account of ${formatTime(whole)}: ${most.map((part) => `${part.part} ${formatTime(part.dur)}`).join('; ')}. Arrows move, Enter selects, Shift extends`,
    );
    this.draw();
    this.ctx.count('account');
  }

  draw() {
    if (this.element.hidden || !this.recorded.length) return;
    const {width, height} = this.box(),
      scale = width / (this.span[1] - this.span[0]);
    this.stretches = this.thinned ? this.recorded : drawnSpans(this.recorded, THIN_PX / scale);
    this.cursor = Math.min(this.cursor, this.stretches.length - 1);
    this.painter.paint(this.parts, this.stretches, this.cursor, this.span[0], scale, {width, height});
  }

  /** @param {MouseEvent} event */
  indexAt(event) {
    const {span, stretches} = this,
      {left, width} = this.box(),
      share = (event.clientX - left) / width,
      t = span[0] + share * (span[1] - span[0]);
    if (share < 0 || share > 1) return -1;
    const near = ((span[1] - span[0]) / width) * 2;
    // what is thinner than the pointer is found beside it
    const thin = stretches.findIndex(({from, to}) => to - from < near && Math.abs((from + to) / 2 - t) < near);
    return thin >= 0 ? thin : stretches.findIndex(({from, to}) => t >= from && t < to);
  }

  /**
   * @param {number} i
   * @param {boolean} extend
   */
  choose(i, extend) {
    const {store} = this.ctx,
      {from, to} = this.stretches[i],
      now = store.get().window;
    if (extend && now) store.set({window: [Math.min(now[0], from), Math.max(now[1], to)]}, 'account');
    else store.set({window: now && now[0] === from && now[1] === to ? null : [from, to]}, 'account');
  }

  /**
   * What the tooltip says of a stretch.
   * @param {number} i
   */
  lines(i) {
    const one = this.stretches[i],
      row = this.parts[one.part],
      mine = this.stretches.filter(({part}) => part === one.part).length,
      beside = [];
    if (row.cpu_ns !== null) beside.push(`${formatTime(row.cpu_ns)} of CPU`);
    if (row.wait_ns) beside.push(`${formatTime(row.wait_ns)} waiting`);
    if (row.device_ns) beside.push(`${formatTime(row.device_ns)} with work on a device`);
    if (row.steps && row.kind !== 'steps' && row.kind !== 'outside-window') beside.push(row.steps === 1 ? '1 step ends here' : `${formatCount(row.steps)} steps end here`);
    return [
      `${row.part}: ${formatTime(row.dur)} · ${formatShare(row.share)}`,
      row.text,
      mine > 1 ? `here ${spanWords(row, one.steps)}, ${formatTime(one.to - one.from)}; ${formatCount(mine)} stretches in all` : '',
      row.steps > 1 && row.kind === 'steps' ? `${formatTime(row.dur / row.steps)} a step` : '',
      beside.join(' · '),
      'click: select this time · Shift+click: extend · double-click: zoom',
    ];
  }

  listen() {
    const {ctx, element, canvas} = this;
    element.addEventListener('pointerdown', (event) => {
      if (event.button !== 0) return;
      ctx.takeFocus();
      event.preventDefault();
    });
    element.addEventListener('click', (event) => {
      const i = this.indexAt(event);
      if (i >= 0 && event.detail < 2) this.choose(i, event.shiftKey);
    });
    element.addEventListener('dblclick', (event) => {
      const i = this.indexAt(event);
      if (i < 0) return;
      const {from, to} = this.stretches[i],
        margin = 0.02 * (to - from);
      ctx.setView(from - margin, to + margin);
    });
    element.addEventListener('pointermove', (event) => {
      const i = this.indexAt(event);
      if (i < 0) ctx.tooltip.hide();
      else ctx.tooltip.show(event, this.lines(i));
      canvas.style.cursor = i < 0 ? '' : 'pointer';
    });
    element.addEventListener('pointerleave', () => ctx.tooltip.hide());
    element.addEventListener('keydown', (event) => this.keyed(event));
    element.addEventListener('blur', () => {
      this.cursor = -1;
      this.draw();
    });
  }

  /** @param {KeyboardEvent} event */
  keyed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const by = STRETCHES_OF_KEY[event.key];
    if (by === undefined && event.key !== 'Enter' && event.key !== ' ') return;
    event.preventDefault();
    event.stopPropagation();
    if (by !== undefined) this.cursor = Math.max(0, Math.min(this.stretches.length - 1, this.cursor < 0 ? 0 : this.cursor + by));
    if (this.cursor < 0) return;
    if (by === undefined || event.shiftKey) this.choose(this.cursor, event.shiftKey);
    this.draw();
    const {part, steps, from, to} = this.stretches[this.cursor];
    this.ctx.hint(`${spanWords(this.parts[part], steps)}, ${formatTime(to - from)}`);
  }

  close() {
    this.closed = true;
    this.resize.disconnect();
  }

  snapshot() {
    return {
      shown: !this.element.hidden && this.recorded.length > 0,
      parts: this.parts.map(({part, kind}) => [kind, part]),
      stretches: this.stretches.length,
      labels: this.painter.labels,
    };
  }

  /**
   * Where a stretch is on the screen.
   * @param {number} i
   */
  locate(i) {
    const {left, width, height} = this.box(),
      one = this.stretches[i];
    if (!one) return null;
    return {
      x: left + (((one.from + one.to) / 2 - this.span[0]) / (this.span[1] - this.span[0])) * width,
      y: this.element.getBoundingClientRect().top + height / 2,
    };
  }
}
