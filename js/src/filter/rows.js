// Rows of a table that pass a filter: twin of notebook_prof/selection/frames.py.
import {EXACT, finds, folded, hasText, quoted} from './query.js';

/** @type {Record<string, (p: number, q: number) => boolean>} */
const COMPARE = {
  '>': (p, q) => p > q,
  '>=': (p, q) => p >= q,
  '<': (p, q) => p < q,
  '<=': (p, q) => p <= q,
  '=': (p, q) => p === q,
  '!=': (p, q) => p !== q,
};

/**
 * Whether one value passes a condition: a number, a text, or a step; what is missing (null, NaN) passes none.
 * @param {import('./query.js').Condition} condition
 * @param {unknown} found
 */
export function holds([field, operator, value], found) {
  if (found === null || found === undefined || Number.isNaN(found)) return false;
  if (!Array.isArray(value)) return COMPARE[operator](Number(found), value);
  if (field === 'step') {
    const ranges = /** @type {import('./query.js').StepRange[]} */ (value),
      step = Number(found);
    return ranges.some(([first, last]) => step >= (first ?? -Infinity) && step < (last ?? Infinity)) === (operator === '=');
  }
  const words = /** @type {string[]} */ (value).map(folded),
    text = folded(String(found)),
    fits =
      field === 'line'
        ? words.some((word) => text === word || text.endsWith(`:${word}`) || text.endsWith(`/${word}`))
        : EXACT.includes(field) ? words.includes(text) : words.some((word) => text.includes(word));
  return fits === (operator === '=');
}

// As selection/frames.column_for, of the columns that a table in a report has.
/** @type {Record<string, string[]>} */
const OTHER_COLUMNS = {
  avg: ['mean_ns', 'avg_ns'],
  time: ['time_ns', 'total_ns', 'device_ns', 'dur'],
  total: ['total_ns', 'dur', 'time_ns'],
  dtype: ['dtypes', 'in_dtypes', 'dtype'],
  type: ['type', 'category', 'kind'],
  category: ['category', 'type', 'kind'],
  thread: ['thread', 'track_name'],
  bandwidth: ['bytes_per_s'],
};
/**
 * Rows that pass; as selection/frames.passing.
 * @template Row
 * @param {Row[]} rows
 * @param {(row: Row) => Record<string, unknown>} view a row as the filter sees it
 * @param {string[]} columns what it has
 * @param {import('./query.js').Query} query
 */
export function passing(rows, view, columns, query) {
  const of = query.conditions.map(([field]) => {
    const found = [field, `${field}_ns`, `${field}_bytes`, ...(OTHER_COLUMNS[field] ?? [])].find((name) => columns.includes(name));
    if (!found) throw new Error(`this table cannot be filtered by ${quoted(field)}: its columns are ${columns.join(', ')}`);
    return found;
  });
  const texts = ['name', 'shapes', 'module'].filter((name) => columns.includes(name));
  return rows.filter((row) => {
    const seen = view(row);
    return (
      query.conditions.every((condition, k) => holds(condition, seen[of[k]])) &&
      (!hasText(query) || finds(query, texts.map((name) => seen[name] ?? '').join('\n')))
    );
  });
}
