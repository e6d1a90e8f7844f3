// The cells of what was left out: how busy each row is when, for the timeline and the overview.
import {lowerBound} from '../../shared/search.js';

const NO_CODE = 255;

/**
 * @typedef {(bin: number, ns: number, selected: number, slices: number, cell: number) => void} UseCell
 */

/**
 * Make what answers for the cells.
 * @param {ReportData} given
 * @param {ReportLeft} left
 * @param {import('./aggregates.js').TotalsGrid} crumbs
 */
export function createBusyGrid(given, left, crumbs) {
  const {origin, cell, cells, fine, coarse, placeOfRow, columns, kinds} = left,
    {at, busy, count, kind} = columns,
    rows = placeOfRow.length,
    pointer = new Uint32Array(rows + 1);
  for (let row = 0, p = 0; row < rows; pointer[++row] = p) while (p < at.length && at[p] < (row + 1) * cells) p++;
  const busyOfRow = Float64Array.from({length: rows}, (_, row) => {
    let sum = 0;
    for (let p = pointer[row]; p < pointer[row + 1]; p++) sum += busy[p] + count[p];
    return sum;
  });

  /** @type {Float64Array | null} */
  let litKey = null;
  /** @type {Map<number, number>} */
  let litOf = new Map();
  /**
   * The selected share of every place and coarse cell.
   * @param {Float64Array} mask
   */
  function litShares(mask) {
    if (litKey === mask) return litOf;
    /** @type {Map<number, number>} */
    const all = new Map();
    litOf = new Map();
    for (let j = 0; j < crumbs.length; j++) {
      all.set(crumbs.at[j], (all.get(crumbs.at[j]) ?? 0) + crumbs.weight[j]);
      litOf.set(crumbs.at[j], (litOf.get(crumbs.at[j]) ?? 0) + crumbs.weight[j] * mask[j]);
    }
    for (const [place, sum] of all) litOf.set(place, (litOf.get(place) ?? 0) / sum);
    litKey = mask;
    return litOf;
  }
  /**
   * Call `use` for the cells of a row under n bins.
   * @param {number} row
   * @param {number} start
   * @param {number} width
   * @param {number} n
   * @param {CrumbMask} mask
   * @param {UseCell} use
   */
  function spread(row, start, width, n, mask, use) {
    const lit = mask && litShares(mask),
      end = start + n * width,
      first = row * cells + Math.max(0, Math.floor((start - origin) / cell));
    for (let p = lowerBound(at, pointer[row], pointer[row + 1], first); p < pointer[row + 1]; p++) {
      const mine = at[p] - row * cells,
        s = origin + mine * cell,
        e = s + cell;
      if (s >= end) break;
      const share = lit ? (lit.get(placeOfRow[row] * coarse + Math.floor(mine / fine)) ?? 0) : 1,
        k1 = Math.min(n - 1, Math.ceil((e - start) / width) - 1);
      for (let k = Math.max(0, Math.floor((s - start) / width)); k <= k1; k++) {
        const part = (Math.min(e, start + (k + 1) * width) - Math.max(s, start + k * width)) / cell;
        if (part > 0) use(k, part * busy[p], part * busy[p] * share, part * count[p], p);
      }
    }
  }
  const before = new Float64Array(at.length + 1);
  for (let p = 0; p < at.length; p++) before[p + 1] = before[p] + count[p];
  /**
   * Slices in the cells under a window; 1 where the cells are only reached into.
   * @param {number} row
   * @param {number} a
   * @param {number} b
   */
  function among(row, a, b) {
    const cellAt = (/** @type {number} */ t) => row * cells + Math.min(Math.max(t, 0), cells),
      first = lowerBound(at, pointer[row], pointer[row + 1], cellAt(Math.floor((a - origin) / cell))),
      stop = lowerBound(at, first, pointer[row + 1], cellAt(Math.ceil((b - origin) / cell)));
    return stop > first ? Math.max(1, before[stop] - before[first]) : 0;
  }
  /**
   * Busy time of a row in a window.
   * @param {number} row
   * @param {number} a
   * @param {number} b
   */
  function busyIn(row, a, b) {
    let sum = 0;
    if (row >= 0 && b > a) spread(row, a, b - a, 1, null, (_, ns) => (sum += ns));
    return sum;
  }
  /**
   * The code that a cell is coloured by.
   * @param {Tint} tint
   * @param {number} p
   */
  function tintOf(tint, p) {
    const colours = given.meta.colours.names.length - 1;
    if (tint !== 'step') {
      const code = kinds[tint]?.[kind[p]] ?? -1;
      return code < 0 ? NO_CODE : tint === 'name' ? given.colours[code] : tint === 'module' ? given.moduleColours[code] : code;
    }
    const middle = origin + ((at[p] % cells) + 0.5) * cell,
      {step, ts, dur} = given.steps,
      i = lowerBound(ts, 0, ts.length, middle) - 1;
    return i >= 0 && middle < ts[i] + dur[i] ? step[i] % colours : NO_CODE;
  }
  return {busyOfRow, spread, among, busyIn, tintOf, name: (/** @type {number} */ p) => kinds.name[kind[p]]};
}
