// Totals of what was left out, by group: exact of everything, and in proportion to the crumbs of a part.
import {TOTAL_NAMES} from '../totals.js';

/**
 * @typedef {import('./aggregates.js').Kind} Kind
 * @typedef {'host' | 'device'} Side
 * @typedef {{sums: Map<number, number>, every: number}} Weights
 * @typedef {'count' | 'total_ns' | 'self_ns' | 'device_ns' | 'touched'} TotalName
 */

/**
 * Make what answers for the totals.
 * @param {ReportData} given
 * @param {ReportLeft} left
 * @param {import('./aggregates.js').TotalsGrid} crumbs
 * @param {(state: SelectionState, without: string[]) => CrumbMask} shares
 */
export function createLeftTotals(given, {coarse, totals}, crumbs, shares) {
  const counted = (/** @type {number} */ j) => given.countedAs[crumbs.of.name(j)];
  /**
   * Weights of the crumbs of a side, by code.
   * @param {Kind} by
   * @param {Side} which
   * @param {CrumbMask} mask
   * @returns {Weights}
   */
  function weights(by, which, mask) {
    /** @type {Map<number, number>} */
    const sums = new Map(),
      codeOf = by === 'name' ? counted : crumbs.of[by];
    let every = 0;
    for (let j = 0; j < crumbs.length; j++) {
      if (crumbs.side[j] !== which) continue;
      const part = mask ? crumbs.weight[j] * mask[j] : crumbs.weight[j],
        code = codeOf(j);
      sums.set(code, (sums.get(code) ?? 0) + part);
      every += part;
    }
    return {sums, every};
  }
  /** @type {Map<string, Weights>} */
  const whole = new Map();
  /**
   * @param {Kind} by
   * @param {Side} which
   */
  function wholeWeights(by, which) {
    const key = `${by} ${which}`,
      known = whole.get(key) ?? weights(by, which, null);
    whole.set(key, known);
    return known;
  }
  /**
   * Which share of a group's total is in the part that a mask leaves; `rest` where nothing tells.
   * @param {Grouping} by
   * @param {ReportGroup} group
   * @param {Side} which
   * @param {CrumbMask} mask
   * @param {number} [rest]
   * @returns {(g: number) => number}
   */
  function ratios(by, group, which, mask, rest) {
    if (!mask) return () => 1;
    const key = by === 'shapes' ? 'name' : by,
      part = weights(key, which, mask),
      all = wholeWeights(key, which),
      overall = rest ?? (all.every ? part.every / all.every : 0),
      codeOf = (/** @type {number} */ g) => (by === 'shapes' ? (group.names?.[g] ?? -1) : g);
    return (g) => {
      const code = codeOf(g),
        sum = all.sums.get(code);
      return sum ? (part.sums.get(code) ?? 0) / sum : overall;
    };
  }
  /**
   * Device time that was launched: when it ran, and for chosen names what they have launched of it.
   * @param {Grouping} by
   * @param {ReportGroup} group
   * @param {SelectionState} state
   * @param {string[]} own
   * @returns {(g: number) => number}
   */
  function deviceRatios(by, group, state, own) {
    const when = shares({...state, name: null, category: null, track: null}, own),
      {every} = wholeWeights('name', 'device'),
      ran = when && every ? weights('name', 'device', when).every / every : 1,
      ratio = ratios(by, group, 'host', when, ran);
    if (state.name == null || own.includes('name')) return ratio;
    const launched = totals['name host device_ns'],
      named = state.name.reduce((sum, name) => sum + (launched[given.countedAs[given.names.indexOf(name)]] ?? 0), 0);
    let most = Math.max(1, every);
    for (const ns of launched) most = Math.max(most, ns);
    const share = Math.min(1, named / most);
    return (g) => share * ratio(g);
  }
  /**
   * Add the totals of a side to those of the slices in the file.
   * @param {Record<TotalName, Float64Array>} out
   * @param {Grouping} by
   * @param {ReportGroup} group
   * @param {Side} which
   * @param {SelectionState} state
   * @param {string[]} own
   */
  function addTo(out, by, group, which, state, own) {
    const {span} = given.meta,
      covers = state.window && state.window[0] <= span[0] && state.window[1] >= span[1],
      asked = covers ? {...state, window: null} : state,
      ratio = ratios(by, group, which, shares(asked, own)),
      device = which === 'host' ? deviceRatios(by, group, asked, own) : ratio;
    for (const name of TOTAL_NAMES) {
      const sums = totals[`${by} ${which} ${name}`],
        share = name === 'device_ns' ? device : ratio;
      for (let g = 0; g < sums.length; g++) if (sums[g]) out[name][g] += Math.round(sums[g] * share(g));
    }
  }
  /**
   * Self time of the selected ones by step and phase.
   * @param {Float64Array} mask
   * @param {Side} which
   * @param {(cell: number, phase: number, ns: number) => void} use called with each crumb's coarse cell and phase
   */
  function selfOf(mask, which, use) {
    const self = totals[`name ${which} self_ns`],
      {sums} = wholeWeights('name', which),
      {of, at, weight, side} = crumbs;
    for (let j = 0; j < crumbs.length; j++)
      if (mask[j] && side[j] === which)
        use(at[j] % coarse, of.phase(j), (self[counted(j)] * weight[j] * mask[j]) / (sums.get(counted(j)) ?? 0));
  }
  return {addTo, selfOf};
}
