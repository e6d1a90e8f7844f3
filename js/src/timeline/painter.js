// Slices, density and labels of the timeline, painted straight from an answer: BokehJS takes 30 ms to copy, index and project
// the columns of 4,000 slices, which are painted in 3. What is narrower than a pixel is drawn as one.
import {FONT, paintSource} from '../figures/document.js';
import {penOf} from '../shared/elements.js';
import {FAINTEST} from './colours.js';
import {createFitting} from './texts.js';

const NARROWEST_PX = 1.2;
const OUTLINE_PX = 1.5;
const EDGE_PX = 2, // below the pinned lanes
  EDGE_OPACITY = 0.6;
const GAP_PX = 0.8; // neighbours stay apart
const NARROWEST_LABEL_PX = 30,
  LABELS = 150,
  LABELS_KEPT = 600; // of those that may come into view

/**
 * @typedef {{start: number, length: number, place: number, colour: string, inset: number, text: string, ink: string, outline?: string}} Item
 * @typedef {{colour: string, inset: number, starts: number[], lengths: number[], places: number[]}} Boxes
 * @typedef {{cells: Uint32Array, bins: number, slots: number, places: number[], start: number, ns: number}} DensityPicture
 * @typedef {CanvasRenderingContext2D} Pen
 * @typedef {Pick<DOMRect, 'left' | 'top' | 'width' | 'height'>} Frame
 */

/** @param {Pen} pen */
const crisp = (pen) => pen.translate(-0.5, -0.5); // BokehJS moves everything by half a pixel, for lines

/**
 * What a picture consists of, from below to above: sources of the figure.
 * @typedef {'density' | 'slices' | 'labels'} Layer
 */

/** Paints the timeline: into its figure, and before that on a canvas. */
export class Painter {
  fit = createFitting();
  /** @type {Boxes[]} */ boxes = [];
  /** @type {Item[]} */ texts = [];
  /** @type {Item[]} */ outlined = [];
  /** @type {DensityPicture | null} */ density = null;
  sheet = document.createElement('canvas');
  edgeColour = '';
  /** @type {(() => void)[]} */ asks = [];
  /** @type {Record<Layer, (pen: Pen, isHere: (place: number) => boolean) => void>} */
  layers = {density: this.paintDensity, slices: this.paintBoxes, labels: this.paintTexts};

  /**
   * @param {() => Frame} frame where the lanes are
   * @param {Pick<BokehRange, 'start' | 'end'>} range the time in view
   * @param {Pick<BokehRange, 'start' | 'end'>} lanes the lanes in view
   * @param {() => number} stuck how many lanes of pinned tracks stay at the top
   * @param {(pen: Pen, geometry: ReturnType<Painter['geometry']>) => void} over paints over everything
   */
  constructor(frame, range, lanes, stuck = () => 0, over = () => {}) {
    this.frame = frame;
    this.range = range;
    this.lanes = lanes;
    this.stuck = stuck;
    this.over = over;
  }

  /**
   * Paint in the figure from now on.
   * @param {BokehObject} view
   */
  attach(view) {
    this.asks = this.names().map((layer) => paintSource(view, layer, (pen) => this.paint(pen, layer)));
  }

  names() {
    return /** @type {Layer[]} */ (Object.keys(this.layers));
  }

  /**
   * @param {Pen} pen
   * @param {Layer} layer
   */
  paint(pen, layer) {
    this.paintInParts(pen, this.layers[layer].bind(this));
    if (layer !== 'labels') return;
    this.paintEdge(pen);
    this.over(pen, this.geometry());
  }

  /**
   * Paint the pinned lanes, and what scrolls below them.
   * @param {Pen} pen
   * @param {(pen: Pen, isHere: (place: number) => boolean) => void} paint
   */
  paintInParts(pen, paint) {
    const stuck = this.stuck();
    if (!stuck) {
      paint(pen, () => true);
      return;
    }
    const {left, width, edge, bottom} = this.geometry();
    pen.save();
    paint(pen, (place) => place < stuck);
    pen.restore();
    pen.save();
    pen.beginPath();
    pen.rect(left - 2, edge, width + 4, bottom - edge);
    pen.clip();
    paint(pen, (place) => place >= stuck);
    pen.restore();
  }

  /**
   * Where the pinned lanes end.
   * @param {Pen} pen
   */
  paintEdge(pen) {
    if (!this.stuck()) return;
    const {left, width, edge} = this.geometry();
    pen.save();
    pen.fillStyle = this.edgeColour;
    pen.globalAlpha = EDGE_OPACITY;
    crisp(pen);
    pen.fillRect(left, edge - EDGE_PX, width, EDGE_PX);
    pen.restore();
  }

  geometry() {
    const {range, lanes} = this,
      {left, top, width, height} = this.frame(),
      scale = width / (range.end - range.start),
      lane = height / (lanes.start - lanes.end),
      stuck = this.stuck();
    return {
      left,
      width,
      scale,
      lane,
      bottom: top + height,
      edge: Math.round(top + stuck * lane),
      x: (/** @type {number} */ t) => left + (t - range.start) * scale,
      y: (/** @type {number} */ place) => top + (place < stuck ? place : place - lanes.end) * lane,
    };
  }

  /**
   * @param {Pen} pen
   * @param {(place: number) => boolean} isHere
   */
  paintBoxes(pen, isHere) {
    const {left, width, scale, x, y} = this.geometry(),
      [from, to] = [left - 2, left + width + 2];
    crisp(pen);
    for (const {colour, starts, lengths, places, inset} of this.boxes) {
      pen.fillStyle = colour;
      for (let i = 0; i < starts.length; i++) {
        if (!isHere(places[i])) continue;
        const start = x(starts[i]),
          long = lengths[i] * scale,
          end = start + Math.max(long - Math.min(GAP_PX, 0.25 * long), NARROWEST_PX);
        if (end < from || start > to) continue;
        const l = Math.max(start, from),
          t = Math.round(y(places[i] + inset));
        pen.fillRect(l, t, Math.min(end, to) - l, Math.round(y(places[i] + 1 - inset)) - t);
      }
    }
    this.paintOutlines(pen, isHere);
  }

  /**
   * Slices that are searched for.
   * @param {Pen} pen
   * @param {(place: number) => boolean} isHere
   */
  paintOutlines(pen, isHere) {
    const {left, width, x, y} = this.geometry();
    pen.lineWidth = OUTLINE_PX;
    for (const {start, length, place, inset, outline} of this.outlined) {
      const from = Math.max(x(start), left - 2),
        to = Math.min(x(start + length), left + width + 2),
        top = Math.round(y(place + inset));
      if (!outline || !isHere(place) || to < left || from > left + width) continue;
      pen.strokeStyle = outline;
      pen.strokeRect(from, top, Math.max(to - from, OUTLINE_PX), Math.round(y(place + 1 - inset)) - top);
    }
  }

  /**
   * @param {Pen} pen
   * @param {(place: number) => boolean} isHere
   */
  paintDensity(pen, isHere) {
    const {density, sheet} = this,
      g = this.geometry(),
      found = density?.slots ? binsAtPixels(density, this.range, g) : null;
    if (!density || !found) return;
    const {first, wide, pixels} = found;
    sheet.width = wide;
    sheet.height = density.slots;
    penOf(sheet).putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer), wide), 0, 0);
    crisp(pen);
    pen.imageSmoothingEnabled = false;
    density.places.forEach((place, slot) => {
      if (!isHere(place)) return;
      const top = Math.round(g.y(place + 0.07));
      pen.drawImage(sheet, 0, slot, wide, 1, first, top, wide, Math.round(g.y(place + 0.9)) - top);
    });
  }

  /**
   * @param {Pen} pen
   * @param {(place: number) => boolean} isHere
   */
  paintTexts(pen, isHere) {
    const {left, width, scale, x, y} = this.geometry();
    let drawn = 0;
    pen.font = FONT;
    pen.textBaseline = 'middle';
    for (const one of this.texts) {
      if (!isHere(one.place)) continue;
      const from = Math.max(x(one.start), left),
        room = Math.min(x(one.start) + one.length * scale, left + width) - from - 7;
      if (room <= NARROWEST_LABEL_PX) continue;
      const text = this.fit(one.text, room);
      if (!text) continue;
      pen.fillStyle = one.ink;
      pen.fillText(text, from + 3, y(one.place + 0.5));
      if (++drawn === LABELS) return;
    }
  }

  /**
   * Show a picture; of texts, those that have room are shown, longest first.
   * @param {Item[]} items
   * @param {DensityPicture | null} cells
   */
  show(items, cells) {
    /** @type {Map<string, Boxes>} */
    const groups = new Map(),
      {scale} = this.geometry();
    for (const {start, length, place, colour, inset} of items) {
      const key = `${colour} ${inset}`;
      let group = groups.get(key);
      if (!group) groups.set(key, (group = {colour, inset, starts: [], lengths: [], places: []}));
      group.starts.push(start);
      group.lengths.push(length);
      group.places.push(place);
    }
    this.boxes = [...groups.values()];
    this.texts = items
      .filter(({length}) => length * scale > 0.6 * NARROWEST_LABEL_PX)
      .sort((p, q) => q.length - p.length)
      .slice(0, LABELS_KEPT);
    this.outlined = items.filter(({outline}) => outline);
    this.density = cells;
    for (const ask of this.asks) ask();
  }

  labels() {
    return this.texts.map(({text}) => text);
  }
}

/**
 * Every pixel shows the mean of the bins that it covers, in the colour of the fullest: none falls between two pixels.
 * @param {DensityPicture} density
 * @param {Pick<BokehRange, 'start' | 'end'>} range
 * @param {{left: number, width: number, x: (t: number) => number}} geometry
 */
export function binsAtPixels({cells, bins, slots, start, ns}, range, {left, width, x}) {
  const k = (/** @type {number} */ px) => Math.floor((range.start + ((px - left) / width) * (range.end - range.start) - start) / ns);
  const first = Math.max(Math.floor(left), Math.floor(x(start))),
    last = Math.min(Math.ceil(left + width), Math.ceil(x(start + bins * ns)));
  if (last <= first) return null;
  const wide = last - first,
    pixels = new Uint32Array(wide * slots),
    edges = Int32Array.from({length: wide + 1}, (_, p) => Math.min(bins, Math.max(0, k(first + p))));
  for (let slot = 0; slot < slots; slot++)
    for (let p = 0; p < wide; p++) {
      const to = slot * bins + Math.min(bins, Math.max(edges[p + 1], edges[p] + 1));
      const from = slot * bins + edges[p];
      let fullest = 0,
        sum = 0;
      for (let cell = from; cell < to; cell++) {
        sum += cells[cell] >>> 24;
        if (cells[cell] >>> 24 > fullest >>> 24) fullest = cells[cell];
      }
      if (fullest) pixels[slot * wide + p] = ((Math.max(FAINTEST, sum / (to - from)) << 24) | (fullest & 0xffffff)) >>> 0;
    }
  return {first, wide, pixels};
}
