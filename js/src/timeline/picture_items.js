// What a picture of the timeline shows: slices, steps, and cells where there are more slices than pixels.
import {densityColours, luminance, mix, parseColour, textOn} from './colours.js';

const MOST_STEPS = 600;
const DARK = 0.2; // luminance below which a theme is dark
const ANNOTATION_INSET = 0.24; // annotations are thin: they mark what runs below them

/**
 * What tells the colours and texts of slices.
 * @typedef {Pick<Context, 'meta' | 'store' | 'theme' | 'tint' | 'palettes' | 'labelOf' | 'colourOfName'>} Named
 */

/**
 * Hand a picture to the painter.
 * @param {import('./painter.js').Painter} painter
 * @param {Named} ctx
 * @param {Pick<import('./pictures.js').Picture, 'answer' | 'places' | 'a' | 'b'>} picture
 * @param {number} stepPlace the lane of the steps
 */
export function drawPicture(painter, ctx, picture, stepPlace) {
  const {answer, places} = picture,
    {data} = answer,
    own = Array.from({length: 256}, (_, code) => {
      const rgb = ctx.palettes.colour(ctx.tint, code);
      return {colour: ctx.palettes.css(rgb), ink: textOn(rgb)};
    }),
    other = {colour: ctx.palettes.css(parseColour(ctx.theme.dim)), ink: ctx.theme.muted},
    items = stepItems(ctx, picture, stepPlace, painter.range);
  painter.edgeColour = ctx.theme.muted;
  for (let i = 0; i < data.x0.length; i++) {
    items.push({
      ...(data.match[i] === 1 ? own[data.tint[i]] : other),
      start: data.x0[i],
      length: data.dur[i],
      place: places[data.slot[i]],
      inset: ctx.colourOfName(data.name[i]) === ctx.palettes.neutral ? ANNOTATION_INSET : 0.07,
      text: ctx.labelOf(data.name[i]),
      outline: data.found?.[i] ? ctx.theme.text : undefined,
    });
  }
  painter.show(items, answer.mode === 'dense' ? density(ctx, answer, places) : null);
}

/**
 * @param {Named} ctx
 * @param {TimelineCells} answer
 * @param {number[]} places
 */
const density = (ctx, answer, places) => ({
  cells: densityColours(answer, ctx),
  bins: answer.bins,
  slots: places.length,
  places,
  start: answer.bin_start,
  ns: answer.bin_ns,
});

/**
 * The steps in view.
 * @param {Named} ctx
 * @param {{a: number, b: number}} picture
 * @param {number} place
 * @param {Pick<BokehRange, 'start' | 'end'>} range
 */
function stepItems({meta, store, theme, palettes}, {a, b}, place, range) {
  const {step, ts, dur} = meta.stepColumns,
    chosen = store.get().step,
    dim = parseColour(theme.dim),
    light = parseColour(meta.colours.step),
    own = luminance(dim) < DARK ? mix(light, dim, 0.5) : light;
  /** @type {import('./painter.js').Item[]} */
  const out = [];
  if (!step.length || range.end - range.start > 2e5 * Math.max(dur[0], 1)) return out;
  for (let i = 0; i < step.length; i++) {
    if (ts[i] + dur[i] < a || ts[i] > b) continue;
    const rgb = chosen && !chosen.includes(step[i]) ? dim : own;
    out.push({start: ts[i], length: dur[i], place, inset: 0.12, colour: palettes.css(rgb), text: `step ${step[i]}`, ink: textOn(rgb)});
  }
  return out.length > MOST_STEPS ? [] : out;
}
