// Labels of boxes in a figure, as long as they fit: at every width and at every zoom.
import {FONT} from '../figures/document.js';
import {createFitting} from '../timeline/texts.js';

const PADDING_PX = 3,
  GAP_PX = 0.8, // as in the timeline
  NARROWEST_APART_PX = 4,
  NARROWEST_CUT_PX = 30, // where less room is, a label that does not fit is left out
  BOXES = ['label', 'left', 'right', 'top', 'bottom', 'middle'];

/**
 * A label that is drawn, in its box: pixels of the canvas.
 * @typedef {{text: string, label: string, x: number, y: number, left: number, right: number}} FittedLabel
 *
 * @typedef {{compute: (value: number) => number}} Scale
 */

/**
 * What is written into boxes: each label, or its beginning, where the part of the box in view has room for it.
 * @param {Record<'left' | 'right' | 'middle', ArrayLike<number>> & {label: string[]}} data
 * @param {{x: Scale, y: Scale, from: number, to: number}} frame
 * @param {(text: string, room: number) => string} fit
 * @returns {FittedLabel[]}
 */
export function fittedLabels({left, right, middle, label}, {x, y, from, to}, fit) {
  const out = [];
  for (let i = 0; i < label.length; i++) {
    const begin = Math.max(x.compute(left[i]), from),
      end = Math.min(x.compute(right[i]), to),
      room = end - begin - 2 * PADDING_PX;
    if (room <= 0) continue;
    const text = fit(label[i], room);
    if (!text || (text !== label[i] && room < NARROWEST_CUT_PX)) continue;
    out.push({text, label: label[i], x: begin + PADDING_PX, y: y.compute(middle[i]), left: begin, right: end});
  }
  return out;
}

/**
 * Neighbours of one colour stay apart: a line of nothing at the right of each box that is not very narrow.
 * @param {CanvasRenderingContext2D} pen
 * @param {Record<'left' | 'right' | 'top' | 'bottom', ArrayLike<number>>} boxes
 * @param {{x: Scale, y: Scale}} frame
 */
function separate(pen, {left, right, top, bottom}, {x, y}) {
  for (let i = 0; i < left.length; i++) {
    const end = x.compute(right[i]);
    if (end - x.compute(left[i]) < NARROWEST_APART_PX) continue;
    const above = y.compute(top[i]);
    pen.clearRect(end - GAP_PX, above, GAP_PX, y.compute(bottom[i]) - above);
  }
}

/**
 * Whether columns are those of boxes: points and bars have labels too.
 * @param {Record<string, unknown>} data
 */
export const hasBoxes = (data) => BOXES.every((column) => data[column] !== undefined);

/**
 * Paint the texts of glyphs whose source has boxes and their column `label` so that they fit, from `left` to `right`.
 * Gives a function that tells what was painted last.
 * @param {BokehObject} view of a figure
 */
export function fitLabels(view) {
  const fit = createFitting();
  /** @type {FittedLabel[]} */
  let painted = [];
  for (const one of view.computed_renderer_views ?? []) {
    const {glyph, data_source: source} = one.model;
    if (glyph?.type !== 'Text' || !source || !hasBoxes(source.data)) continue;
    one._paint = (/** @type {CanvasRenderingContext2D | undefined} */ given) => {
      const pen = given ?? one.layer.ctx,
        {x_scale: x, y_scale: y, bbox} = view.frame;
      painted = fittedLabels(source.data, {x, y, from: bbox.left, to: bbox.right}, fit);
      pen.save();
      separate(pen, source.data, {x, y});
      pen.font = FONT;
      pen.textBaseline = 'middle';
      pen.fillStyle = glyph.text_color?.value ?? '#000000';
      for (const {text, x: at, y: over} of painted) pen.fillText(text, at, over);
      pen.restore();
    };
    one.request_paint();
  }
  return () => painted;
}
