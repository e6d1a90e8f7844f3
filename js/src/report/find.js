// From one slice to another in a report: twin of service/answers/find.py.
import {createMatching} from './columns.js';
import {parseQuery} from '../filter/query.js';
import {sliceFilter} from '../filter/slices.js';
import {mergedName} from '../shared/merged_names.js';
import {reply, unpack} from '../shared/packing.js';
import {lowerBound} from '../shared/search.js';

const MOST_MARKS = 4000;

/**
 * Make the answer `calls`. Which of its slices is asked for is not known where the file holds others as sums only.
 * @param {import('./answers.js').Report} report
 * @param {import('./answers.js').Answering} table
 */
export function createLocalCalls({columns, given, left}, table) {
  const matching = createMatching(columns, given),
    streams = new Set(given.meta.tracks.filter(({kind}) => kind === 'stream').map(({track}) => track));
  /** @param {CallsRequest} q */
  return async function calls({names, step, device, id, place: asked}) {
    const state = {name: names, step: step === null ? null : [step]},
      rows = await table({t: 'table', by: 'name', scope: device ? 'device' : 'host', top: 1}, state),
      data = unpack(rows),
      own = new Set(names.map(mergedName)),
      labels = /** @type {string[]} */ (rows.content.label),
      sum = (/** @type {string} */ name) => labels.reduce((all, label, k) => all + (own.has(label) ? data[name][k] : 0), 0),
      mask = matching(state, []),
      isDevice = (/** @type {number} */ i) => streams.has(given.trackOfRow[columns.row[i]]),
      among = [];
    if (!left) for (let i = 0; i < columns.row.length; i++) if ((!mask || mask[i]) && isDevice(i) === device) among.push(i);
    const place = id === undefined ? asked : among.indexOf(id),
      at = place === undefined ? undefined : among[place];
    return reply({
      count: sum('count'),
      total_ns: sum('total_ns'),
      self_ns: sum('self_ns'),
      slices: among.length,
      place: at === undefined ? null : place,
      slice: at === undefined ? null : {id: at, ts: columns.ts[at], dur: columns.dur[at], row: columns.row[at]},
    });
  };
}

/**
 * Make the answers `find`, `neighbour` and `search`.
 * @param {import('./answers.js').Report} report
 */
export function createLocalFind({columns, given, index, nested, parent}) {
  const n = columns.row.length,
    track = (/** @type {number} */ i) => given.trackOfRow[columns.row[i]];
  const place = (/** @type {number | null} */ i) =>
    i === null || i < 0 ? {id: null} : {id: i, ts: columns.ts[i], dur: columns.dur[i], row: columns.row[i]};

  /** @param {{id: number, by: number}} q */
  function find(q) {
    if (!(q.id >= 0 && q.id < n)) return reply({id: null});
    for (let i = q.id + q.by; i >= 0 && i < n; i += q.by)
      if (columns.name[i] === columns.name[q.id] && track(i) === track(q.id)) return reply(place(i));
    return reply({id: null});
  }
  /** @param {{id: number, to?: string, row?: number, at?: number}} q */
  function neighbour(q) {
    if (!(q.id >= 0 && q.id < n)) {
      const [first, stop] = index.stretch(q.row ?? 0, q.at ?? 0, Infinity);
      return reply(place(first < stop ? index.order[first] : null));
    }
    const row = columns.row[q.id];
    if (q.to === 'parent') return reply(place(parent[q.id]));
    if (q.to === 'child') {
      const {trackOfRow, index: {start, pointer, order}} = nested,
        below = nested.row[q.id] + 1;
      if (trackOfRow[below] !== trackOfRow[below - 1]) return reply({id: null});
      const p = lowerBound(start, pointer[below], pointer[below + 1], columns.ts[q.id]),
        found = p < pointer[below + 1] ? order[p] : -1;
      return reply(place(found >= 0 && parent[found] === q.id ? found : null));
    }
    let p = lowerBound(index.start, index.pointer[row], index.pointer[row + 1], columns.ts[q.id]);
    while (index.order[p] !== q.id) p++;
    p += q.to === 'next' ? 1 : -1;
    return reply(place(p >= index.pointer[row] && p < index.pointer[row + 1] ? index.order[p] : null));
  }
  /** @type {{text: string, rows: number[]}} */
  let known = {text: '', rows: []};
  /** @param {string} text */
  function matches(text) {
    if (known.text === text) return known.rows;
    const passes = sliceFilter(columns, given, parseQuery(text)),
      rows = [];
    for (let i = 0; i < n; i++) if (passes(i)) rows.push(i);
    known = {text, rows};
    return rows;
  }
  /**
   * Where among the found slices the walk arrives.
   * @param {number[]} rows
   * @param {Partial<SearchRequest>} q
   */
  function placeIn(rows, q) {
    const {id} = q;
    if (id != null && (q.by ?? 1) <= 0) return (lowerBound(rows, 0, rows.length, id) - 1 + rows.length) % rows.length;
    const at = rows.findIndex((i) => (id == null ? columns.ts[i] >= (q.at ?? 0) : i > id));
    return Math.max(at, 0);
  }
  /**
   * Of some slices, which a text matches; null for a text that says nothing.
   * @param {string} text
   * @param {number[]} slices
   */
  function foundAmong(text, slices) {
    /** @type {number[]} */
    let rows = [];
    try {
      if (text.trim()) rows = matches(text.trim());
    } catch {
      return null; // the answer to the search says what is wrong with it
    }
    const among = new Set(rows);
    return rows.length ? Uint8Array.from(slices, (i) => Number(among.has(i))) : null;
  }
  /** @param {Partial<SearchRequest>} q */
  function search(q) {
    const text = (q.text ?? '').trim(),
      bins = Math.max(1, Math.min(q.px ?? 1000, MOST_MARKS)),
      marks = new Uint8Array(bins),
      nothing = {count: 0, place: null, id: null, error: ''};
    /** @type {number[]} */
    let rows = [];
    try {
      if (text) rows = matches(text);
    } catch (error) {
      return reply({...nothing, error: String(/** @type {Error} */ (error).message)}, {marks});
    }
    if (!rows.length) return reply(nothing, {marks});
    const [begin, end] = given.meta.span;
    for (const i of rows) marks[Math.min(Math.floor(((columns.ts[i] - begin) / Math.max(end - begin, 1)) * bins), bins - 1)] = 1;
    const at = placeIn(rows, q);
    return reply({...nothing, ...place(rows[at]), count: rows.length, place: at}, {marks});
  }
  return {answers: {find, neighbour, search}, foundAmong};
}
