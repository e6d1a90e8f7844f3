// The operator table of a report: twin of service/answers/table.py. The totals of its rows are in totals.js.
import {folded, hasText, parseQuery} from '../filter/query.js';
import {passing} from '../filter/rows.js';
import {narrowed} from '../filter/slices.js';
import {reply} from '../shared/packing.js';
import {mergedName} from '../shared/merged_names.js';
import {createTotals, TOTAL_NAMES} from './totals.js';

const NO_NAME = 0xffffffff;
const MOST_ROWS = 1000;
const KEPT = 8;

/**
 * @typedef {import('./residual/totals.js').TotalName} TotalName
 * @typedef {Record<TotalName | 'min_ns' | 'max_ns', number> & {g: number, side: number, share: number}} Row
 * @typedef {import('./totals.js').Side} Side
 */

/** @type {Record<string, Side[]>} */
const SIDES = {all: ['host', 'device'], host: ['host'], device: ['device']};

/**
 * Make the answer `table`.
 * @param {import('./answers.js').Report} report
 */
export function createLocalTable(report) {
  const {given, left} = report,
    {meta} = given,
    waiting = new Set(given.waits),
    totalsOf = createTotals(report);
  /**
   * Whether a row is of a call that only waits.
   * @param {Row} row
   * @param {Grouping} by
   * @param {ReportGroup} group
   */
  const doesWait = (row, by, group) => waiting.has(nameOf(row, by, group));

  /**
   * @param {string} scope
   * @param {Grouping} by
   * @param {ReportGroup} group
   * @param {string[]} own
   * @param {SelectionState} state
   * @returns {Row[]}
   */
  function rowsAnew(scope, by, group, own, state) {
    const window = state.window ?? [meta.span[0], meta.span[1] + 1];
    /** @type {Row[]} */
    const rows = [];
    for (const which of SIDES[scope]) {
      const out = totalsOf(which, by, group, own, state, window),
        mine = [];
      let every = 0;
      for (let g = 0; g < group.labels.length; g++) {
        if (!out.touched[g] && !(out.device_ns[g] && (state.category == null || own.includes('category')))) continue;
        const {count, total_ns, self_ns, device_ns, touched, min_ns, max_ns} = out;
        mine.push({
          g,
          side: which === 'device' ? 1 : 0,
          count: count[g],
          total_ns: total_ns[g],
          self_ns: self_ns[g],
          device_ns: device_ns[g],
          touched: touched[g],
          min_ns: min_ns[g],
          max_ns: max_ns[g],
        });
        every += self_ns[g];
      }
      for (const row of mine) rows.push({...row, share: row.self_ns / Math.max(every, 1)});
    }
    return rows;
  }
  // a click on a row leaves the rows as they are
  /** @type {Map<string, Row[]>} */
  const kept = new Map();
  /** @type {typeof rowsAnew} */
  function rowsOf(scope, by, group, own, state) {
    const clauses = Object.entries(state).filter(([name, value]) => value != null && !['focus', 'pinned', 'revision', ...own].includes(name)),
      key = JSON.stringify([scope, by, clauses.sort()]),
      rows = kept.get(key) ?? rowsAnew(scope, by, group, own, state);
    kept.set(key, rows);
    if (kept.size > KEPT) kept.delete(/** @type {string} */ (kept.keys().next().value));
    return rows;
  }

  /**
   * The rows that pass, or all of them and what is wrong with the filter.
   * @param {Partial<TableRequest>} q
   * @param {SelectionState} state
   * @param {string[]} own
   * @param {Row[]} everything
   * @param {(row: Row) => boolean} isSide
   * @returns {[Row[], string]}
   */
  function filtered(q, state, own, everything, isSide) {
    const by = q.by ?? 'name',
      group = /** @type {ReportGroup} */ (given.groups[by]);
    let rows = everything;
    try {
      const parsed = parseQuery(q.filter ?? ''),
        [query, narrow, rest] = narrowed(given, parsed, state, own);
      if (query.conditions.length < parsed.conditions.length) rows = rowsOf('all', by, group, rest, narrow);
      rows = rows.filter(isSide);
      if (query.conditions.length || hasText(query)) rows = passing(rows, (row) => seen(row, by, group), filterColumns(by), query);
      return [rows, ''];
    } catch (error) {
      return [rows.filter(isSide), String(/** @type {Error} */ (error).message)];
    }
  }

  /**
   * @param {Partial<TableRequest>} q
   * @param {SelectionState} state
   */
  return function table(q, state) {
    const by = q.by ?? 'name',
      group = /** @type {ReportGroup} */ (given.groups[by]),
      own = by === 'name' || by === 'category' ? [by] : [],
      picked = by === 'name' || by === 'category' ? state[by] : null,
      names = picked ? new Set(picked.map(mergedName)) : null,
      isPicked = (/** @type {Row} */ row) => !names || names.has(group.labels[row.g]);
    const everything = rowsOf('all', by, group, own, state),
      scope = q.scope ?? 'all',
      sum = (/** @type {TotalName} */ name) => everything.reduce((s, row) => s + (isPicked(row) ? row[name] : 0), 0),
      rangeOf = (/** @type {number} */ side) => {
        const mine = everything.filter((row) => row.side === side && row.touched && isPicked(row)),
          longest = Math.max(...mine.map((row) => row.max_ns));
        return longest > 0 ? [Math.min(...mine.map((row) => row.min_ns)), longest] : [];
      },
      isSide = (/** @type {Row} */ row) => scope === 'all' || row.side === (scope === 'device' ? 1 : 0);
    const [passed, error] = filtered(q, state, own, everything, isSide),
      rows = q.waits === false ? passed.filter((row) => !doesWait(row, by, group)) : passed;
    sortRows(rows, q, group);
    const start = Math.max(0, q.start ?? 0),
      stop = start + Math.max(1, Math.min(q.top ?? 200, MOST_ROWS)),
      extra = names && !start ? rows.slice(stop).filter(isPicked) : [],
      shown = rows.slice(start, stop).concat(extra).slice(0, MOST_ROWS);
    return reply(
      {
        by,
        count: sum('touched'),
        self_ns: sum('self_ns'),
        device_self_ns: everything.reduce((s, row) => s + (row.side ? row.self_ns : 0), 0),
        host_range: rangeOf(0),
        device_range: rangeOf(1),
        ...(left?.isPart(state, own) ? {estimate: true} : {}),
        error,
        rows: rows.length,
        start,
        waits: passed.filter((row) => doesWait(row, by, group)).length,
        label: shown.map((row) => group.labels[row.g]),
        detail: shown.map((row) => group.details?.[row.g] ?? ''),
      },
      {...columnsOf(shown, by, group), waits: Uint8Array.from(shown, (row) => Number(doesWait(row, by, group)))},
    );
  };
}

const SORTS = /** @type {const} */ ([...TOTAL_NAMES, 'mean_ns', 'min_ns', 'max_ns']);

/** @param {Row} row */
const meanOf = (row) => row.total_ns / Math.max(row.count, 1);

/**
 * @param {Row[]} rows
 * @param {Partial<TableRequest>} q
 * @param {ReportGroup} group
 */
function sortRows(rows, q, group) {
  const sort = SORTS.find((name) => name === q.sort) ?? 'self_ns',
    up = q.descending === false ? 1 : -1,
    label = (/** @type {Row} */ row) => folded(group.labels[row.g]);
  /** @param {Row} row */
  const value = (row) => {
    if (!q.by_side || !row.side || sort === 'count') return sort === 'mean_ns' ? meanOf(row) : row[sort];
    return sort === 'device_ns' ? row.self_ns : 0;
  };
  rows.sort(
    q.sort === 'label'
      ? (p, r) => (label(p) < label(r) ? -1 : label(p) > label(r) ? 1 : 0) * (q.descending ? -1 : 1)
      : (p, r) => up * (value(p) - value(r)),
  );
}

/**
 * Code of the name of a row.
 * @param {Row} row
 * @param {Grouping} by
 * @param {ReportGroup} group
 */
const nameOf = (row, by, group) => (group.names ? group.names[row.g] : by === 'name' ? row.g : NO_NAME);

/**
 * @param {Row[]} rows
 * @param {Grouping} by
 * @param {ReportGroup} group
 */
function columnsOf(rows, by, group) {
  const column = (/** @type {TableNumber} */ name) => Float64Array.from(rows, (row) => row[name]);
  return {
    name: Uint32Array.from(rows, (row) => nameOf(row, by, group)),
    side: Uint8Array.from(rows, (row) => row.side),
    share: column('share'),
    count: column('count'),
    total_ns: column('total_ns'),
    min_ns: column('min_ns'),
    max_ns: column('max_ns'),
    self_ns: column('self_ns'),
    device_ns: column('device_ns'),
  };
}

/** @param {Grouping} by */
const filterColumns = (by) => [
  ...(by === 'module' ? ['module'] : by === 'shapes' ? ['name', 'shapes'] : ['name']),
  ...['count', 'total_ns', 'self_ns', 'device_ns', 'share', 'mean_ns'],
];

/**
 * A row as the filter sees it.
 * @param {Row} row
 * @param {Grouping} by
 * @param {ReportGroup} group
 * @returns {Record<string, string | number | undefined>}
 */
const seen = (row, by, group) => ({
  ...row,
  [by === 'module' ? 'module' : 'name']: group.labels[row.g],
  shapes: group.details?.[row.g],
  mean_ns: meanOf(row),
});
