// C: the code that gives exactly the number under the pointer, or in focus.
import {activeElement} from '../shared/elements.js';

const SHOWN = 60; // characters of the code that a hint has room for

/** What a column of the operator table is in p.operators(). @type {Record<string, string>} */
const COLUMNS = {count: 'count', total: 'total_ns', self: 'self_ns', share: 'share', device: 'device_ns'};
/** Dimensions that p.operators() takes. @type {Dimension[]} */
const TAKEN = ['window', 'step', 'phase', 'category', 'track', 'line'];
/** Dimensions that p.lines() takes. @type {Dimension[]} */
const TAKEN_BY_LINES = ['window', 'step', 'phase', 'name', 'category', 'track'];

/**
 * The arguments of a call under a selection.
 * @param {Dimension[]} taken
 * @param {SelectionState} state
 */
const argumentsOf = (taken, state) =>
  taken.filter((key) => state[key] != null).map((key) => `${key}=${key === 'window' ? `(${state.window})` : JSON.stringify(state[key])}`);

/**
 * A row of the operator table.
 * @typedef {object} OperatorRow
 * @property {Grouping} by
 * @property {string} label
 * @property {string[]} values names or categories of its slices
 */

/**
 * The code of a number in the operator table; empty where Python has none that is the same.
 * @param {OperatorRow} row
 * @param {string} column
 * @param {SelectionState} state
 * @param {boolean} device whether some slices are those of a device
 */
export function codeOfCell({by, label, values}, column, state, device) {
  if (by !== 'name' && by !== 'category') return '';
  if (state.rank || state.group || (by === 'category' && state.name)) return '';
  const texts = argumentsOf(TAKEN.filter((key) => key !== by), state);
  if (column === 'min' || column === 'max') {
    const onHost = device ? `.merge(p.trace.tracks[["track", "kind"]]).query("kind in ['thread', 'process']")` : '';
    return `p.event_log(${[...texts, `${by}=${JSON.stringify(values)}`].join(', ')})${onHost}["dur"].${column}()`;
  }
  const call = `p.operators(${[...texts, ...(by === 'category' ? ['by="category"'] : [])].join(', ')}).set_index("${by}")`,
    at = JSON.stringify(label);
  if (column === 'mean') return `${call}.pipe(lambda t: t["total_ns"] / t["count"]).at[${at}]`;
  return column in COLUMNS ? `${call}.at[${at}, "${COLUMNS[column]}"]` : '';
}

/**
 * The code of a number in a table of a tab, whose rows have the labels that the table has in Python.
 * @param {Pick<TablePart, 'call' | 'labels'>} part
 * @param {number} row
 * @param {string} column
 */
export const codeOfPart = ({call, labels}, row, column) => (call ? `${call}.at[${labels?.[row] ?? row}, ${JSON.stringify(column)}]` : '');

/**
 * The code of a number of a line of source; empty where p.lines() has none that is the same.
 * @param {string} file
 * @param {number} line
 * @param {string} column
 * @param {SelectionState} state
 */
export function codeOfLine(file, line, column, state) {
  if (state.rank || state.group) return '';
  const call = `p.lines(${argumentsOf(TAKEN_BY_LINES, state).join(', ')})`;
  return `${call}.set_index(["file", "line"]).at[(${JSON.stringify(file)}, ${line}), "${column}"]`;
}

/**
 * Copy the code of a number.
 * @param {HTMLElement} root
 * @param {(text: string) => void} hint
 * @param {(element: Element) => string} codeAt of a number in a table
 */
export async function copyAsPandas(root, hint, codeAt) {
  const [at] = [...root.querySelectorAll(':hover')].slice(-1),
    codes = [at, activeElement()].map((element) => element && (/** @type {HTMLElement | null} */ (element.closest('[data-pandas]'))?.dataset.pandas ?? codeAt(element))),
    code = codes.find(Boolean);
  if (!code) {
    hint('point at a number: C copies the code that gives it');
    return;
  }
  const short = code.length > SHOWN ? `${code.slice(0, SHOWN)}…` : code;
  try {
    await navigator.clipboard.writeText(code);
    hint(`copied: ${short}`);
  } catch {
    hint(`the browser does not let a page copy ${short}`);
  }
}
