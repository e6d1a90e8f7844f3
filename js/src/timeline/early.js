// The first picture of the timeline, on a canvas in its place: BokehJS takes some 400 ms to mount the figures, and its scripts
// take as long to load in a new page.
import {narrowGutter} from '../page/responsive.js';
import {element, penOf} from '../shared/elements.js';
import {Lanes} from './lanes.js';
import {Painter} from './painter.js';
import {drawPicture} from './picture_items.js';
import {pictureQuestion, rowsInSight} from './pictures.js';

export const NARROWEST_NS = 20;
const LEAST_SHARE = 0.5; // of the cell
const NAMES_LEFT_PX = 32, // as dashboard.css has them
  NAMES_RIGHT_PX = 44;
const FRAME_MS = 100; // a page that is not looked at has no frames
const SOON_MS = 300;
const BESIDE_MS = 120;
const LONG = 300_000; // slices, from which the kernel takes longer for the views beside than for the picture

/**
 * Wait for the first picture, unless it is late: BokehJS holds the page for about as long.
 * @param {Promise<unknown>} picture
 */
export const pictureOrLate = (picture) => Promise.race([picture, new Promise((done) => setTimeout(done, SOON_MS))]);

/** @typedef {{asked: import('./pictures.js').Asked, answer: TimelinePicture}} EarlyPicture */

/**
 * The time that a page shows first. A recording that is short beside its cell opens on what was recorded.
 * @param {Pick<Meta, 'span' | 'work'>} meta
 */
export function openingView({span, work}) {
  const wide = work[1] - work[0],
    [a, b] = wide > 0 && wide < LEAST_SHARE * (span[1] - span[0]) ? [work[0] - 0.02 * wide, work[1] + 0.02 * wide] : span;
  return {start: a, end: Math.max(b, a + NARROWEST_NS)};
}

/**
 * Ask for the first picture, paint it, and wait until it is seen. The timeline takes it over.
 * @param {Context} ctx
 * @param {{root: HTMLElement, timeline: HTMLElement}} parts
 * @param {() => boolean} wanted false when the timeline is there
 * @param {(range: {start: number, end: number}, frame: import('./painter.js').Frame) => Promise<unknown>} beside
 *   asks for the views beside it and draws them, in a short recording in the same message
 * @returns {Promise<EarlyPicture | null>} null where nothing can be seen
 */
export async function firstPicture(ctx, {root, timeline: box}, wanted, beside) {
  const {asker, meta, settings, store} = ctx;
  if (settings.empty.timeline || !box.clientWidth) return null;
  const lanes = new Lanes(meta),
    left = narrowGutter(root.clientWidth) ?? settings.gutter;
  lanes.pin(store.get().pinned ?? []);
  const shown = lanes.room(),
    frame = {left, top: settings.axis, width: Math.max(1, box.clientWidth - left - settings.margin), height: shown * settings.lane},
    range = openingView(meta);
  box.style.minHeight = `${frame.top + frame.height}px`;
  const asked = pictureQuestion(range, rowsInSight(lanes, 0, shown), frame.width, ctx),
    answering = asker.ask(asked, wanted),
    soon = meta.slices <= LONG && beside(range, frame),
    answer = /** @type {TimelinePicture} */ (await answering);
  if (!wanted()) return null;
  const others = soon || beside(range, frame);
  const painter = new Painter(
    () => frame,
    range,
    {start: shown, end: 0},
    () => lanes.stuck(),
  );
  drawPicture(painter, ctx, {answer, places: asked.places, a: asked.a, b: asked.b}, lanes.placeOfSteps());
  const pen = canvasOver(box, frame.top + frame.height);
  if (left > NAMES_LEFT_PX) writeNames(pen, lanes, frame, getComputedStyle(box));
  paint(painter, frame, pen);
  await Promise.race([others, new Promise((done) => setTimeout(done, BESIDE_MS))]);
  await new Promise((seen) => {
    requestAnimationFrame(() => setTimeout(seen));
    setTimeout(seen, FRAME_MS);
  });
  return {asked, answer};
}

/**
 * @param {HTMLElement} box
 * @param {number} height
 */
export function canvasOver(box, height) {
  const canvas = element('canvas', 'nbp-early', box),
    pen = penOf(canvas),
    width = box.clientWidth,
    ratio = devicePixelRatio;
  canvas.setAttribute('aria-hidden', 'true');
  Object.assign(canvas, {width: Math.round(width * ratio), height: Math.round(height * ratio)});
  Object.assign(canvas.style, {width: `${width}px`, height: `${height}px`});
  pen.scale(ratio, ratio);
  return pen;
}

/**
 * Write the names of the tracks beside their lanes.
 * @param {CanvasRenderingContext2D} pen
 * @param {Lanes} lanes
 * @param {import('./painter.js').Frame} frame
 * @param {CSSStyleDeclaration} style
 */
function writeNames(pen, lanes, {left, top, height}, {font, color}) {
  const lane = height / lanes.room();
  pen.save();
  pen.beginPath();
  pen.rect(0, top, left - NAMES_RIGHT_PX, height);
  pen.clip();
  Object.assign(pen, {font, fillStyle: color, textBaseline: 'middle'});
  lanes
    .all()
    .slice(0, lanes.room())
    .forEach((one, place) => pen.fillText(nameOf(one), NAMES_LEFT_PX, top + (place + 0.5) * lane));
  pen.restore();
}

/** @param {import('./lanes.js').Lane} lane */
function nameOf(lane) {
  if (lane.kind === 'steps') return 'steps';
  if (lane.kind === 'group') return lane.text;
  if (!lane.first) return '';
  return lane.kind === 'counter' ? lane.counter.name : lane.track.label;
}

/**
 * @param {Painter} painter
 * @param {import('./painter.js').Frame} frame
 * @param {CanvasRenderingContext2D} pen
 */
function paint(painter, {left, top, width, height}, pen) {
  pen.beginPath();
  pen.rect(left, top, width, height);
  pen.clip();
  for (const layer of painter.names()) {
    pen.save();
    pen.translate(0.5, 0.5); // as BokehJS does
    painter.paint(pen, layer);
    pen.restore();
  }
}
