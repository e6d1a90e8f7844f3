// Sums of ranks under a selection: twin of ranks/page/selected_tables.py.

/**
 * What rows can be summed by.
 * @typedef {{rank: number, src: number, dst: number, stage: number, operation: string, group: string, before: string}} Keys
 */

const rising = (/** @type {number | string} */ a, /** @type {number | string} */ b) => (a < b ? -1 : a > b ? 1 : 0);

/**
 * A column of numbers; null where one is missing.
 * @param {RankColumns} table
 * @param {string} name
 */
export const numbers = (table, name) => /** @type {number[]} */ (table[name]);

/**
 * @param {RankColumns} table
 * @param {string} name
 */
export const texts = (table, name) => /** @type {string[]} */ (table[name]);

/** @param {RankColumns} table */
export const rowsOf = (table) => [...Object.values(table)[0].keys()];

/**
 * @param {number} rank
 * @param {number} step
 */
export const keyOf = (rank, step) => `${rank},${step}`;

/**
 * Lowest and highest value.
 * @param {number[]} values
 */
export const extent = (values) => [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), -Infinity)];

/**
 * Rows summed by the values of some columns, in their order.
 * @template {keyof Keys} K
 * @template {string} V
 * @param {RankColumns} table
 * @param {number[]} rows
 * @param {readonly K[]} keys
 * @param {readonly V[]} values
 * @returns {(Pick<Keys, K> & Record<V | 'rows', number>)[]}
 */
export function summed(table, rows, keys, values) {
  /** @type {Map<string, Record<string, any>>} */
  const groups = new Map();
  for (const i of rows) {
    const key = JSON.stringify(keys.map((name) => table[name][i])),
      group = groups.get(key) ?? Object.fromEntries([...keys.map((name) => [name, table[name][i]]), ...values.map((name) => [name, 0]), ['rows', 0]]);
    groups.set(key, group);
    group.rows++;
    for (const name of values) group[name] += numbers(table, name)[i];
  }
  const found = [...groups.values()].sort((a, b) => keys.map((name) => rising(a[name], b[name])).find((order) => order) ?? 0);
  return /** @type {(Pick<Keys, K> & Record<V | 'rows', number>)[]} */ (found);
}

/** @param {number[]} values */
function middle(values) {
  values.sort((a, b) => a - b);
  const half = values.length >> 1;
  return values.length % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/**
 * Medians of some columns by rank.
 * @param {RankColumns} table
 * @param {number[]} rows
 * @param {string[]} names
 * @returns {(Record<string, number> & {rank: number})[]}
 */
export function medians(table, rows, names) {
  /** @type {Map<number, number[]>} */
  const byRank = new Map();
  for (const i of rows) {
    const rank = numbers(table, 'rank')[i];
    byRank.set(rank, [...(byRank.get(rank) ?? []), i]);
  }
  return [...byRank]
    .map(([rank, own]) => {
      const found = names.map((name) => [name, middle(own.map((i) => numbers(table, name)[i]))]);
      return {...Object.fromEntries(found), rank};
    })
    .sort((a, b) => a.rank - b.rank);
}

/**
 * Ranks that are selected, or that belong to the selected groups; null for all.
 * @param {RankSums} given
 * @param {SelectionState} state
 */
function wantedRanks({talk}, {rank, group}) {
  if (!group) return rank ?? null;
  const groups = texts(talk, 'group'),
    members = new Set(rowsOf(talk).flatMap((i) => (group.includes(groups[i]) ? [numbers(talk, 'rank')[i]] : [])));
  return [...members].filter((r) => !rank || rank.includes(r)).sort((a, b) => a - b);
}

/**
 * What a selection leaves of the sums.
 * @param {RankSums} given
 * @param {SelectionState} state
 */
export function scopeOf(given, state) {
  const {steps} = given,
    [rank, step, start, end] = ['rank', 'step', 'start_ns', 'end_ns'].map((name) => numbers(steps, name)),
    {window: chosen} = state;
  const kept = rank.map(
    (_, i) => (!state.step || state.step.includes(step[i])) && (!chosen || (start[i] !== null && start[i] < chosen[1] && end[i] > chosen[0])),
  );
  const rows = rowsOf(steps).filter((i) => kept[i]),
    pairs = kept.every(Boolean) ? null : new Set(rows.map((i) => keyOf(rank[i], step[i])));
  return {
    state,
    /** Which rows of the steps are in it. */
    kept,
    rows,
    /** Ranks and steps that are in it; null for all. */
    pairs,
    wanted: wantedRanks(given, state),
    /** @param {RankColumns} table */
    ofGroup: (table) => (/** @type {number} */ i) => !state.group || state.group.includes(texts(table, 'group')[i]),
    /** @param {RankColumns} table */
    inside: (table) => rowsOf(table).filter((i) => !pairs || pairs.has(keyOf(numbers(table, 'rank')[i], numbers(table, 'step')[i]))),
  };
}
/** @typedef {ReturnType<typeof scopeOf>} Scope */
