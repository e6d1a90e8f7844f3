// Where the selected slices of a report lie: twin of service/answers/timeline.py.
import {reply} from '../shared/packing.js';

/**
 * Make the answer `selected`. Of slices that the file holds as sums only it is not known where they lie.
 * @param {import('./answers.js').Report} report
 */
export function createLocalSelected({columns, given, index, matching, left}) {
  const {order, start, end, pointer} = index,
    /** @type {Map<number, number[]>} slices of each row that are drawn shorter than they are */
    straddling = new Map(),
    straddlingOf = (/** @type {number} */ row) => straddling.get(row) ?? [];
  for (const i of columns.straddling) straddling.set(columns.row[i], [...straddlingOf(columns.row[i]), i]);

  /**
   * @param {SelectedRequest} q
   * @param {SelectionState} state
   */
  return function selected(q, state) {
    const mask = matching(state, []),
      [a, b] = [Math.floor(q.a), Math.ceil(q.b)],
      /** @type {number[][]} */
      found = [];
    for (let row = 0; row < given.trackOfRow.length; row++) {
      const [first, stop] = state.window ? index.stretch(row, ...state.window) : [pointer[row], pointer[row + 1]],
        [from, to] = index.stretch(row, a, b),
        counts = [0, 0, 0];
      let endBefore = -1,
        startAfter = -1;
      for (let p = first; p < stop; p++) {
        if (mask && !mask[order[p]]) continue;
        const part = p < from ? 0 : p < to ? 1 : 2;
        counts[part]++;
        if (part === 0) endBefore = end[p];
        else if (part === 2 && startAfter < 0) startAfter = start[p];
      }
      for (const i of straddlingOf(row)) {
        const s = columns.ts[i],
          drawnEnd = s + columns.dur[i] - index.shorter(i),
          only = state.window && drawnEnd <= state.window[0] && s + columns.dur[i] > state.window[0]; // touches it undrawn
        if (!only || (mask && !mask[i])) continue;
        const part = s >= b ? 2 : drawnEnd <= a ? 0 : 1;
        counts[part]++;
        if (part === 0) endBefore = Math.max(endBefore, drawnEnd);
        else if (part === 2) startAfter = startAfter < 0 ? s : Math.min(startAfter, s);
      }
      if (counts.some(Boolean)) found.push([row, ...counts, endBefore, startAfter]);
    }
    const column = (/** @type {number} */ k) => found.map((one) => one[k]),
      [row, before, inside, after] = [0, 1, 2, 3].map((k) => Uint32Array.from(column(k))),
      count = found.reduce((sum, one) => sum + one[1] + one[2] + one[3], 0);
    return reply(
      {count, ...(left && {estimate: true})},
      {row, before, inside, after, end_before: Float64Array.from(column(4)), start_after: Float64Array.from(column(5))},
    );
  };
}
