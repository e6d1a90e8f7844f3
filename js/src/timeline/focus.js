// The slice in focus: its frame, and the arrows to what it launched or was launched by.
import {renew} from '../figures/document.js';

/** @typedef {Record<'focus' | 'links' | 'heads', BokehObject>} FocusSources */

/**
 * Mark a slice and its links; null takes the marks away.
 * @param {FocusSources} sources
 * @param {SliceDetail | null} detail
 * @param {Lanes} lanes
 * @param {number} scale pixels a nanosecond
 */
export function drawFocus(sources, detail, lanes, scale) {
  if (!detail) {
    renew(sources.focus, {x0: [], x1: [], y0: [], y1: []});
    renew(sources.links, {xs: [], ys: []});
    renew(sources.heads, {x: [], y: []});
    return;
  }
  const place = lanes.placeOfRow(detail.row),
    px = 1 / scale;
  renew(
    sources.focus,
    place < 0
      ? {x0: [], x1: [], y0: [], y1: []}
      : {x0: [detail.ts], x1: [detail.ts + Math.max(detail.dur, 2 * px)], y0: [place + 0.04], y1: [place + 0.96]},
  );
  const {xs, ys} = arrowsOf(detail, place, lanes);
  renew(sources.links, {xs, ys});
  renew(sources.heads, {x: xs.map((x) => x[3]), y: ys.map((y) => y[3])});
}

/**
 * @param {SliceDetail} detail
 * @param {number} place
 * @param {Lanes} lanes
 */
function arrowsOf(detail, place, lanes) {
  const xs = [],
    ys = [];
  for (const link of detail.links ?? []) {
    const other = lanes.placeOfRow(link.row);
    if (other < 0 || place < 0) continue;
    const ends = link.direction === 'to' ? [detail.ts, link.ts] : [link.ts, detail.ts];
    const at = link.direction === 'to' ? [place + 0.5, other + 0.5] : [other + 0.5, place + 0.5];
    const middle = (ends[0] + ends[1]) / 2;
    xs.push([ends[0], middle, middle, ends[1]]);
    ys.push([at[0], at[0], at[1], at[1]]);
  }
  return {xs, ys};
}
