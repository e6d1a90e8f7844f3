// Source code as it was written, with what each line took: bars, numbers, and its time over the steps.
import {codeOfLine} from '../page/copying.js';
import {textElement} from '../shared/elements.js';
import {lineBefore} from '../shared/run_before.js';
import {isPicked} from '../shared/store.js';
import {formatCount, formatShare} from '../shared/units.js';
import {cellText} from './table.js';
import {walked} from './walk.js';

const BARS = '▁▂▃▄▅▆▇█';
const NO_BAR = '\u2007'; // as wide as a figure

/**
 * How strongly a line is tinted: its share of the line that takes most, pale lines still told from none.
 * @param {number} value
 * @param {number} most
 */
export const heatOf = (value, most) => (value > 0 && most > 0 ? Math.sqrt(value / most) : 0);

/**
 * A character as high as a share of the whole; blank for nothing.
 * @param {number} share
 */
export const barOf = (share) => (share > 0 ? BARS[Math.min(BARS.length - 1, Math.floor(share * BARS.length))] : NO_BAR);

/** A file, or the cell, as a grid with a row a line. */
export class SourceView {
  why = document.createElement('tr');

  /**
   * @param {Context} ctx
   * @param {ShownSource} part
   * @param {import('./walk.js').Pick} pick
   * @param {SelectionState} state the selection it was computed for
   */
  constructor(ctx, part, pick, state) {
    this.state = state;
    this.ctx = ctx;
    this.part = part;
    this.note = textElement('span', 'nbp-muted', '');
    this.most = Object.fromEntries(part.heads.map(([key]) => [key, highest(part.columns[key])]));
    const grid = document.createElement('table'),
      body = document.createElement('tbody'),
      scroll = textElement('div', 'nbp-part-scroll', ''),
      rows = Array.from({length: part.size}, (_, i) => this.rowOf(i));
    grid.className = 'nbp-source-grid';
    grid.setAttribute('role', 'grid');
    grid.setAttribute('aria-label', part.title);
    body.append(...rows.flatMap((row, i) => [...this.gapBefore(i), row]));
    grid.append(this.head(), body);
    scroll.append(grid);
    /** @type {import('./walk.js').Item[]} */
    this.items = rows.map((el, i) => ({el, select: part.select?.[i] ?? null}));
    walked(body, this.items, pick);
    this.why.className = 'nbp-source-gap nbp-source-because';
    this.why.insertCell().colSpan = this.width();
    this.element = this.framed(scroll);
    this.redraw();
  }

  /**
   * The grid below its title; other files are opened on demand.
   * @param {HTMLElement} scroll
   */
  framed(scroll) {
    const {title, call, folded} = this.part,
      frame = document.createElement('details'),
      summary = textElement('summary', 'nbp-part-title', ''),
      foot = textElement('div', 'nbp-part-foot', 'in Python: ');
    frame.className = 'nbp-source';
    frame.open = !folded;
    summary.append(textElement('span', '', title), this.note);
    foot.append(textElement('code', '', call));
    frame.append(summary, scroll, foot);
    return frame;
  }

  extent() {
    const {columns, size} = this.part,
      ran = Array.from(columns.total_ns ?? []).filter((ns) => ns > 0).length;
    return `${formatCount(ran)} of ${formatCount(size)} lines took time`;
  }

  head() {
    const head = document.createElement('thead'),
      row = document.createElement('tr');
    for (const [key, text, unit] of this.part.heads) {
      const cell = document.createElement('th');
      cell.scope = 'col';
      cell.className = `nbp-${unit === 'code' ? 'code' : 'number'}`;
      cell.textContent = text;
      cell.dataset.key = key;
      if (unit === 'code' && this.part.steps) row.append(this.trendHead());
      row.append(cell);
    }
    head.append(row);
    return head;
  }

  trendHead() {
    const cell = textElement('th', 'nbp-trend', 'by step');
    cell.scope = 'col';
    cell.title = 'time over the steps, from left to right; each line on a scale of its own';
    return cell;
  }

  /** @param {number} i */
  rowOf(i) {
    const {heads, texts, columns, select, steps} = this.part,
      el = document.createElement('tr'),
      heat = heatOf(columns.total_ns?.[i], this.most.total_ns);
    for (const [key, , unit] of heads) {
      if (unit === 'code' && steps) el.append(this.trendOf(i));
      const cell = document.createElement(key === 'line' ? 'th' : 'td');
      if (unit === 'code') this.writeCode(cell, texts[key][i], heat);
      else this.writeNumber(cell, key, unit, i);
      el.append(cell);
    }
    el.classList.toggle('nbp-pickable', Boolean(select?.[i]));
    return el;
  }

  /**
   * @param {HTMLTableCellElement} cell
   * @param {string} text
   * @param {number} heat
   */
  writeCode(cell, text, heat) {
    cell.className = 'nbp-code';
    cell.textContent = text;
    cell.title = text.trim();
    cell.style.setProperty('--nbp-heat', `${Math.round(100 * heat)}%`);
  }

  /**
   * A number with a bar behind it; nothing where the line took nothing.
   * @param {HTMLTableCellElement} cell
   * @param {string} key
   * @param {CellUnit} unit
   * @param {number} i
   */
  writeNumber(cell, key, unit, i) {
    const value = this.part.columns[key][i];
    cell.className = 'nbp-number';
    cell.dataset.key = key;
    if (key === 'line') {
      cell.scope = 'row';
      cell.textContent = String(value);
      return;
    }
    if (!(value > 0)) return;
    cell.textContent = cellText(value, unit);
    cell.dataset.pandas = codeOfLine(this.part.file, this.part.columns.line[i], key, this.state);
    const scale = this.part.bars.includes(key) ? Math.max(...this.part.bars.map((bar) => this.most[bar] ?? 0)) : this.most[key];
    if (unit === 'count' || !scale) return;
    cell.classList.add('nbp-share-cell');
    cell.style.setProperty('--nbp-share', `${(100 * value) / scale}%`);
    cell.classList.toggle('nbp-unrecorded', this.part.bars.includes(key) && 2 * this.part.columns.unrecorded_ns?.[i] > value);
    if (unit === 'ns') cell.title = `${formatShare(value / scale)} of the line that takes most`;
  }

  /**
   * The time of a line in groups of steps, as bars.
   * @param {number} i
   */
  trendOf(i) {
    const {columns, steps} = this.part,
      values = Array.from({length: steps}, (_, k) => columns.trend[i * steps + k]),
      most = Math.max(...values),
      cell = document.createElement('td');
    cell.className = 'nbp-trend';
    if (!(most > 0)) return cell;
    const bars = textElement('span', '', values.map((value) => barOf(value / most)).join(''));
    bars.setAttribute('aria-hidden', 'true');
    cell.append(bars);
    cell.title = `${cellText(Math.min(...values), 'ns')} to ${cellText(most, 'ns')} a step`;
    return cell;
  }

  /** How many cells a row has. */
  width() {
    return this.part.heads.length + (this.part.steps ? 1 : 0);
  }

  /**
   * A row that tells how many lines are left out before a line.
   * @param {number} i
   */
  gapBefore(i) {
    const {line} = this.part.columns,
      left = line[i] - (i ? line[i - 1] : 0) - 1;
    if (left < 1) return [];
    const row = document.createElement('tr'),
      cell = document.createElement('td');
    cell.colSpan = this.width();
    cell.textContent = `⋯ ${formatCount(left)} ${left === 1 ? 'line' : 'lines'}`;
    row.className = 'nbp-source-gap';
    row.append(cell);
    return [row];
  }

  /**
   * Scroll to the line that takes most, if it is out of sight: setup and imports may fill the box.
   * @param {HTMLElement} box
   */
  reveal(box) {
    const {total_ns: total} = this.part.columns,
      hottest = total ? this.items[Array.from(total).indexOf(this.most.total_ns)] : undefined;
    if (!hottest) return;
    const [row, frame] = [hottest.el.getBoundingClientRect(), box.getBoundingClientRect()];
    if (row.bottom > frame.bottom) box.scrollTop += row.top - frame.top - frame.height / 2;
  }

  /** Below a line that waits: for what, as the headline tells it. */
  explain() {
    const told = this.ctx.because?.(),
      of = told && this.items.find(({select}) => select?.line?.[0] === told.line);
    this.why.hidden = !of;
    if (!told || !of) return;
    this.why.cells[0].replaceChildren(...told.parts);
    of.el.after(this.why);
  }

  /** Mark anew what is selected. */
  redraw() {
    this.explain();
    const state = this.ctx.store.get();
    for (const {el, select} of this.items) el.setAttribute('aria-selected', String(select !== null && isPicked(state, select)));
    const marked = this.items.filter((_, i) => this.markBefore(i, state)).length;
    this.element.classList.toggle('nbp-compared', marked > 0);
    this.note.textContent = `${this.extent()}${marked ? ' · lines in self: the run before' : ''}`;
  }

  /**
   * Mark behind the own time of a line what it was in the run before; gives whether that is known.
   * @param {number} i
   * @param {SelectionState} state
   */
  markBefore(i, state) {
    const {el, select} = this.items[i],
      cell = /** @type {HTMLElement | null} */ (el.querySelector('.nbp-share-cell[data-key="self_ns"]')),
      before = cell && lineBefore(this.ctx.before, select?.line?.[0], state);
    if (!cell) return false;
    cell.classList.toggle('nbp-before', before !== null);
    const share = (parseFloat(cell.style.getPropertyValue('--nbp-share')) / 100) * (before?.ratio ?? 0);
    cell.style.setProperty('--nbp-before', String(Math.min(1, share)));
    cell.title = [cell.title.split('\n')[0], ...(before ? [before.words] : [])].join('\n');
    return before !== null;
  }

  /**
   * Mark the line that what is under the pointer ran for.
   * @param {string} line
   */
  hover(line) {
    for (const {el, select} of this.items) el.classList.toggle('nbp-lit', Boolean(line) && select?.line?.[0] === line);
  }
}

/** @param {ArrayLike<number> | undefined} values */
function highest(values) {
  let most = 0;
  for (let i = 0; i < (values?.length ?? 0); i++) most = Math.max(most, values?.[i] || 0);
  return most;
}
