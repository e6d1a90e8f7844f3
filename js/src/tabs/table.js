// A table in a tab: sorted in the page, with bars behind numbers.
import {codeOfPart} from '../page/copying.js';
import {textElement} from '../shared/elements.js';
import {isPicked} from '../shared/store.js';
import {formatBytes, formatCount, formatDelta, formatInstant, formatShare, formatTimeCell, significant} from '../shared/units.js';
import {walked} from './walk.js';

/**
 * A number with a prefix of 1000 and a unit.
 * @param {number} value
 * @param {string} unit
 */
function formatScaled(value, unit) {
  const names = ['', 'k', 'M', 'G', 'T', 'P'],
    k = value ? Math.max(0, Math.min(names.length - 1, Math.floor(Math.log10(Math.abs(value)) / 3))) : 0;
  return `${significant(value / 1000 ** k, 3)} ${names[k]}${unit}`;
}

/** @type {Partial<Record<CellUnit, (value: number) => string>>} */
const CELLS = {
  ns: formatTimeCell,
  delta: formatDelta,
  instant: (ns) => formatInstant(ns, Math.max(Math.abs(ns) / 1e4, 1)),
  bytes: (n) => formatBytes(n),
  share: formatShare,
  count: formatCount,
  number: (x) => significant(x, 3),
  flops: (x) => formatScaled(x, 'FLOP'),
  'flops/s': (x) => formatScaled(x, 'FLOP/s'),
  'bytes/s': (x) => `${formatBytes(x)}/s`,
};

/**
 * A number of a table as text.
 * @param {number} value
 * @param {CellUnit} unit
 */
export const cellText = (value, unit) => (Number.isFinite(value) ? (CELLS[unit]?.(value) ?? '') : '–');

/**
 * How a difference is written: pale within the noise.
 * @param {number} delta
 * @param {boolean} sure
 */
export const deltaClass = (delta, sure) => (sure ? (delta > 0 ? 'nbp-more-time' : 'nbp-less-time') : 'nbp-within-noise');

const numeric = (/** @type {CellUnit} */ unit) => !['text', 'name', 'code'].includes(unit);

/**
 * The value at which a bar is as wide as its cell, by column.
 * @param {ShownTable} part
 * @returns {Record<string, number>}
 */
function largestOf({heads, columns, bars = []}) {
  /** @param {string[]} keys */
  const highest = (keys) => {
    let most = 1e-9;
    for (const key of keys) for (const x of columns[key]) most = Math.max(most, x || 0);
    return most;
  };
  const barred = bars.filter((key) => columns[key]); // on one scale
  return Object.fromEntries([
    ...heads.filter(([, , unit]) => unit === 'share').map(([key]) => [key, highest([key])]),
    ...barred.map((key) => [key, highest(barred)]),
  ]);
}

/**
 * Rows of a part in the order of a column.
 * @param {number} size
 * @param {ArrayLike<string | number> | null} values
 * @param {boolean} descending
 */
export function sortedRows(size, values, descending) {
  const rows = Array.from({length: size}, (_, i) => i);
  if (!values) return rows;
  return rows.sort((p, q) => {
    const [a, b] = [values[p], values[q]],
      by =
        typeof a === 'string'
          ? a.localeCompare(String(b))
          : Number(Number.isNaN(a)) - Number(Number.isNaN(b)) || a - Number(b);
    return (descending ? -by : by) || p - q;
  });
}

/** A table of a tab. */
export class PartTable {
  /** @type {string | null} */ sort = null;
  descending = true;
  body = document.createElement('tbody');
  headRow = document.createElement('tr');

  /**
   * @param {Context} ctx
   * @param {ShownTable} part
   * @param {import('./walk.js').Pick} pick
   */
  constructor(ctx, part, pick) {
    const {title, bars = [], size} = part;
    this.ctx = ctx;
    this.part = part;
    this.largest = largestOf(part);
    this.element = textElement('div', 'nbp-part-table', '');
    this.element.classList.toggle('nbp-barred', bars.length > 0);
    if (title) this.element.append(textElement('div', 'nbp-part-title', title));
    this.element.append(this.grid(title));
    this.items = Array.from({length: size}, (_, i) => ({el: this.rowOf(i), select: part.select?.[i] ?? null}));
    this.addFoot();
    this.order();
    this.redraw();
    walked(this.body, this.items, pick);
  }

  /** @param {string} title */
  grid(title) {
    const scroll = textElement('div', 'nbp-part-scroll', ''),
      grid = document.createElement('table'),
      thead = document.createElement('thead');
    grid.setAttribute('role', 'grid');
    grid.setAttribute('aria-label', title || 'table');
    thead.append(this.headRow);
    grid.append(thead, this.body);
    scroll.append(grid);
    return scroll;
  }

  /** @param {number} i */
  rowOf(i) {
    const {heads, texts, columns, select} = this.part,
      el = document.createElement('tr');
    el.append(
      ...heads.map(([key, , unit]) => {
        const cell = document.createElement('td');
        if (unit === 'name') cell.append(...this.nameOf(key, i));
        else cell.textContent = numeric(unit) ? cellText(columns[key][i], unit) : texts[key][i];
        cell.className = numeric(unit) ? 'nbp-number' : `nbp-${unit}`;
        if (!numeric(unit)) cell.title = texts[key][i];
        if (Number.isFinite(columns[key]?.[i])) cell.dataset.pandas = codeOfPart(this.part, i, key);
        if (unit === 'delta') cell.classList.add(deltaClass(columns[key][i], texts.change?.[i] !== '≈'));
        if (this.largest[key] && Number.isFinite(columns[key][i])) {
          cell.classList.add('nbp-share-cell');
          cell.style.setProperty('--nbp-share', `${(100 * columns[key][i]) / this.largest[key]}%`);
          cell.classList.toggle('nbp-unrecorded', this.part.bars.includes(key) && 2 * columns.unrecorded_ns?.[i] > columns[key][i]);
        }
        return cell;
      }),
    );
    el.classList.toggle('nbp-pickable', Boolean(select?.[i]));
    return el;
  }

  /**
   * A swatch and what is written for a name.
   * @param {string} key
   * @param {number} i
   */
  nameOf(key, i) {
    const {texts, names} = this.part,
      {labels, colours} = names?.[key] ?? {labels: texts[key], colours: []},
      swatch = textElement('i', 'nbp-swatch', '');
    if (/^#[0-9a-f]{6}$/i.test(colours[i] ?? '')) swatch.style.background = colours[i];
    return texts[key][i] ? [swatch, labels[i]] : [];
  }

  order() {
    const {heads, columns, texts, size} = this.part,
      values = this.sort === null ? null : (columns[this.sort] ?? texts[this.sort]);
    this.body.replaceChildren(...sortedRows(size, values, this.descending).map((i) => this.items[i].el));
    this.headRow.replaceChildren(...heads.map((head) => this.headOf(head)));
  }

  /** @param {TableHead} head */
  headOf([key, text, unit]) {
    const cell = document.createElement('th'),
      button = document.createElement('button'),
      active = this.sort === key;
    cell.scope = 'col';
    cell.className = numeric(unit) ? 'nbp-number' : `nbp-${unit}`;
    cell.setAttribute('aria-sort', active ? (this.descending ? 'descending' : 'ascending') : 'none');
    button.textContent = `${text}${active ? (this.descending ? ' ▾' : ' ▴') : ''}`;
    button.addEventListener('click', () => {
      if (!active) [this.sort, this.descending] = [key, numeric(unit)];
      else if (this.descending === numeric(unit)) this.descending = !this.descending;
      else this.sort = null; // the third click gives back the order in which it came
      this.order();
    });
    cell.append(button);
    return cell;
  }

  addFoot() {
    const {size, rows, call} = this.part,
      foot = textElement('div', 'nbp-part-foot', size < rows ? `the first ${formatCount(size)} of ${formatCount(rows)} rows` : '');
    if (!size) foot.textContent = 'no rows';
    if (call) {
      if (foot.textContent) foot.append(' · ');
      foot.append('in Python: ', textElement('code', '', call));
    }
    if (foot.textContent) this.element.append(foot);
  }

  /** Mark anew what is selected. */
  redraw() {
    const state = this.ctx.store.get();
    for (const {el, select} of this.items) el.setAttribute('aria-selected', String(select !== null && isPicked(state, select)));
  }
}
