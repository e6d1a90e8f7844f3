// Paints the strip of the account.
import {penOf} from '../shared/elements.js';
import {formatTime} from '../shared/units.js';
import {luminance, mix, parseColour, textOn} from '../timeline/colours.js';
import {createFitting} from '../timeline/texts.js';
import {spanWords} from './account_spans.js';

const ACCOUNT_FONT = '11px helvetica';
const ACCOUNT_PAD = 4; // px beside a label
const NARROWEST_STRETCH_PX = 1;

/**
 * @typedef {import('./account_spans.js').AccountSpan} AccountSpan
 * @typedef {CanvasRenderingContext2D} Pen
 */

/**
 * @param {Context} ctx
 * @param {AccountPart[]} parts
 */
function accountColours(ctx, parts) {
  const {steps, code} = ctx.meta.colours.account,
    paper = parseColour(ctx.theme.background),
    ink = parseColour(ctx.theme.text);
  /** @type {Record<string, number>} */
  const shades = {'outside-window': 0.06, profiler: 0.4};
  let statements = 0,
    loops = 0;
  return parts.map(({kind}) => {
    if (kind === 'steps') return parseColour(steps[loops++ % steps.length]);
    if (kind === 'code') return mix(paper, parseColour(code[statements++ % code.length]), luminance(paper) < 0.2 ? 0.8 : 1);
    return mix(paper, ink, shades[kind] ?? 0.14);
  });
}

/** The canvas of the strip. */
export class AccountPainter {
  fit = createFitting();
  /** @type {string[]} */ labels = [];

  /**
   * @param {Context} ctx
   * @param {HTMLCanvasElement} canvas
   */
  constructor(ctx, canvas) {
    this.ctx = ctx;
    this.canvas = canvas;
  }

  /**
   * @param {AccountPart[]} parts
   * @param {AccountSpan[]} stretches
   * @param {number} cursor
   * @param {number} begin ns
   * @param {number} scale pixels a nanosecond
   * @param {{width: number, height: number}} size
   */
  paint(parts, stretches, cursor, begin, scale, {width, height}) {
    const {ctx} = this,
      pen = this.clear(width, height),
      colours = accountColours(ctx, parts),
      x = (/** @type {number} */ t) => (t - begin) * scale;
    stretches.forEach((one, i) => {
      const from = x(one.from),
        long = Math.max(x(one.to) - from - (x(one.to) - from > 3 ? 1 : 0), NARROWEST_STRETCH_PX);
      this.paintSpan(pen, parts[one.part], one, colours[one.part], {from, long, height});
      if (i === cursor) frame(pen, from, long, height, ctx.theme.text);
    });
    const chosen = ctx.store.get().window;
    if (!chosen) return;
    const [a, b] = [Math.max(0, x(chosen[0])), Math.min(width, x(chosen[1]))];
    Object.assign(pen, {fillStyle: ctx.theme.background, globalAlpha: 0.6});
    pen.fillRect(0, 0, a, height);
    pen.fillRect(b, 0, width - b, height);
    pen.globalAlpha = 1;
    if (b > a) frame(pen, a, Math.max(b - a, 2), height, ctx.theme.accent);
  }

  /**
   * An empty canvas of a size in CSS pixels.
   * @param {number} width
   * @param {number} height
   */
  clear(width, height) {
    const {canvas} = this,
      dots = window.devicePixelRatio || 1,
      pen = penOf(canvas);
    canvas.width = Math.round(width * dots);
    canvas.height = Math.round(height * dots);
    Object.assign(canvas.style, {left: `${this.ctx.settings.gutter}px`, width: `${width}px`, height: `${height}px`});
    pen.scale(dots, dots);
    Object.assign(pen, {font: ACCOUNT_FONT, textBaseline: 'middle'});
    this.labels = [];
    return pen;
  }

  /**
   * @param {Pen} pen
   * @param {AccountPart} part
   * @param {AccountSpan} stretch
   * @param {number} colour
   * @param {{from: number, long: number, height: number}} place
   */
  paintSpan(pen, part, stretch, colour, {from, long, height}) {
    const css = this.ctx.palettes.css(colour),
      hatched = part.kind === 'outside-window';
    pen.fillStyle = css;
    pen.fillRect(from, 0, long, height);
    if (hatched) hatch(pen, from, long, height, this.ctx.theme.muted);
    const text = this.labelOf(part, stretch, long - 2 * ACCOUNT_PAD);
    if (!text) return;
    this.labels.push(text);
    if (hatched) {
      // a hatched ground is no ground for letters
      pen.fillStyle = css;
      pen.fillRect(from + ACCOUNT_PAD - 2, 1, pen.measureText(text).width + 4, height - 2);
    }
    pen.fillStyle = textOn(colour);
    pen.fillText(text, from + ACCOUNT_PAD, height / 2 + 0.5);
  }

  /**
   * As much as has room: what and how long; what; its beginning.
   * @param {AccountPart} row
   * @param {AccountSpan} stretch
   * @param {number} room
   */
  labelOf(row, {from, to, steps}, room) {
    const {fit} = this;
    if (room < 2 * ACCOUNT_PAD || row.kind === 'not-recorded') return room > 70 && row.kind === 'not-recorded' ? row.part : '';
    const words = spanWords(row, steps),
      timed = `${words} · ${formatTime(to - from)}`;
    for (const whole of [row.kind === 'code' && row.text ? `${timed} · ${row.text}` : timed, timed]) if (fit(whole, room) === whole) return whole;
    const short = fit(words, room);
    return short.length > 8 || short === words ? short : '';
  }
}

/**
 * @param {Pen} pen
 * @param {number} from
 * @param {number} long
 * @param {number} height
 * @param {string} colour
 */
function hatch(pen, from, long, height, colour) {
  pen.save();
  pen.beginPath();
  pen.rect(from, 0, long, height);
  pen.clip();
  pen.beginPath();
  for (let at = from - height - (from % 6); at < from + long; at += 6) {
    pen.moveTo(at, height);
    pen.lineTo(at + height, 0);
  }
  Object.assign(pen, {strokeStyle: colour, lineWidth: 1, globalAlpha: 0.45});
  pen.stroke();
  pen.restore();
}

/**
 * @param {Pen} pen
 * @param {number} from
 * @param {number} long
 * @param {number} height
 * @param {string} colour
 */
function frame(pen, from, long, height, colour) {
  Object.assign(pen, {strokeStyle: colour, lineWidth: 2});
  pen.strokeRect(from + 1, 1, Math.max(long - 2, 1), height - 2);
}
