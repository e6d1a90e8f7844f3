// Columns of a report: positions by row and start, and which slices a selection leaves. Twins of service/detail/rows.py and
// service/selected_rows.py.
import {lowerBound} from '../shared/search.js';

/**
 * @typedef {object} RowIndex
 * @property {Uint32Array} order slices by row and start
 * @property {Float64Array} start of the slice at each position
 * @property {Float64Array} end of the slice at each position, as it is drawn
 * @property {Uint32Array} pointer first position of each row
 * @property {(row: number, a: number, b: number) => [number, number]} stretch positions that a window of time touches
 * @property {(row: number, a: number, b: number) => number} covered ns of a window that slices of a row cover
 * @property {(slice: number) => number} shorter by how many ns a slice is drawn shorter than it is
 */

/**
 * Where slices lie inside of one another: as they are drawn, unless frames of libraries are folded.
 * @typedef {object} Nesting
 * @property {NumberArray} row
 * @property {number[]} trackOfRow
 * @property {RowIndex} index
 */

/**
 * Slices in trace order (by start) and, per row, the positions that detail.rows.RowIndex has.
 * @param {ReportColumns} columns
 * @param {number[]} trackOfRow
 * @returns {RowIndex}
 */
export function createIndex(columns, trackOfRow) {
  const n = columns.row.length,
    rows = trackOfRow.length,
    pointer = new Uint32Array(rows + 1),
    order = new Uint32Array(n);
  for (let i = 0; i < n; i++) pointer[columns.row[i] + 1]++;
  for (let r = 0; r < rows; r++) pointer[r + 1] += pointer[r];
  const next = pointer.slice();
  for (let i = 0; i < n; i++) order[next[columns.row[i]]++] = i;
  const {straddling} = columns,
    less = new Map(Array.from(straddling, (slice, k) => [slice, columns.shorter[k]])),
    shorter = less.size ? (/** @type {number} */ slice) => less.get(slice) ?? 0 : () => 0;
  const start = new Float64Array(n),
    end = new Float64Array(n);
  for (let p = 0; p < n; p++) {
    start[p] = columns.ts[order[p]];
    end[p] = start[p] + columns.dur[order[p]] - shorter(order[p]);
  }
  /** @type {RowIndex['stretch']} */
  function stretch(row, a, b) {
    const lo = pointer[row],
      hi = pointer[row + 1];
    let first = lowerBound(start, lo, hi, a);
    const stop = lowerBound(start, first, hi, b);
    if (first > lo && end[first - 1] > a) first--;
    return [first, Math.max(stop, first)];
  }
  /**
   * As RowIndex.covered: what lies inside a slice may outlast it.
   * @type {RowIndex['covered']}
   */
  function covered(row, a, b) {
    if (row < 0) return 0;
    let sum = 0;
    const extent = (/** @type {number} */ p) => end[p] + (columns.extent ? columns.extent[order[p]] : 0),
      lo = pointer[row],
      stop = lowerBound(start, lo, pointer[row + 1], b);
    let p = lowerBound(start, lo, stop, a);
    if (p > lo && extent(p - 1) > a) p--;
    for (; p < stop; p++) sum += Math.max(0, Math.min(extent(p), b) - Math.max(start[p], a));
    return sum;
  }
  if (!columns.inside) {
    // time of the slices inside: where it is not in the file, the rows below tell
    columns.inside = new Float64Array(n);
    for (let row = 0; row + 1 < rows; row++) {
      if (trackOfRow[row + 1] !== trackOfRow[row]) continue;
      for (let p = pointer[row]; p < pointer[row + 1]; p++) columns.inside[order[p]] = covered(row + 1, start[p], end[p]);
    }
    for (let k = 0; k < straddling.length; k++) columns.inside[straddling[k]] += columns.shorter[k];
  }
  return {order, start, end, pointer, stretch, covered, shorter};
}

/**
 * Make the function that tells which slices a selection leaves; it remembers the last answer.
 * @param {ReportColumns} columns
 * @param {ReportData} given
 * @returns {Matching}
 */
export function createMatching(columns, given) {
  let key = '';
  /** @type {Mask} */
  let mask = null;
  const dimensions = /** @type {const} */ (['name', 'category', 'track', 'step', 'phase', 'rank', 'line']);
  /**
   * @param {typeof dimensions[number]} dimension
   * @param {(string | number)[]} values
   * @returns {(i: number) => boolean}
   */
  function testOf(dimension, values) {
    if (dimension === 'rank') {
      const tracks = new Set(given.meta.tracks.filter((t) => values.includes(t.rank)).map((t) => t.track));
      return (i) => tracks.has(given.trackOfRow[columns.row[i]]);
    }
    if (dimension === 'track') {
      const tracks = new Set(values);
      return (i) => tracks.has(given.trackOfRow[columns.row[i]]);
    }
    if (dimension === 'step') {
      const steps = new Set(values);
      return (i) => steps.has(columns.step[i]);
    }
    const known = {name: given.names, category: given.meta.categories, phase: given.meta.phases, line: given.meta.lines}[dimension],
      wanted = new Set(values),
      fits = known.map((text) => wanted.has(text)),
      codes = columns[dimension];
    return (i) => fits[codes[i]] ?? false;
  }
  return (state, without) => {
    const clauses = dimensions.filter((d) => state[d] != null && !without.includes(d));
    if (!clauses.length) return null;
    const wanted = JSON.stringify(clauses.map((d) => [d, state[d]]));
    if (wanted === key) return mask;
    const tests = clauses.map((d) => testOf(d, state[d] ?? []));
    mask = new Uint8Array(columns.row.length);
    for (let i = 0; i < mask.length; i++) mask[i] = tests.every((test) => test(i)) ? 1 : 0;
    key = wanted;
    return mask;
  };
}

/**
 * Slices by the row that they have inside of one another. Time inside, which is worked out first, is told by these rows.
 * @param {ReportColumns} columns
 * @param {ReportData} given
 * @returns {Nesting}
 */
export function createNesting(columns, given) {
  const row = columns.nested ?? columns.row,
    trackOfRow = given.trackOfNestedRow,
    own = {...columns, row},
    index = createIndex(own, trackOfRow);
  columns.inside = own.inside;
  return {row, trackOfRow, index};
}

/**
 * The slice around every slice: the last one of the row above that began before it; -1 at the top.
 * @param {ReportColumns} columns
 * @param {Nesting} nested
 */
export function parentsOf(columns, {trackOfRow, index}) {
  const parent = new Int32Array(columns.row.length).fill(-1),
    {inner, around} = columns;
  for (let row = 1; row < trackOfRow.length; row++) {
    if (trackOfRow[row] !== trackOfRow[row - 1]) continue;
    let above = index.pointer[row - 1];
    const stop = index.pointer[row];
    for (let p = index.pointer[row]; p < index.pointer[row + 1]; p++) {
      while (above + 1 < stop && index.order[above + 1] < index.order[p]) above++;
      parent[index.order[p]] = index.order[above];
    }
  }
  for (let k = 0; k < inner.length; k++) parent[inner[k]] = around[k] > inner[k] ? -1 : inner[k] - around[k];
  return parent;
}
