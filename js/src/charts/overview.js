// The strip above: how busy each track is over the whole recording, and what of it is selected. Drag the frame to move, its edges to resize, outside it to look elsewhere.
import {frameOf, paintSource} from '../figures/document.js';
import {penOf} from '../shared/elements.js';
import {PICTURED} from '../shared/store.js';
import {resourceColours} from '../timeline/colours.js';

const EDGE_PX = 6;
const CURSORS = {left: 'ew-resize', right: 'ew-resize', move: 'grab', new: 'crosshair'};

/** @typedef {{part: keyof typeof CURSORS, at: number, start: number, end: number, x: number}} Drag */

/** The density of the whole recording, and what of it is in view. */
export class Overview {
  sheet = document.createElement('canvas');
  /** @type {StripAnswer | null} */ have = null;
  /** @type {Drag | null} */ drag = null;
  tracks = 1;

  /**
   * @param {Context} ctx
   * @param {HTMLElement} element
   */
  constructor(ctx, element) {
    const {host} = ctx;
    this.ctx = ctx;
    this.element = element;
    this.range = ctx.range;
    this.span = ctx.meta.span;
    this.view = host.viewOf(host.model('overview'));
    this.repaint = paintSource(this.view, 'strip', (pen) => this.paint(pen)); // painted straight, as the timeline
    this.channel = ctx.asker.channel(
      () => ({t: 'strip', px: Math.round(frameOf(this.view, element).width), tint: ctx.tint, picture: this.have?.picture}),
      (answer) => this.arrived(answer),
      (error) => ctx.trouble(error),
      PICTURED,
      host.frames.turn,
    );
    element.addEventListener('pointerdown', (event) => this.down(event));
    element.addEventListener('pointermove', (event) => this.move(event));
    element.addEventListener('pointerup', (event) => this.up(event));
    element.addEventListener('dblclick', () => ctx.setView(...this.span));
  }

  /** @param {StripAnswer | StripMarks} answer */
  arrived(answer) {
    const {have} = this;
    if (!answer.same) this.have = answer;
    else if (have) this.have = {...have, filtered: answer.filtered, data: {...have.data, ...answer.data}};
    if (!this.have) return;
    this.tracks = Math.max(...this.have.tracks, 0) + 1;
    this.ctx.host.model('strip_rows').setv({start: Math.max(this.tracks, 1), end: 0});
    this.draw(this.have);
    this.ctx.count('overview');
  }

  /** @param {StripAnswer} have */
  draw(have) {
    const {sheet} = this;
    if (have.bins) {
      sheet.width = have.bins;
      sheet.height = this.tracks;
      const pixels = new Uint8ClampedArray(resourceColours(have, this.ctx).buffer);
      penOf(sheet).putImageData(new ImageData(pixels, have.bins), 0, 0);
    }
    this.repaint();
  }

  /** @param {CanvasRenderingContext2D} pen */
  paint(pen) {
    const {have, sheet} = this,
      [begin, end] = this.span;
    if (!have?.bins) return;
    const {left, width, top, height} = this.view.frame.bbox,
      lane = height / this.tracks,
      scale = width / (end - begin);
    pen.translate(-0.5, -0.5); // BokehJS moves everything by half a pixel, for lines
    pen.imageSmoothingEnabled = false;
    const x = left + (have.bin_start - begin) * scale,
      wide = have.bin_ns * have.bins * scale;
    for (let row = 0; row < this.tracks; row++)
      pen.drawImage(sheet, 0, row, have.bins, 1, x, Math.round(top + row * lane), wide, Math.max(1, Math.round(0.75 * lane)));
  }

  whole() {
    return this.range.start <= this.span[0] && this.range.end >= this.span[1];
  }

  /** Show what is in view. */
  seen() {
    const {host} = this.ctx,
      {range} = this,
      visible = !this.whole();
    host.model('seen').setv({left: range.start, right: range.end, visible});
    host.model('unseen_left').setv({right: range.start, visible});
    host.model('unseen_right').setv({left: range.end, visible});
  }

  scale() {
    const f = frameOf(this.view, this.element);
    return {f, ns: (this.span[1] - this.span[0]) / f.width};
  }

  /** @param {MouseEvent} event */
  timeAt(event) {
    const {f, ns} = this.scale();
    return this.span[0] + (event.clientX - f.left) * ns;
  }

  /**
   * @param {MouseEvent} event
   * @returns {keyof typeof CURSORS}
   */
  partAt(event) {
    const {range} = this,
      t = this.timeAt(event),
      near = EDGE_PX * this.scale().ns;
    if (this.whole()) return 'new';
    if (Math.abs(t - range.start) < near) return 'left';
    if (Math.abs(t - range.end) < near) return 'right';
    return t > range.start && t < range.end ? 'move' : 'new';
  }

  /** @param {PointerEvent} event */
  down(event) {
    if (event.button !== 0) return;
    this.ctx.takeFocus();
    event.preventDefault();
    const {start, end} = this.range;
    this.drag = {part: this.partAt(event), at: this.timeAt(event), start, end, x: event.clientX};
    this.element.setPointerCapture?.(event.pointerId);
  }

  /** @param {PointerEvent} event */
  move(event) {
    const {ctx, drag} = this;
    if (!drag) {
      this.element.style.cursor = CURSORS[this.partAt(event)];
      return;
    }
    const t = this.timeAt(event),
      by = t - drag.at;
    if (Math.abs(event.clientX - drag.x) < 3) return;
    if (drag.part === 'move') ctx.setView(drag.start + by, drag.end + by);
    else if (drag.part === 'left') ctx.setView(Math.min(t, drag.end - 20), drag.end);
    else if (drag.part === 'right') ctx.setView(drag.start, Math.max(t, drag.start + 20));
    else ctx.setView(Math.min(drag.at, t), Math.max(drag.at, t));
  }

  /** @param {PointerEvent} event */
  up(event) {
    const {drag, range} = this;
    if (drag && Math.abs(event.clientX - drag.x) < 3 && drag.part === 'new' && !this.whole()) {
      const half = (range.end - range.start) / 2;
      this.ctx.setView(drag.at - half, drag.at + half);
    }
    this.drag = null;
  }

  refresh() {
    this.channel.run();
  }

  close() {
    this.channel.close();
  }
}
