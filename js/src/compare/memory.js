// The memory curves of both sides over one another, on the axis that they share.
import {formatTicks, paintSource} from '../figures/document.js';
import {BYTES_PX} from '../charts/memory.js';
import {textElement} from '../shared/elements.js';
import {byteTicks, formatBytes, formatShare} from '../shared/units.js';

import {followCurve, paintSteps, valueOf} from '../timeline/curves.js';
import {countFrom} from './axis.js';

const HEIGHT_PX = 130;

/** @typedef {import('./side.js').ComparedSide} ComparedSide */

/** One curve of a side. */
class Curve {
  timer = 0;
  /** @type {CurveRequest | null} */ have = null;
  /** @type {MemoryAnswer | null} */ last = null;

  /**
   * @param {ComparedSide} side
   * @param {number | null} device
   * @param {() => number} px
   * @param {() => void} drawn
   */
  constructor(side, device, px, drawn) {
    this.side = side;
    const {range, asker, ctx} = side;
    this.channel = asker.channel(
      () => {
        const width = range.end - range.start;
        return /** @type {QuestionOf<'memory'>} */ ({t: 'memory', a: range.start - width / 2, b: range.end + width / 2, px: px(), device});
      },
      (answer, asked) => {
        if (answer.device === null) return;
        this.last = answer;
        this.have = asked;
        drawn();
      },
      (error) => ctx.trouble(error),
      ['window'],
    );
  }

  moved() {
    this.timer = followCurve(this.channel, this.side.range, this.have, this.timer);
  }

  close() {
    clearTimeout(this.timer);
    this.channel.close();
  }
}

/** The figure of both curves; it lies in the document of a, whose range is that of its axis. */
export class MemoryPair {
  /**
   * @param {[ComparedSide, ComparedSide]} sides
   * @param {[string, string]} names
   * @param {HTMLElement} element
   * @param {HTMLElement} title
   * @param {() => [string, string]} colours
   */
  constructor(sides, names, element, title, colours) {
    const [a, b] = sides,
      {host} = a,
      shared = a.meta.memory.find((device) => b.meta.memory.includes(device));
    this.sides = sides;
    this.names = names;
    this.element = element;
    this.title = title;
    this.colours = colours;
    this.figure = host.model('memory');
    this.view = host.viewOf(this.figure);
    this.bytes = host.model('bytes');
    this.device = shared ?? null;
    title.hidden = element.hidden = shared === undefined;
    this.curves = element.hidden ? [] : sides.map((side) => new Curve(side, this.device, () => Math.round(this.view.frame.bbox.width * 2), () => this.draw()));
    host.model('peak_label').setv({visible: false});
    this.figure.height = HEIGHT_PX;
    formatTicks(host.model('memory_bytes'), byteTicks);
    countFrom(this.figure.below[0].ticker, sides[0].start);
    const asks = /** @type {const} */ ([['alive', 0], ['allocated', 1]]).map(([source, i]) => paintSource(this.view, source, (pen) => this.paint(pen, i)));
    this.ask = () => asks.forEach((ask) => ask());
    this.ends = element.hidden ? [] : [a.gesturesOn(element, this.view, () => ({kind: null}))];
    const hover = (/** @type {PointerEvent} */ event) => this.tell(event);
    element.addEventListener('pointermove', hover);
    this.ends.push(() => element.removeEventListener('pointermove', hover));
  }

  deviceText() {
    if (this.device === null) return 'Memory';
    return this.device >= 0 ? `Memory · GPU ${this.device}` : `Memory · ${this.sides[0].meta.resident ? 'process' : 'host'}`;
  }

  /** How much later the same instant of the axis is in the recording of a side than in that of a. @param {number} i */
  shift(i) {
    return this.sides[0].start() - this.sides[i].start();
  }

  /**
   * @param {CanvasRenderingContext2D} pen
   * @param {number} i
   */
  paint(pen, i) {
    const answer = this.curves[i]?.last;
    if (!answer) return;
    const by = this.shift(i),
      x = Float64Array.from(answer.data.x, (t) => t + by),
      colour = this.colours()[i];
    paintSteps(pen, this.view, this.sides[0].range, this.bytes, {x, y: answer.data.y}, i ? {line: colour, width: 1.6} : {fill: colour, opacity: 0.3, line: colour, width: 1.2});
  }

  draw() {
    const answers = this.curves.map(({last}) => last).filter((last) => last !== null);
    this.bytes.setv({
      start: Math.min(...answers.map(({lowest}) => lowest)) * 1.08,
      end: Math.max(1, ...answers.map(({highest}) => highest)) * 1.15,
    });
    this.title.replaceChildren(textElement('strong', '', this.deviceText()), ...this.notes());
    this.ask();
  }

  notes() {
    const colours = this.colours(),
      peaks = this.curves.map(({last}) => last?.peak?.bytes ?? null),
      lines = this.names.map((name, i) => {
        const row = textElement('span', '', ''),
          swatch = textElement('i', 'nbp-swatch', '');
        swatch.style.background = colours[i];
        row.append(swatch, ' ', `${name}: peak ${peaks[i] === null ? '–' : formatBytes(/** @type {number} */ (peaks[i]))}`);
        return row;
      });
    const [a, b] = peaks;
    if (a && b) lines.push(textElement('span', 'nbp-muted', `Δ ${b < a ? '−' : '+'}${formatBytes(Math.abs(b - a))} (${formatShare(Math.abs(b - a) / a)})`));
    return lines;
  }

  /** @param {PointerEvent} event */
  tell(event) {
    const box = this.view.frame.bbox,
      left = this.element.getBoundingClientRect().left + box.left,
      {range} = this.sides[0],
      at = range.start + ((event.clientX - left) / Math.max(box.width, 1)) * (range.end - range.start);
    if (event.buttons || event.clientX < left) return;
    const lines = this.curves.map(({last}, i) => {
      const value = last ? valueOf(last.data, at - this.shift(i)) : null;
      return value === null ? '' : `${this.names[i]}: ${formatBytes(value)}`;
    });
    if (lines.some(Boolean)) this.sides[0].ctx.tooltip.show(event, lines);
  }

  moved() {
    for (const curve of this.curves) curve.moved();
    this.ask();
  }

  /** In a narrow page the axis of bytes gives way: both figures keep one axis of time. */
  fit() {
    const narrow = this.sides[0].ctx.settings.gutter < BYTES_PX;
    for (const axis of this.figure.left) axis.visible = !narrow;
    this.figure.min_border_left = this.sides[0].ctx.settings.gutter;
  }

  refresh() {
    this.fit();
    for (const curve of this.curves) curve.channel.run();
  }

  close() {
    for (const end of this.ends) end();
    for (const curve of this.curves) curve.close();
  }
}
