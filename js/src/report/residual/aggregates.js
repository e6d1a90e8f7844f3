// Sums of the slices that are not in the file one by one: twin of views/report/residual_aggregates.py.
// The busy grid (fine): how busy a row is when, exact at its edges. The totals grid (coarse): how the totals
// of every name spread over time, for estimates of a part of the recording.
import {createBusyGrid} from './busy_grid.js';
import {createLeftTotals} from './totals.js';

const CLAUSES = /** @type {const} */ (['name', 'category', 'track', 'step', 'phase', 'rank', 'line', 'window']);
const MOST_KEPT = 6;

/**
 * @typedef {keyof ReportLeft['kinds']} Kind
 * @typedef {(j: number) => number} OfCrumb
 * @typedef {'host' | 'device' | ''} Side
 *
 * @typedef {object} TotalsGrid
 * @property {number} length
 * @property {NumberArray} at place × coarse cell
 * @property {NumberArray} weight
 * @property {Record<Kind, OfCrumb>} of code of a crumb
 * @property {Side[]} side
 *
 * @typedef {NonNullable<ReturnType<typeof createResidualAggregates>>} ResidualAggregates
 */

const DEVICE_WORK = new Set(['kernel', 'memcpy', 'memset', 'collective']);

/**
 * Read the crumbs of a report.
 * @param {ReportData} given
 * @param {ReportLeft} left
 * @returns {TotalsGrid}
 */
function crumbsOf(given, {coarse, placeOfRow, columns, kinds}) {
  const {crumb_at: at, crumb_kind: kind, crumb_weight: weight} = columns,
    kindOf = new Map(given.meta.tracks.map((t) => [t.track, t.kind])),
    /** @type {(string | undefined)[]} */
    kindOfPlace = [];
  placeOfRow.forEach((place, row) => {
    kindOfPlace[place] = kindOf.get(given.trackOfRow[row]);
  });
  const of = {
    name: (/** @type {number} */ j) => kinds.name[kind[j]],
    category: (/** @type {number} */ j) => kinds.category[kind[j]],
    phase: (/** @type {number} */ j) => kinds.phase[kind[j]],
    line: (/** @type {number} */ j) => kinds.line[kind[j]],
    module: (/** @type {number} */ j) => kinds.module[kind[j]],
  };
  /**
   * @param {number} j
   * @returns {Side}
   */
  const sideOf = (j) => {
    const place = kindOfPlace[Math.floor(at[j] / coarse)];
    if (place === 'thread' || place === 'process') return 'host';
    return place === 'stream' && DEVICE_WORK.has(given.meta.categories[of.category(j)]) ? 'device' : '';
  };
  return {length: at.length, at, weight, of, side: Array.from({length: at.length}, (_, j) => sideOf(j))};
}

/**
 * Make what answers for the slices that were left out; null where all are in the file.
 * @param {ReportData} given
 */
export function createResidualAggregates(given) {
  if (!given.left) return null;
  const {origin, cell, fine, coarse, placeOfRow} = given.left,
    crumbs = crumbsOf(given, given.left),
    cells = createBusyGrid(given, given.left, crumbs),
    wide = fine * cell, // ns
    {span} = given.meta;

  const active = (/** @type {SelectionState} */ state, /** @type {string[]} */ without) =>
    CLAUSES.filter((d) => state[d] != null && !without.includes(d));
  /**
   * The share of every coarse cell that lies in some windows.
   * @param {[number, number][]} windows
   */
  function timeShares(windows) {
    const out = new Float64Array(coarse);
    for (const [a, b] of windows)
      for (let k = Math.max(0, Math.floor((a - origin) / wide)); k < coarse && origin + k * wide < b; k++)
        out[k] += Math.max(0, Math.min(b, origin + (k + 1) * wide, span[1]) - Math.max(a, origin + k * wide));
    return out.map((ns, k) => Math.min(1, ns / Math.max(1, Math.min(wide, span[1] - origin - k * wide))));
  }
  /**
   * The share of what was left out of every place that lies on tracks that pass.
   * @param {(track: number) => boolean} passes
   */
  function placeShares(passes) {
    const places = 1 + placeOfRow.reduce((most, place) => Math.max(most, place), 0),
      whole = new Float64Array(places),
      part = new Float64Array(places);
    placeOfRow.forEach((place, row) => {
      whole[place] += cells.busyOfRow[row];
      if (passes(given.trackOfRow[row])) part[place] += cells.busyOfRow[row];
    });
    return part.map((sum, place) => (whole[place] ? sum / whole[place] : 0));
  }
  /**
   * How much of a crumb passes one clause.
   * @param {typeof CLAUSES[number]} dimension
   * @param {SelectionState} state
   * @param {readonly string[]} clauses
   * @returns {OfCrumb}
   */
  function factorOf(dimension, state, clauses) {
    if (dimension === 'name' || dimension === 'category' || dimension === 'phase' || dimension === 'line') {
      const known = {name: given.names, category: given.meta.categories, phase: given.meta.phases, line: given.meta.lines}[dimension],
        codes = new Set((state[dimension] ?? []).map((value) => known.indexOf(value)));
      return (j) => (codes.has(crumbs.of[dimension](j)) ? 1 : 0);
    }
    if (dimension === 'track' || dimension === 'rank') {
      const ranks = given.meta.tracks.filter((t) => (state.rank ?? []).includes(t.rank)).map((t) => t.track),
        tracks = new Set(dimension === 'track' ? state.track : ranks),
        share = placeShares((track) => tracks.has(track));
      return (j) => share[Math.floor(crumbs.at[j] / coarse)];
    }
    if (dimension === 'window' && clauses.includes('step')) return () => 1; // the steps are cut to it
    const share = timeShares(windowsOf(dimension, state, clauses));
    return (j) => share[crumbs.at[j] % coarse];
  }
  /**
   * Stretches of time of the window, or of the steps as far as they lie in it.
   * @param {'window' | 'step'} dimension
   * @param {SelectionState} state
   * @param {readonly string[]} clauses
   * @returns {[number, number][]}
   */
  function windowsOf(dimension, state, clauses) {
    const [a, b] = (clauses.includes('window') && state.window) || [-Infinity, Infinity];
    if (dimension === 'window') return [/** @type {[number, number]} */ ([a, b])].filter(([c, e]) => e > c);
    const {step, ts, dur} = given.steps,
      wanted = new Set(state.step);
    /** @type {[number, number][]} */
    const out = [];
    for (let i = 0; i < step.length; i++) {
      const [c, e] = [Math.max(a, ts[i]), Math.min(b, ts[i] + dur[i])];
      if (wanted.has(step[i]) && e > c) out.push([c, e]);
    }
    return out;
  }
  /** @type {Map<string, Float64Array>} */
  const kept = new Map();
  /**
   * How much of every crumb passes, or null for all of them.
   * @param {SelectionState} state
   * @param {string[]} without
   * @returns {CrumbMask}
   */
  function shares(state, without) {
    const clauses = active(state, without);
    if (!clauses.length) return null;
    const key = JSON.stringify(clauses.map((d) => [d, state[d]])),
      known = kept.get(key);
    if (known) return known;
    const factors = clauses.map((d) => factorOf(d, state, clauses)),
      out = Float64Array.from({length: crumbs.length}, (_, j) => factors.reduce((share, factor) => share && share * factor(j), 1));
    if (kept.size > MOST_KEPT) kept.delete(/** @type {string} */ (kept.keys().next().value));
    kept.set(key, out);
    return out;
  }
  return {
    cell,
    origin,
    coarse,
    shares,
    timeShares,
    isPart: (/** @type {SelectionState} */ state, /** @type {string[]} */ own) => active(state, own).length > 0,
    ...cells,
    ...createLeftTotals(given, given.left, crumbs, shares),
  };
}
