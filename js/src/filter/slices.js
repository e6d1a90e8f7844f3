// Slices that pass a filter, and what of a filter becomes clauses: twin of notebook_prof/service/filters.py.
import {closest, finds, folded, hasText, quoted} from './query.js';
import {holds} from './rows.js';

/**
 * @typedef {import('./query.js').Query} Query
 * @typedef {import('./query.js').Condition} Condition
 * @typedef {(i: number) => boolean} SliceTest
 */

/** @type {Record<string, 'step' | 'phase' | 'category' | 'line'>} */
const DIMENSION_OF = {step: 'step', phase: 'phase', category: 'category', type: 'category', line: 'line'};
/** @type {Record<string, string[]>} */
const WORDS = {
  phase: ['data', 'forward', 'backward', 'optimizer', 'communication', 'evaluation', 'other'],
  category: [
    ...['operator', 'kernel', 'launch', 'memcpy', 'memset', 'collective'],
    ...['python', 'annotation', 'module', 'io', 'sync', 'overhead'],
  ],
};
const OF_A_SLICE = ['name', 'category', 'type', 'phase', 'thread', 'module', 'shapes', 'line', 'self', 'total', 'dur', 'time', 'depth', 'step'];

/** @param {Condition} condition */
function checkWords([field, , words]) {
  const dimension = DIMENSION_OF[field],
    known = WORDS[dimension];
  if (!known || !Array.isArray(words)) return;
  const word = words.map(String).find((one) => !known.includes(folded(one)));
  if (word === undefined) return;
  const close = closest(folded(word), known, 2, 0.6);
  throw new Error(
    `there is no ${dimension} ${quoted(word)}: ${close.length ? `did you mean ${close.map(quoted).join(' or ')}?` : `choose from ${known.join(', ')}`}`,
  );
}

/**
 * Make clauses of the conditions on step, phase, category and line, as service/filters.narrowed does.
 * @param {ReportData} given
 * @param {Query} query
 * @param {SelectionState} state
 * @param {string[]} own
 * @returns {[rest: Query, state: SelectionState, own: string[]]}
 */
export function narrowed(given, query, state, own) {
  /** @type {Record<'step' | 'phase' | 'category' | 'line', (string | number)[]>} */
  const known = {
    step: Array.from(given.steps.step),
    phase: given.meta.phases,
    category: given.meta.categories,
    line: given.meta.lines,
  };
  /** @type {Record<string, (string | number)[]>} */
  const clauses = {};
  let left = own;
  for (const condition of query.conditions) {
    const dimension = DIMENSION_OF[condition[0]];
    if (!dimension) continue;
    checkWords(condition);
    const now = clauses[dimension] ?? state[dimension];
    let fitting = known[dimension].filter((value) => holds(condition, value));
    if (!left.includes(dimension) && now != null) fitting = fitting.filter((value) => now.includes(value));
    clauses[dimension] = fitting;
    left = left.filter((name) => name !== dimension);
  }
  return [{...query, conditions: query.conditions.filter(([field]) => !DIMENSION_OF[field])}, {...state, ...clauses}, left];
}

/**
 * Make the test whether slice i passes; as service/filters.slices_passing.
 * @param {ReportColumns} columns
 * @param {ReportData} given
 * @param {Query} query
 * @returns {SliceTest}
 */
export function sliceFilter(columns, given, query) {
  const {meta} = given,
    trackOf = new Map(meta.tracks.map((track) => [track.track, track]));
  /** @type {Record<string, [codes: NumberArray | undefined, values: (string | null)[] | undefined]>} */
  const texts = {
    name: [columns.name, given.names],
    category: [columns.category, meta.categories],
    type: [columns.category, meta.categories],
    phase: [columns.phase, meta.phases],
    line: [columns.line, meta.lines],
    module: [columns.module, given.groups.module?.labels],
    shapes: [columns.shapes, given.groups.shapes?.details?.map((text) => text || null)],
  };
  /** @type {Record<string, (i: number) => number | null>} */
  const numbers = {
    self: (i) => columns.dur[i] - columns.inside[i],
    depth: (i) => columns.row[i] - (trackOf.get(given.trackOfRow[columns.row[i]])?.row ?? 0),
    step: (i) => (columns.step[i] < 0 ? null : columns.step[i]),
  };
  /**
   * @param {string} field
   * @param {(text: string | null) => boolean} test
   * @returns {SliceTest}
   */
  const byCode = (field, test) => {
    const [codes, values] = texts[field],
      fits = (values ?? []).map(test);
    return (i) => Boolean(codes && codes[i] >= 0 && fits[codes[i]]);
  };
  /**
   * @param {Condition} condition
   * @returns {SliceTest}
   */
  const testOf = (condition) => {
    const [field] = condition;
    if (!OF_A_SLICE.includes(field)) throw new Error(`a slice has no ${field}: it can be found by ${OF_A_SLICE.join(', ')}`);
    checkWords(condition);
    if (texts[field]) return byCode(field, (text) => holds(condition, text));
    if (field === 'thread') {
      const fits = new Set(meta.tracks.filter((track) => holds(condition, track.name)).map((track) => track.track));
      return (i) => fits.has(given.trackOfRow[columns.row[i]]);
    }
    const number = numbers[field] ?? ((/** @type {number} */ i) => columns.dur[i]);
    return (i) => holds(condition, number(i));
  };
  const tests = hasText(query) ? [byCode('name', (text) => finds(query, text ?? ''))] : [];
  tests.push(...query.conditions.map(testOf));
  return (i) => tests.every((test) => test(i));
}
