// The table of the ranks in a report: twin of ranks/page/columns.py's rank_rows.
import {formatBytes, formatShare, formatTime} from '../shared/units.js';
import {medians, numbers, rowsOf} from './sums.js';

const RATES = {minimumFractionDigits: 2, maximumFractionDigits: 2};

/** @param {string} name */
const head = (name) => (name === 'flops_per_s' ? 'FLOP/s' : name.slice(0, name.lastIndexOf('_')).replaceAll('_', ' '));

/**
 * @param {string} name
 * @param {number | null | undefined} value
 */
function cell(name, value) {
  if (value === null || value === undefined) return '–';
  if (name.endsWith('_share')) return formatShare(value);
  if (name.endsWith('_bytes')) return formatBytes(value);
  if (name.endsWith('flops_per_s')) return `${(value / 1e9).toLocaleString('en-US', RATES)} G/s`;
  return formatTime(value);
}

/**
 * Rows of the ranks, the latest first.
 * @param {RankSums} given
 * @param {import('./sums.js').Scope} scope
 * @param {{rank: number}[]} late
 * @returns {RankTable}
 */
export function rankTable({ranks, steps, limits}, {rows}, late) {
  const columns = [...limits.middle, 'late_ns', 'comes_last_share', ...Object.keys(ranks).filter((name) => name !== 'rank')],
    index = (/** @type {{rank: number}[]} */ found) => new Map(found.map((row) => [row.rank, row])),
    [middle, behind] = [index(medians(steps, rows, limits.middle)), index(late)];
  /** @type {(Record<string, number | null | undefined> & {rank: number})[]} */
  const table = rowsOf(ranks).map((i) => {
    const own = Object.fromEntries(Object.keys(ranks).map((name) => [name, numbers(ranks, name)[i]])),
      rank = own.rank;
    return {...own, ...middle.get(rank), ...behind.get(rank), rank};
  });
  table.sort((a, b) => (b.late_ns ?? -Infinity) - (a.late_ns ?? -Infinity) || a.rank - b.rank);
  const shown = table.slice(0, limits.rows);
  return {
    heads: columns.map(head),
    ranks: shown.map((row) => row.rank),
    rows: shown.map((row) => columns.map((name) => cell(name, row[name]))),
    more: table.length - shown.length,
  };
}
