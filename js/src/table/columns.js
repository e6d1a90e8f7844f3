// The columns of the operator table: times of the host and of the device, each with its own share.
import {formatCount, formatShare, formatTimeCell} from '../shared/units.js';

/**
 * @typedef {'label' | 'count' | 'total' | 'mean' | 'min' | 'max' | 'self' | 'share' | 'device' | 'device_share'} ColumnKey
 * @typedef {object} TableColumn
 * @property {ColumnKey} key
 * @property {string} sort what it is sorted by
 * @property {string} text
 * @property {string} title
 * @property {(answer: TableAnswer, row: number) => number | null} value null where the row has none
 * @property {(value: number) => string} format
 */

/**
 * @param {TableNumber} name
 * @returns {TableColumn['value']}
 */
const ofHost = (name) => ({data}, i) => (data.side[i] ? null : data[name][i]);

/**
 * Device time of a row: a kernel's own, or what an operator launched.
 * @param {TableAnswer} answer
 * @param {number} i
 */
const deviceTime = ({data}, i) => (data.side[i] ? data.self_ns[i] : data.device_ns[i]) || null;

/**
 * Total of the host a call.
 * @param {TableAnswer} answer
 * @param {number} i
 */
const meanOf = ({data}, i) => (data.side[i] || !data.count[i] ? null : data.total_ns[i] / data.count[i]);

/**
 * The shortest or the longest slice of the host, where it is known.
 * @param {'min_ns' | 'max_ns'} name
 * @returns {TableColumn['value']}
 */
const extreme = (name) => ({data}, i) => (data.side[i] || !data.max_ns[i] ? null : data[name][i]);

/** @type {TableColumn[]} */
export const COLUMNS = [
  {key: 'label', sort: 'label', text: 'name', title: '', value: () => null, format: String},
  {key: 'count', sort: 'count', text: 'count', title: 'how many slices', value: ({data}, i) => data.count[i], format: formatCount},
  {key: 'total', sort: 'total_ns', text: 'total', title: 'host time from start to end, children included', value: ofHost('total_ns'), format: formatTimeCell},
  {key: 'mean', sort: 'mean_ns', text: 'mean', title: 'total of a call', value: meanOf, format: formatTimeCell},
  {key: 'min', sort: 'min_ns', text: 'min', title: 'the shortest slice', value: extreme('min_ns'), format: formatTimeCell},
  {key: 'max', sort: 'max_ns', text: 'max', title: 'the longest slice', value: extreme('max_ns'), format: formatTimeCell},
  {key: 'self', sort: 'self_ns', text: 'self', title: 'host time not spent in slices inside it', value: ofHost('self_ns'), format: formatTimeCell},
  {key: 'share', sort: 'self_ns', text: 'self %', title: 'of the self time of all rows of the host: the sum below', value: ofHost('share'), format: formatShare},
  {key: 'device', sort: 'device_ns', text: 'device', title: 'device time: of the kernel, or of what the operator launched', value: deviceTime, format: formatTimeCell},
  {
    key: 'device_share',
    sort: 'device_ns',
    text: 'device %',
    title: 'of the time of all kernels: the sum below',
    value: (answer, i) => (deviceTime(answer, i) ?? 0) / Math.max(answer.device_self_ns, 1) || null,
    format: formatShare,
  },
];

/** Columns of a bar behind their number. */
export const SHARES = new Set(['share', 'device_share']);

/** @type {Record<Grouping, string>} */
export const GROUP_TEXTS = {name: 'name', shapes: 'name and shapes', module: 'module', category: 'category'};

export const FIRST_ROWS = 60,
  MORE_ROWS = 200,
  PAGE_ROWS = 1000; // as many as the page holds at once; the kernel has the rest

/** Stands for the code of a name where a row is of none. */
export const NO_NAME = 0xffffffff;
