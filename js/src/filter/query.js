// The filter language in a report: twin of notebook_prof/selection/query.py; rows.js and slices.js say what passes.
// tests/unit/test_page_twins.py holds both to one corpus.
import {Pattern} from './patterns.js';

/**
 * @typedef {[first: number | null, last: number | null]} StepRange
 * @typedef {[field: string, operator: string, value: number | string[] | StepRange[]]} Condition
 * @typedef {{words: string[], patterns: Pattern[], conditions: Condition[]}} Query
 */

export const EXACT = ['category', 'phase', 'type', 'kind', 'line'];
const TIMES = ['self', 'total', 'device', 'time', 'dur', 'mean', 'avg', 'min', 'max', 'host', 'gap'],
  NUMBERS = ['count', 'share', 'flops', 'bytes', 'bandwidth', 'intensity', 'depth', 'stream', 'rank'],
  PARTS = ['name', 'module', 'dtype', 'shapes', 'file', 'thread'],
  FIELDS = [...TIMES, ...NUMBERS, ...EXACT, ...PARTS, 'step'],
  COMPARED = '(>=|<=|!=|>|<|=)';
const TOKEN = /\/(?:\\.|[^/\\])+\/(?=\s|$)|"[^"]*"|\S+/g,
  SPACED = new RegExp(
    `\\b(${[...TIMES, ...NUMBERS].join('|')})\\s*${COMPARED}\\s*([\\d.]+)\\s+(ns|us|µs|ms|s|min|%|[KMGT]i?B)(?=\\s|$)`,
    'g',
  ),
  GAPS = new RegExp(`\\b(${FIELDS.join('|')})\\s*${COMPARED}\\s*(?=\\S)`, 'g'),
  CONDITION = new RegExp(`^([A-Za-z_]+)${COMPARED}(.+)$`),
  NUMBER = '([+-]?(?:\\d+\\.?\\d*|\\.\\d+)(?:[eE][+-]?\\d+)?)',
  QUANTITY = new RegExp(`^${NUMBER}\\s*(%|[KMGTP]?i?B|[KMGTP])?$`),
  DURATION = new RegExp(`^\\s*${NUMBER}\\s*([^\\d\\s]*)\\s*$`);
/** @type {Record<string, number>} */
const UNIT_NS = {ns: 1, us: 1e3, µs: 1e3, μs: 1e3, ms: 1e6, s: 1e9, min: 60e9};
/** @param {string} text */
export const folded = (text) => text.toLowerCase().replaceAll('ß', 'ss').replaceAll('µ', 'μ'); // as Python's casefold
/** @param {string} text */
export const quoted = (text) => (text.includes("'") && !text.includes('"') ? `"${text}"` : `'${text}'`); // as Python's repr

/**
 * Read a filter.
 * @param {string} text
 */
export function parseQuery(text) {
  /** @type {Query} */
  const out = {words: [], patterns: [], conditions: []};
  if (!text.includes('/') && !text.includes('"')) text = text.replace(SPACED, '$1$2$3$4').replace(GAPS, '$1$2');
  for (const token of text.match(TOKEN) ?? []) {
    const [first, last] = [token[0], token[token.length - 1]],
      match = CONDITION.exec(token);
    if (token.length > 2 && first === '/' && last === '/') out.patterns.push(patternOf(token));
    else if (token.length > 2 && first === '"' && last === '"') out.words.push(folded(token.slice(1, -1)));
    else if (match && isField(match[1], match[3])) out.conditions.push(conditionOf(folded(match[1]), match[2], match[3]));
    else out.words.push(folded(token));
  }
  return out;
}
/** @param {string} token */
function patternOf(token) {
  try {
    return new Pattern(token.slice(1, -1));
  } catch (error) {
    throw new Error(`${token} is not a regular expression: ${/** @type {Error} */ (error).message}`, {cause: error});
  }
}
/**
 * @param {string} field
 * @param {string} value
 */
function isField(field, value) {
  if (FIELDS.includes(folded(field))) return true;
  const [close] = closest(folded(field), FIELDS, 1, 0.7);
  if (close && (/^\d/.test(value) || EXACT.includes(close) || close === 'step'))
    throw new Error(`nothing can be filtered by ${quoted(field)}: did you mean ${quoted(close)}?`);
  return false;
}
/**
 * @param {string} field
 * @param {string} operator
 * @param {string} value
 * @returns {Condition}
 */
function conditionOf(field, operator, value) {
  if (field === 'step' && (operator === '=' || operator === '!=')) return [field, operator, value.split(',').map(stepsOf)];
  if (TIMES.includes(field)) return [field, operator, durationOf(value)];
  if (NUMBERS.includes(field) || field === 'step') return [field, operator, numberOf(field, value)];
  if (operator !== '=' && operator !== '!=')
    throw new Error(`${field}${operator}${value} compares text: write ${field}=${value} or ${field}!=${value}`);
  return [field, operator, value.split(',').filter(Boolean)];
}
/**
 * @param {string} text
 * @returns {StepRange}
 */
function stepsOf(text) {
  const match = /^(\d+)?(:)?(\d+)?$/.exec(text);
  if (!match || !text.replaceAll(':', '')) throw new Error(`step=${text} is not a range: write step=5, step=3:7, step=3: or step=2,4`);
  const [first, last] = [match[1], match[3]].map((part) => (part === undefined ? null : Number(part)));
  return match[2] ? [first, last] : [first, (first ?? 0) + 1];
}
/** @param {string} text */
function durationOf(text) {
  const match = DURATION.exec(text),
    unit = match ? match[2] || 'ns' : '';
  if (!match || !Object.hasOwn(UNIT_NS, unit))
    throw new Error(`${quoted(text)} is not a duration: write a number and one of ns, us, ms, s, min, as in 5us`);
  const ns = Number(match[1]) * UNIT_NS[unit],
    near = Math.round(ns);
  return Math.abs(ns % 1) === 0.5 && near % 2 ? near - 1 : near; // halves to even, as Python rounds
}
/**
 * @param {string} field
 * @param {string} text
 */
function numberOf(field, text) {
  const match = QUANTITY.exec(text);
  if (!match) throw new Error(`${quoted(text)} is not a number: write ${field}>10, share>5% or bytes>1MiB`);
  const number = Number(match[1]),
    unit = match[2] ?? '';
  if (unit === '%' || (field === 'share' && number > 1)) return number / 100;
  const power = ' KMGTP'.indexOf(unit[0] ?? ' ');
  if (unit.endsWith('iB')) return number * 1024 ** (unit === 'iB' ? 0 : power);
  return unit === '' || unit === 'B' ? number : number * 1000 ** power;
}
/**
 * difflib.get_close_matches
 * @param {string} word
 * @param {string[]} known
 * @param {number} count
 * @param {number} cutoff
 */
export function closest(word, known, count, cutoff) {
  return known
    .map((text) => /** @type {const} */ ([(2 * shared(text, word)) / (text.length + word.length), text]))
    .filter(([ratio]) => ratio >= cutoff)
    .sort((p, q) => q[0] - p[0] || (p[1] < q[1] ? 1 : -1))
    .slice(0, count)
    .map(([, text]) => text);
}
/**
 * @param {string} a
 * @param {string} b
 * @returns {number}
 */
function shared(a, b) {
  let size = 0,
    at = 0,
    to = 0;
  for (let i = 0; i < a.length; i++)
    for (let j = 0; j < b.length; j++) {
      let k = 0;
      while (i + k < a.length && j + k < b.length && a[i + k] === b[j + k]) k++;
      if (k > size) [size, at, to] = [k, i, j];
    }
  return size ? size + shared(a.slice(0, at), b.slice(0, to)) + shared(a.slice(at + size), b.slice(to + size)) : 0;
}

/** @param {Pick<Query, 'words' | 'patterns'>} query */
export const hasText = ({words, patterns}) => words.length + patterns.length > 0;
/**
 * @param {Pick<Query, 'words' | 'patterns'>} query
 * @param {string} text
 */
export const finds = ({words, patterns}, text) =>
  words.every((word) => folded(text).includes(word)) && patterns.every((pattern) => pattern.test(text));
