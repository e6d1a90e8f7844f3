// The slice in focus: its frame, and the arrows to what it launched or was launched by.
import {renew} from '../figures/document.js';

/**
 * @typedef {Record<'focus' | 'links' | 'heads', BokehObject>} FocusSources
 * @typedef {FoundSlice & {links?: SliceLink[]}} Marked a slice, and what it launched or was launched by
 */

/**
 * Mark a slice and its links; null takes the marks away.
 * @param {FocusSources} sources
 * @param {Marked | null} detail
 * @param {import('./timeline.js').Timeline} timeline
 * @param {number} scale pixels a nanosecond
 */
export function drawFocus(sources, detail, timeline, scale) {
  if (!detail) {
    renew(sources.focus, {x0: [], x1: [], y0: [], y1: []});
    renew(sources.links, {xs: [], ys: []});
    renew(sources.heads, {x: [], y: []});
    return;
  }
  const {lanes} = timeline,
    place = lanes.placeOfRow(detail.row),
    px = 1 / scale,
    // what scrolls ends at the pinned tracks
    highest = place < lanes.stuck() ? -Infinity : timeline.edge(),
    y = timeline.yOf(place);
  renew(
    sources.focus,
    place < 0 || y + 0.96 <= highest
      ? {x0: [], x1: [], y0: [], y1: []}
      : {x0: [detail.ts], x1: [detail.ts + Math.max(detail.dur, 2 * px)], y0: [Math.max(y + 0.04, highest)], y1: [y + 0.96]},
  );
  const {xs, ys, heads} = arrowsOf(detail, place, timeline);
  renew(sources.links, {xs, ys});
  renew(sources.heads, {x: heads.map(([x]) => x), y: heads.map(([, at]) => at)});
}

/**
 * An arrow to a lane that is scrolled away ends at the pinned tracks, without a head.
 * @param {Marked} detail
 * @param {number} place
 * @param {import('./timeline.js').Timeline} timeline
 */
function arrowsOf(detail, place, timeline) {
  const {lanes} = timeline,
    /** @type {number[][]} */
    xs = [],
    /** @type {number[][]} */
    ys = [],
    /** @type {[number, number][]} */
    heads = [];
  const middleOf = (/** @type {number} */ at) => timeline.yOf(at) + 0.5;
  const inSight = (/** @type {number} */ at) => at < lanes.stuck() || middleOf(at) >= timeline.edge();
  for (const link of detail.links ?? []) {
    const other = lanes.placeOfRow(link.row);
    if (other < 0 || place < 0 || !(inSight(place) || inSight(other))) continue;
    const ends = link.direction === 'to' ? [detail.ts, link.ts] : [link.ts, detail.ts],
      places = link.direction === 'to' ? [place, other] : [other, place],
      at = places.map((one) => (inSight(one) ? middleOf(one) : timeline.edge())),
      middle = (ends[0] + ends[1]) / 2;
    xs.push([ends[0], middle, middle, ends[1]]);
    ys.push([at[0], at[0], at[1], at[1]]);
    if (inSight(places[1])) heads.push([ends[1], at[1]]);
  }
  return {xs, ys, heads};
}
