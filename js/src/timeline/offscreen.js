// Selected slices that are out of sight, side by side of the timeline: how many, and the nearest of them.
import {formatCount} from '../shared/units.js';

const HALF = 0.5; // of a lane: one that shows less is out of sight

/**
 * @typedef {'above' | 'below' | 'folded' | 'before' | 'after'} Side
 *
 * @typedef {object} Sight what the timeline shows
 * @property {number} top lanes that are scrolled away
 * @property {number} bottom
 * @property {[number, number] | null} time null while the answer is about another time
 *
 * @typedef {object} Indicator
 * @property {Side} side
 * @property {number} count
 * @property {[string, string, string]} parts of the sentence: what there is always room for, and what narrow pages leave out
 * @property {string} action
 * @property {number} row the nearest row
 * @property {number | null} time where its nearest slice is; null where it has one in the time that is shown
 *
 * @typedef {object} Hidden
 * @property {number} count
 * @property {Set<number>} tracks
 * @property {Record<import('./lanes.js').Hiding, Set<string | number>>} by
 * @property {number[]} at entries of the answer, from above
 */

/** @type {Record<Side, string>} */
const ACTIONS = {
  above: 'scroll to the nearest',
  below: 'scroll to the nearest',
  folded: 'show the first of them',
  before: 'move to the nearest',
  after: 'move to the nearest',
};
/** @type {Record<import('./lanes.js').Hiding, string>} */
const HIDING = {group: 'folded group', track: 'folded track', hidden: 'hidden track'};

/**
 * @param {number} n
 * @param {string} noun
 */
const counted = (n, noun) => `${formatCount(n)} ${noun}${n === 1 ? '' : 's'}`;

/** @param {string[]} parts */
const listed = (parts) => (parts.length > 1 ? `${parts.slice(0, -1).join(', ')} and ${parts.at(-1)}` : parts.join());

/** @returns {Hidden} */
const nothing = () => ({count: 0, tracks: new Set(), by: {group: new Set(), track: new Set(), hidden: new Set()}, at: []});

/**
 * Where every selected slice is that cannot be seen: each is on one side only, rows first, then time.
 * @param {SelectedAnswer} answer
 * @param {import('./lanes.js').Lanes} lanes
 * @param {Sight} sight
 * @returns {{inSight: number, indicators: Indicator[]}}
 */
export function offscreen(answer, lanes, sight) {
  const {row: rows, before, inside, after, end_before: ends, start_after: starts} = answer.data,
    places = lanes.placesOfRows(),
    /** @type {Record<Side, Hidden>} */
    sides = {above: nothing(), before: nothing(), after: nothing(), folded: nothing(), below: nothing()};
  let inSight = 0;
  /**
   * @param {Side} side
   * @param {number} k
   * @param {number} count
   * @param {Track} track
   */
  const add = (side, k, count, track) => {
    if (!count) return;
    sides[side].count += count;
    sides[side].tracks.add(track.track);
    sides[side].at.push(k);
  };
  rows.forEach((row, k) => {
    const track = lanes.trackOf(row);
    if (!track) return;
    const side = sideOf(places.get(row), lanes, sight);
    if (side) {
      add(side, k, before[k] + inside[k] + after[k], track);
      if (side === 'folded') {
        const hiding = lanes.hidingOf(track);
        sides.folded.by[hiding].add(hiding === 'group' ? lanes.groupOf(track) : track.track);
      }
      return;
    }
    inSight += inside[k];
    add('before', k, before[k], track);
    add('after', k, after[k], track);
  });
  const byPlace = (/** @type {number} */ p, /** @type {number} */ q) => (places.get(rows[p]) ?? 0) - (places.get(rows[q]) ?? 0);
  sides.above.at.sort((p, q) => byPlace(q, p));
  sides.below.at.sort(byPlace);
  sides.before.at.sort((p, q) => ends[q] - ends[p]);
  sides.after.at.sort((p, q) => starts[p] - starts[q]);
  /**
   * @param {Side} side
   * @returns {Indicator}
   */
  const indicator = (side) => {
    const {count, at} = sides[side],
      estimate = Boolean(answer.estimate),
      inTime = side === 'before' || side === 'after',
      k = (inTime ? undefined : at.find((one) => inside[one])) ?? at[0],
      noun = count === 1 && !estimate ? 'slice' : 'slices';
    return {
      side,
      count,
      parts: [estimate ? '' : `${formatCount(count)} `, 'selected', ` ${noun} ${placeText(side, sides[side], estimate)}`],
      action: ACTIONS[side],
      row: rows[k],
      time: inTime || !inside[k] ? nearest(ends[k], starts[k], side, sight.time) : null,
    };
  };
  const shown = /** @type {Side[]} */ (Object.keys(sides)).filter((side) => sides[side].count && (sight.time || !['before', 'after'].includes(side)));
  return {inSight, indicators: shown.map(indicator)};
}

/**
 * On which side of what is shown a row is; null where it is in sight.
 * @param {number | undefined} place
 * @param {import('./lanes.js').Lanes} lanes
 * @param {Sight} sight
 * @returns {Side | null}
 */
function sideOf(place, lanes, {top, bottom}) {
  if (place === undefined) return 'folded';
  const stuck = lanes.stuck();
  if (place < stuck) return null;
  if (place + HALF < top + stuck) return 'above';
  return place + HALF > bottom ? 'below' : null;
}

/**
 * @param {Side} side
 * @param {Hidden} hidden
 * @param {boolean} estimate
 */
function placeText(side, {tracks, by}, estimate) {
  if (side === 'before' || side === 'after') return side;
  if (side === 'folded') {
    const kinds = /** @type {import('./lanes.js').Hiding[]} */ (Object.keys(HIDING)).filter((kind) => by[kind].size);
    return `in ${listed(kinds.map((kind) => (estimate ? `${HIDING[kind]}s` : counted(by[kind].size, HIDING[kind]))))}`;
  }
  return estimate ? side : `on ${counted(tracks.size, 'track')} ${side}`;
}

/**
 * The instant to move to.
 * @param {number} end of the last slice before, -1 for none
 * @param {number} start of the first slice after, -1 for none
 * @param {Side} side
 * @param {[number, number] | null} time
 */
function nearest(end, start, side, time) {
  if (side === 'before' || start < 0) return end;
  if (side === 'after' || end < 0 || !time) return start;
  return time[0] - end < start - time[1] ? end : start;
}
