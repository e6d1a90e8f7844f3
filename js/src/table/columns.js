// The columns of the operator table.
import {formatCount, formatShare, formatTimeCell} from '../shared/units.js';

/**
 * @typedef {object} TableColumn
 * @property {'label' | TableNumber} key
 * @property {string} text
 * @property {boolean} numeric
 * @property {(value: number) => string} format
 * @property {string} [title]
 */

const asText = (/** @type {number} */ value) => String(value);

/** @type {TableColumn[]} */
export const COLUMNS = [
  {key: 'label', text: 'name', numeric: false, format: asText},
  {key: 'count', text: 'count', numeric: true, format: formatCount},
  {key: 'total_ns', text: 'total', numeric: true, format: formatTimeCell, title: 'time from start to end, children included'},
  {key: 'self_ns', text: 'self', numeric: true, format: formatTimeCell, title: 'time not spent in slices inside it'},
  {key: 'device_ns', text: 'device', numeric: true, format: formatTimeCell, title: 'device time that it launched'},
  {key: 'share', text: 'self share', numeric: true, format: formatShare, title: 'of the self time of all rows'},
];

/** @type {Record<Grouping, string>} */
export const GROUP_TEXTS = {name: 'name', shapes: 'name and shapes', module: 'module', category: 'category'};

export const FIRST_ROWS = 60,
  MORE_ROWS = 200,
  PAGE_ROWS = 1000; // as many as the page holds at once; the kernel has the rest

/** Stands for the code of a name where a row is of none. */
export const NO_NAME = 0xffffffff;
