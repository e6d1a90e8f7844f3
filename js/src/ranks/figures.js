// The figures of the ranks in a report, under a selection: twin of ranks/page/columns.py.
import {formatBytes, formatCount, formatShare, formatTime} from '../shared/units.js';
import {extent, keyOf, medians, numbers, rowsOf, summed} from './sums.js';

const LEAST_LATE_NS = 1000;
const LONGEST_OPERATION = 22;

/**
 * @typedef {import('./sums.js').Scope} Scope
 * @typedef {Record<string, any>} Row of sums by name
 */

/**
 * How bright marks are whose value may be among the wanted ones.
 * @template Value
 * @param {RankSums} given
 * @param {Value[]} values
 * @param {readonly Value[] | null | undefined} wanted
 */
const alphaOf = ({limits}, values, wanted) => values.map((v) => (!wanted || wanted.includes(v) ? 1 : limits.faded));

/** @param {number[]} values */
function around(values) {
  const [low, high] = values.length ? extent(values) : [0, 0];
  return [low - 0.5, high + 0.5];
}

/**
 * @param {Row[]} table
 * @param {RankPart[]} parts
 */
const tipsOf = (table, parts) => table.map((row) => parts.map(([name, label]) => `${label} ${formatTime(row[name])}`).join('\n'));

/**
 * Columns of bars that are stacked, and the end of the longest.
 * @param {Row[]} table
 * @param {RankPart[]} parts
 * @param {[string, string]} ends
 * @returns {[Record<string, number[]>, number]}
 */
function stacked(table, parts, [from, to]) {
  /** @type {Record<string, number[]>} */
  const columns = {};
  const sums = table.map(() => 0);
  for (const [name] of parts) {
    columns[`${name}_${from}`] = [...sums];
    table.forEach((row, i) => (sums[i] += row[name]));
    columns[`${name}_${to}`] = [...sums];
  }
  return [columns, table.length ? extent(sums)[1] : 1];
}

/**
 * Bars by rank.
 * @param {RankSums} given
 * @param {string} panel
 * @param {Row[]} table
 * @param {RankPart[]} parts
 * @param {number[] | null} wanted
 */
function ofRanks(given, panel, table, parts, wanted) {
  /** @type {number[]} */
  const rank = table.map((row) => row.rank);
  const [columns, most] = stacked(table, parts, ['bottom', 'top']),
    tips = tipsOf(table, parts);
  return {
    sources: {[`${panel}_data`]: {...columns, rank, alpha: alphaOf(given, rank, wanted)}},
    x: around(rank),
    y: [0, given.limits.room * Math.max(most, 1)],
    tips: rank.map((r, i) => `rank ${r}\n${tips[i]}`),
    rank,
  };
}

/**
 * Range and texts of a scale of colours.
 * @param {number[]} values
 * @param {(value: number) => string} write
 */
function scale(values, write) {
  const [low, high] = values.length ? extent(values) : [0, 1];
  return {colours: high > low ? [low, high] : [low - 1, low + 1], scale: high > low ? [write(low), write(high)] : [`all ${write(low)}`]};
}

/**
 * @param {RankSums} given
 * @param {Scope} scope
 */
export function bars(given, {rows, wanted}) {
  const names = given.parts.bars.map(([name]) => name);
  return ofRanks(given, 'bars', medians(given.steps, rows, names), given.parts.bars, wanted);
}

/**
 * Lateness by rank, the latest first.
 * @param {RankSums} given
 * @param {Scope} scope
 */
export function lateRows({late, before}, {inside, ofGroup}) {
  const most = new Map();
  for (const row of summed(before, inside(before).filter(ofGroup(before)), ['rank', 'before'], ['before_ns']))
    if (!(most.get(row.rank)?.before_ns > row.before_ns)) most.set(row.rank, row);
  return summed(late, inside(late).filter(ofGroup(late)), ['rank'], ['collectives', 'late_ns', 'last_count'])
    .map((row) => ({
      rank: row.rank,
      late_ns: row.late_ns / row.collectives,
      comes_last_share: row.last_count / row.collectives,
      before: /** @type {string | undefined} */ (most.get(row.rank)?.before),
    }))
    .sort((a, b) => b.late_ns - a.late_ns || a.rank - b.rank);
}

/**
 * @param {RankSums} given
 * @param {Scope} scope
 * @returns {RankPanelAnswer}
 */
export function late(given, scope) {
  const table = lateRows(given, scope),
    rank = table.map((row) => row.rank),
    top = table.map((row) => row.late_ns),
    at = [...table.keys()];
  const tips = table.map(({rank: r, late_ns: ns, comes_last_share: share, before}) => {
    const text = `rank ${r}\nlate by ${formatTime(ns)}\ncomes last in ${formatShare(share)}`;
    return before !== undefined && share ? `${text}\nbefore that: ${before}` : text;
  });
  const most = Math.max(...extent([0, ...top]), LEAST_LATE_NS);
  return {
    sources: {late_data: {at, top, alpha: alphaOf(given, rank, scope.wanted)}},
    x: around(at),
    y: [0, given.limits.room * most],
    tips,
    rank,
    labels: rank.map(String),
    ...(rank.length && !top.some(Boolean) ? {note: given.notes.together} : {}),
  };
}

/**
 * @param {RankSums} given
 * @param {Scope} scope
 * @returns {RankPanelAnswer}
 */
export function heat(given, {state, kept, wanted, ofGroup}) {
  const {steps, talk, limits, parts} = given,
    [rank, step, ns] = ['rank', 'step', 'step_ns'].map((name) => numbers(steps, name));
  /** @type {Map<string, number>} */
  const spent = new Map();
  if (state.group)
    for (const i of rowsOf(talk).filter(ofGroup(talk))) {
      const key = keyOf(numbers(talk, 'rank')[i], numbers(talk, 'step')[i]);
      spent.set(key, parts.talk.reduce((sum, [name]) => sum + numbers(talk, name)[i], spent.get(key) ?? 0));
    }
  const rows = rowsOf(steps)
    .filter((i) => !state.group || spent.has(keyOf(rank[i], step[i])))
    .slice(0, limits.cells);
  const x = rows.map((i) => step[i]),
    y = rows.map((i) => rank[i]),
    value = rows.map((i) => Math.round(state.group ? (spent.get(keyOf(rank[i], step[i])) ?? 0) : ns[i])),
    pale = alphaOf(given, y, wanted);
  const alpha = rows.map((i, k) => Math.min(pale[k], kept[i] ? 1 : limits.faded)),
    title = state.group ? {title: `Time in process group ${state.group.join(', ')} by rank and step`} : {};
  return {sources: {heat_data: {x, y, value, alpha}}, x: around(x), y: around(y), ...title, ...scale(value, (v) => formatTime(v))};
}

/**
 * @param {RankSums} given
 * @param {Scope} scope
 * @returns {RankPanelAnswer}
 */
export function marey(given, {state, kept, wanted}) {
  const {steps, limits} = given,
    [rank, step, start, end] = ['rank', 'step', 'start_ns', 'end_ns'].map((name) => numbers(steps, name));
  const rows = rowsOf(steps)
    .filter((i) => start[i] !== null)
    .sort((a, b) => step[a] - step[b] || rank[a] - rank[b])
    .slice(0, limits.cells);
  const pick = (/** @type {number[]} */ values) => rows.map((i) => values[i]),
    pale = alphaOf(given, pick(rank), wanted),
    alpha = rows.map((i, k) => Math.round(450 * Math.min(pale[k], kept[i] ? 1 : limits.faded)) / 1000);
  /** @type {{xs: number[][], ys: number[][], alpha: number[]}} */
  const lines = {xs: [], ys: [], alpha: []};
  /** @type {number | null} */
  let last = null;
  for (const i of rows) {
    if (step[i] !== last) {
      if (lines.xs.length === limits.lines) break;
      lines.xs.push([]);
      lines.ys.push([]);
      lines.alpha.push(alphaOf(given, [step[i]], state.step)[0]);
      last = step[i];
    }
    lines.xs[lines.xs.length - 1].push(start[i]);
    lines.ys[lines.ys.length - 1].push(rank[i]);
  }
  const x = rows.length ? [extent(pick(start))[0], extent(pick(end))[1]] : [0, 1],
    spans = {y: pick(rank), step: pick(step), left: pick(start), right: pick(end), alpha};
  return {sources: {marey_data: spans, marey_lines: lines}, x, y: around(pick(rank))};
}

/** @param {number[]} ranks */
const ranksText = (ranks) =>
  ranks.length === 1 ? `rank ${ranks[0]}` : `ranks ${ranks.slice(0, 6).join(', ')}${ranks.length > 6 ? ` and ${ranks.length - 6} more` : ''}`;

/**
 * Make the figure of the communication: which ranks take part in an operation does not hang on the selection.
 * @param {RankSums} given
 */
export function createTalk(given) {
  const {talk, limits, parts, click} = given,
    names = parts.talk.map(([name]) => name),
    keyOfTalk = (/** @type {{operation: string, group: string}} */ row) => JSON.stringify([row.operation, row.group]);
  /** @type {Map<string, number[]>} */
  const membersOf = new Map();
  for (const row of summed(talk, rowsOf(talk), ['operation', 'group', 'rank'], [])) {
    const key = keyOfTalk(row);
    membersOf.set(key, [...(membersOf.get(key) ?? []), row.rank]);
  }
  /**
   * @param {Scope} scope
   * @returns {RankPanelAnswer}
   */
  return ({state, inside, wanted}) => {
    const total = (/** @type {Record<string, any>} */ row) => names.reduce((sum, name) => sum + row[name], 0),
      rows = inside(talk).filter((i) => !wanted || wanted.includes(numbers(talk, 'rank')[i]));
    const table = summed(talk, rows, ['operation', 'group'], ['count', ...names])
      .map((row) => ({...row, count: row.count, chosen: !state.group || state.group.includes(row.group), members: membersOf.get(keyOfTalk(row)) ?? []}))
      .sort((a, b) => Number(b.chosen) - Number(a.chosen) || total(b) - total(a))
      .slice(0, limits.talk);
    const [columns, most] = stacked(table, parts.talk, ['left', 'right']),
      tips = tipsOf(table, parts.talk),
      at = [...table.keys()],
      labels = table.map(({operation, group}) => operation.replaceAll('_', ' ').slice(0, LONGEST_OPERATION) + (group ? ` · ${group}` : ''));
    return {
      sources: {talk_data: {...columns, at, alpha: table.map((row) => (row.chosen ? 1 : limits.faded))}},
      x: [0, limits.room * Math.max(most, 1)],
      y: around(at).reverse(),
      tips: table.map((row, i) => `${labels[i]}\n${formatCount(row.count)} on ${ranksText(row.members)}\n${tips[i]}\n${click}`),
      members: table.map((row) => row.members),
      groups: table.map((row) => row.group),
      labels,
    };
  };
}

/**
 * @param {RankSums} given
 * @param {Scope} scope
 * @returns {RankPanelAnswer}
 */
export function links(given, {pairs, ofGroup, wanted}) {
  const {links: all} = given,
    known = {...all, told: all.bytes.map((size) => Number(size !== null))},
    [src, dst, step] = ['src', 'dst', 'step'].map((name) => numbers(all, name));
  const rows = rowsOf(all)
    .filter((i) => !pairs || pairs.has(keyOf(src[i], step[i])) || pairs.has(keyOf(dst[i], step[i])))
    .filter(ofGroup(all));
  const table = summed(known, rows, ['src', 'dst'], ['count', 'bytes', 'told', 'transfer_ns']),
    value = table.map((row) => (row.told ? row.bytes : row.count)),
    [x, y] = [table.map((row) => row.dst), table.map((row) => row.src)],
    [to, from] = [alphaOf(given, x, wanted), alphaOf(given, y, wanted)],
    sized = table.length > 0 && table.every((row) => row.told);
  return {
    sources: {links_data: {x, y, value, alpha: to.map((a, i) => Math.max(a, from[i]))}},
    x: around([...x, ...y]),
    y: around([...x, ...y]),
    tips: table.map(
      (row) =>
        `from rank ${row.src} to rank ${row.dst}\n${formatCount(row.count)} messages` +
        (row.told ? `, ${formatBytes(row.bytes)}` : '') +
        `\n${formatTime(row.transfer_ns)} of transfer`,
    ),
    members: table.map((row) => [row.src, row.dst]),
    ...scale(value, sized ? (v) => formatBytes(v) : (v) => formatCount(v)),
  };
}

/**
 * @param {RankSums} given
 * @param {Scope} scope
 * @returns {RankPanelAnswer}
 */
export function bubbles(given, {inside, wanted}) {
  const parts = given.parts.bubbles,
    names = parts.map(([name]) => name);
  /** @type {Row[]} */
  const table = summed(given.bubbles, inside(given.bubbles), ['rank', 'stage'], names).map((row) => ({
    ...row,
    ...Object.fromEntries(names.map((name) => [name, row[name] / row.rows])),
  }));
  const drawn = ofRanks(given, 'bubbles', table, parts, wanted);
  return {...drawn, tips: drawn.tips.map((tip, i) => `stage ${table[i].stage} · ${tip}`)};
}
