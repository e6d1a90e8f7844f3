// Totals by group in a report: twin of service/detail/{groups,launched}.py.
// Calls that only pass on a call are not counted, recursion counts once in the total, device time belongs to all
// groups around the launcher.

/** @type {readonly import('./residual/totals.js').TotalName[]} */
export const TOTAL_NAMES = ['count', 'total_ns', 'self_ns', 'device_ns', 'touched'];
const DEVICE_WORK = new Set(['kernel', 'memcpy', 'memset', 'collective']);
/** More than any track has. */
const TRACKS = 65536;

/**
 * @typedef {'host' | 'device'} Side
 * @typedef {Record<import('./residual/totals.js').TotalName | 'min_ns' | 'max_ns', Float64Array>} Totals
 */

/**
 * Make the function that adds up one side.
 * @param {import('./answers.js').Report} report
 */
export function createTotals({columns, given, nested, matching, left, parent}) {
  const n = columns.row.length,
    kindOf = new Map(given.meta.tracks.map((t) => [t.track, t.kind])),
    rowKinds = Array.from(given.trackOfRow, (track) => kindOf.get(track)),
    working = given.meta.categories.map((name) => DEVICE_WORK.has(name)),
    again = new Set(columns.again);
  const covered = (/** @type {number} */ row, /** @type {number} */ a, /** @type {number} */ b) =>
    nested.index.covered(row, a, b) + (left?.busyIn(row, a, b) ?? 0);
  const rowBelow = (/** @type {number} */ row) => (nested.trackOfRow[row + 1] === nested.trackOfRow[row] ? row + 1 : -1);
  /** @type {Record<Side, (i: number) => boolean>} */
  const onSide = {
    host: (i) => rowKinds[columns.row[i]] === 'thread' || rowKinds[columns.row[i]] === 'process',
    device: (i) => rowKinds[columns.row[i]] === 'stream' && columns.category[i] >= 0 && working[columns.category[i]],
  };

  const counted = columns.name.map((code) => given.countedAs[code] ?? code);
  /**
   * @param {Grouping} by
   * @returns {NumberArray}
   */
  const codesOf = (by) => (by === 'name' ? counted : /** @type {NumberArray} */ (columns[by]));

  /**
   * Add device time to all groups around what launched it.
   * @param {NumberArray} codes
   * @param {SelectionState} state
   * @param {string[]} own
   * @param {[number, number]} window
   * @param {Float64Array} out
   */
  function addLaunched(codes, state, own, [a, b], out) {
    const kept = (/** @type {string} */ dimension) => !own.includes(dimension),
      rank = kept('rank') ? state.rank : null,
      ofWork = matching({step: kept('step') ? state.step : null, phase: kept('phase') ? state.phase : null, line: kept('line') ? state.line : null, rank}, []),
      ofHost = matching({name: kept('name') ? state.name : null, track: kept('track') ? state.track : null, rank}, []);
    for (let k = 0; k < columns.work.length; k++) {
      const i = columns.work[k],
        part = Math.min(columns.ts[i] + columns.dur[i], b) - Math.max(columns.ts[i], a);
      if (part <= 0 || (ofWork && !ofWork[i])) continue;
      const seen = new Set();
      for (let h = columns.launcher[k]; h >= 0; h = parent[h]) if (!ofHost || ofHost[h]) seen.add(codes[h]);
      for (const g of seen) if (g >= 0) out[g] += part;
    }
  }

  /**
   * @param {Side} which
   * @param {Grouping} by
   * @param {ReportGroup} group
   * @param {string[]} own dimensions that do not filter
   * @param {SelectionState} state
   * @param {[number, number]} window
   */
  return (which, by, group, own, state, [a, b]) => {
    const mask = matching(state, own.concat('window')),
      size = group.labels.length,
      codes = codesOf(by);
    /** @type {Map<number, number>} how far each group reaches on each track */
    const reach = new Map();
    /** @type {Totals} */
    const out = {
      count: new Float64Array(size),
      total_ns: new Float64Array(size),
      self_ns: new Float64Array(size),
      device_ns: new Float64Array(size),
      touched: new Float64Array(size),
      min_ns: new Float64Array(size),
      max_ns: new Float64Array(size),
    };
    for (let i = 0; i < n; i++) {
      const s = columns.ts[i];
      if (s >= b) break;
      const g = codes[i];
      if (g < 0 || (mask && !mask[i]) || !onSide[which](i)) continue;
      const e = s + columns.dur[i],
        row = nested.row[i],
        home = g * TRACKS + nested.trackOfRow[row],
        reached = reach.get(home) ?? -Infinity,
        from = Math.max(s, reached);
      if (e > reached) reach.set(home, e);
      if (s < a && e <= a) continue;
      const since = Math.max(s, a),
        until = Math.min(e, b);
      out.min_ns[g] = out.touched[g] ? Math.min(out.min_ns[g], columns.dur[i]) : columns.dur[i];
      out.max_ns[g] = Math.max(out.max_ns[g], columns.dur[i]);
      out.touched[g]++;
      if (!(again.has(i) && codes[parent[i]] === g)) out.count[g]++;
      out.total_ns[g] += Math.max(0, until - Math.max(from, a));
      if (s >= a && e <= b) out.self_ns[g] += e - s - columns.inside[i];
      else {
        const owns = Math.min(until, e - nested.index.shorter(i));
        if (owns > since) out.self_ns[g] += Math.max(0, owns - since - covered(rowBelow(row), since, owns));
      }
    }
    if (left) for (const unknown of [out.min_ns, out.max_ns]) unknown.fill(0); // some slices are only in sums
    left?.addTo(out, by, group, which, state, own);
    if (which === 'host') addLaunched(codes, state, own, [a, b], out.device_ns);
    return out;
  };
}
