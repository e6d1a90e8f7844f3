// The memory curve, on the timeline's axis.
import {paintSource, renew} from '../figures/document.js';
import {memoryQuestion} from '../page/opening.js';
import {recall, remember} from '../page/remembered.js';
import {textElement} from '../shared/elements.js';
import {DIMENSIONS} from '../shared/store.js';
import {formatBytes} from '../shared/units.js';
import {followCurve, paintSteps, valueOf} from '../timeline/curves.js';

export const BYTES_PX = 62; // what the numbers of its axis need
const OPEN_PX = 150,
  CLOSED_PX = 50;

export const CURVES = /** @type {const} */ ([
  {source: 'allocated', x: 'x', y: 'y', opacity: 0.35, line: 'allocated', fill: 'allocated', width: 1.5},
  {source: 'alive', x: 'sx', y: 'sy', fill: 'selected', opacity: 0.6},
  {source: 'reserved', x: 'rx', y: 'ry', line: 'reserved', width: 1.2, dash: [6]},
]);

/**
 * The range of the axis of bytes.
 * @param {MemoryAnswer} answer
 */
export const bytesOf = ({lowest, highest}) => ({start: lowest * 1.08, end: Math.max(highest, 1) * 1.22});

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {any} curve one of `CURVES`
 * @param {MemoryAnswer} answer
 * @param {BokehObject} view
 * @param {Pick<BokehRange, 'start' | 'end'>} time
 * @param {Pick<BokehRange, 'start' | 'end'>} bytes
 * @param {Meta} meta
 */
export function paintCurve(pen, {x, y, line, fill, ...style}, {data}, view, time, bytes, {colours}) {
  const of = /** @type {Record<string, string>} */ (colours.memory);
  paintSteps(pen, view, time, bytes, {x: /** @type {any} */ (data)[x], y: /** @type {any} */ (data)[y]}, {...style, line: of[line], fill: of[fill]});
}

/** Curves of one device: allocated, reserved, and what the selection holds. */
export class Memory {
  /** @type {number | null} */ device = null;
  timer = 0;
  /** @type {CurveRequest | null} */ have = null;
  /** @type {MemoryAnswer | null} */ last = null;
  note = textElement('div', 'nbp-note', '');

  /**
   * @param {Context} ctx
   * @param {HTMLElement} element
   */
  constructor(ctx, element) {
    const {host} = ctx;
    this.ctx = ctx;
    this.element = element;
    this.range = ctx.range;
    this.figure = host.model('memory');
    this.view = host.viewOf(this.figure);
    this.peakMark = host.model('peak');
    this.label = host.model('peak_label');
    /** @type {BokehRange} */
    this.bytes = host.model('bytes');
    this.asks = this.paintings();
    element.appendChild(this.head());
    this.channel = ctx.asker.channel(
      () => this.request(),
      (answer, asked) => this.arrived(answer, asked),
      (error) => ctx.trouble(error),
      DIMENSIONS,
      host.frames.turn,
    );
  }

  paintings() {
    return CURVES.map((curve) =>
      paintSource(this.view, curve.source, (pen) => {
        // it may have been asked for before the page was laid out
        if (this.have && this.have.px !== this.request().px) this.channel.run();
        if (this.last) paintCurve(pen, curve, this.last, this.view, this.range, this.bytes, this.ctx.meta);
      }),
    );
  }

  /** @param {number | null} device */
  isResident(device) {
    return device === -1 && this.ctx.meta.resident;
  }

  /** @param {number} device */
  textOf(device) {
    return device >= 0 ? `GPU ${device}` : this.isResident(device) ? 'process' : 'host';
  }

  head() {
    const {memory: devices} = this.ctx.meta,
      title = textElement('div', 'nbp-figure-title', ''),
      head = textElement('strong', '', `Memory${devices.length === 1 ? ` · ${this.textOf(devices[0])}` : ''}`);
    title.append(this.opener(), head, this.note);
    if (devices.length > 1) {
      const select = document.createElement('select');
      select.setAttribute('aria-label', 'device');
      for (const d of devices) select.add(new Option(this.textOf(d), String(d)));
      select.addEventListener('change', () => {
        this.device = Number(select.value);
        this.channel.run();
      });
      title.append(select);
    }
    return title;
  }

  /** The button that makes a lane of the curve, or a curve with axes of the lane. */
  opener() {
    const {figure, element} = this,
      button = document.createElement('button');
    button.className = 'nbp-fold';
    /** @param {boolean} open */
    const show = (open) => {
      figure.height = open ? OPEN_PX : CLOSED_PX;
      for (const axis of [...figure.below, ...figure.left]) axis.visible = open;
      element.classList.toggle('nbp-lane', !open);
      figure.min_border_left = Math.max(this.ctx.settings.gutter, open ? BYTES_PX : 0);
      this.label.setv({visible: open && this.last !== null});
      button.textContent = open ? '▾' : '▸';
      button.title = open ? 'make a lane of the memory curve' : 'open the memory curve';
      button.setAttribute('aria-label', button.title);
      button.setAttribute('aria-expanded', String(open));
    };
    button.addEventListener('click', () => {
      const open = element.classList.contains('nbp-lane');
      remember('memory', open ? 'open' : 'lane');
      show(open);
    });
    show(recall('memory') === 'open');
    return button;
  }

  /** @returns {QuestionOf<'memory'>} */
  request() {
    return memoryQuestion(this.range, this.view.frame.bbox.width, this.device);
  }

  /**
   * @param {MemoryAnswer | NoMemory} answer
   * @param {CurveRequest} asked
   */
  arrived(answer, asked) {
    if (answer.device === null) return;
    this.last = answer;
    this.have = asked;
    const {peak} = answer;
    if (answer.device === null) return;
    this.bytes.setv(bytesOf(answer));
    renew(this.peakMark, {x: [peak.ts], y: [peak.bytes]});
    this.label.setv({x: peak.ts, y: peak.bytes, text: `peak ${formatBytes(peak.bytes)}`, visible: !this.element.classList.contains('nbp-lane')});
    this.placeLabel();
    for (const ask of this.asks) ask();
    this.note.replaceChildren(...this.notes(answer));
    this.ctx.count('memory');
  }

  /** @param {MemoryAnswer} answer */
  notes({device, peak, window_peak: inWindow, data, part}) {
    const colours = this.ctx.meta.colours.memory,
      resident = this.isResident(device);
    /**
     * @param {string} text
     * @param {string} [colour]
     */
    const line = (text, colour) => {
      const row = document.createElement('div');
      if (colour) {
        const swatch = document.createElement('i');
        swatch.style.background = colour;
        row.append(swatch);
      }
      row.append(text);
      return row;
    };
    const out = [line(resident ? 'resident (RSS)' : 'allocated', colours.allocated)];
    if (data.rx.length) out.push(line(resident ? 'at the start' : 'reserved', colours.reserved));
    if (data.sx.length) out.push(line(part === 'blocks' ? 'recorded blocks' : 'of the selection', colours.selected));
    out.push(Object.assign(line(`peak ${formatBytes(peak.bytes)}`, colours.peak), {className: 'nbp-peak'}));
    if (inWindow) out.push(line(`window ${formatBytes(inWindow.bytes)}`));
    return out;
  }

  /** Left of the mark where it would leave the picture on the right. */
  placeLabel() {
    if (!this.last?.peak) return;
    const share = (this.last.peak.ts - this.range.start) / (this.range.end - this.range.start);
    this.label.setv({
      text_align: share > 0.85 ? 'right' : share < 0.15 ? 'left' : 'center',
      x_offset: share > 0.85 ? -8 : share < 0.15 ? 8 : 0,
      y_offset: 6,
    });
  }

  /** @param {number} time */
  valueAt(time) {
    return this.last?.data.x.length ? valueOf(this.last.data, time) : null;
  }

  moved() {
    this.timer = followCurve(this.channel, this.range, this.have, this.timer);
    this.placeLabel();
  }

  refresh() {
    this.channel.run();
  }

  close() {
    clearTimeout(this.timer);
    this.channel.close();
  }

  snapshot() {
    const {last} = this;
    return {
      device: last?.device ?? null,
      peak: last?.peak ?? null,
      points: last?.data.x.length ?? 0,
      selected: last?.data.sx.length ?? 0,
      windowPeak: last?.window_peak ?? null,
    };
  }
}
