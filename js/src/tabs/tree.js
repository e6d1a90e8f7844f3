// A table whose rows are opened and closed: a call tree. Rows that are closed are not in the page.
import {codeOfPart} from '../page/copying.js';
import {activeElement, textElement} from '../shared/elements.js';
import {mergedName} from '../shared/merged_names.js';
import {formatCount, formatTimeCell} from '../shared/units.js';
import {frameOf} from './stack.js';
import {cellText} from './table.js';
import {TreeRows} from './tree_rows.js';

/** @type {Record<string, number>} */
const LINES_OF_KEY = {ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9};

/**
 * What somebody has opened (true) and closed (false) on a page, by path: the next answer shows it so too.
 * @type {WeakMap<object, Map<string, boolean>>}
 */
const toggled = new WeakMap();

/** @typedef {import('./tree_rows.js').TreeLine & {el: HTMLElement}} ShownLine */

/** A tree of a tab. */
export class TreeView {
  body = document.createElement('tbody');
  /** @type {ShownLine[]} */ lines = [];
  /** @type {Map<string, HTMLElement>} rows that were made */ made = new Map();
  /** @type {string} the line that the Tab key reaches */ at = '';
  /** @type {number | null} */ chosen = null;

  /**
   * @param {Context} ctx
   * @param {ShownTree} part
   * @param {import('./walk.js').Pick} pick
   * @param {import('./stack.js').StackView | null} stack
   */
  constructor(ctx, part, pick, stack) {
    const {columns, title, weight, more_roots: moreRoots} = part;
    this.ctx = ctx;
    this.part = part;
    this.pick = pick;
    this.stack = stack;
    this.upwards = part.call.startsWith('p.bottom_up'); // what is below a row has called it
    this.names = part.texts.name;
    this.weights = columns[weight];
    this.rows = new TreeRows(/** @type {any} */ (columns), moreRoots[0]);
    this.largest = Math.max(1e-9, ...(columns.share ?? []));
    /** @type {Map<string, string[]>} names of slices by the name of their rows */
    this.members = new Map();
    this.memory = toggled.get(ctx) ?? new Map();
    toggled.set(ctx, this.memory);
    this.element = textElement('div', 'nbp-part-table nbp-tree', '');
    this.element.append(this.grid(title || 'calls'), this.foot());
    this.openRows();
    this.draw();
    this.redraw();
    this.listen();
  }

  /** @param {string} label */
  grid(label) {
    const scroll = textElement('div', 'nbp-part-scroll', ''),
      grid = document.createElement('table'),
      head = document.createElement('thead'),
      row = document.createElement('tr');
    grid.setAttribute('role', 'treegrid');
    grid.setAttribute('aria-label', label);
    for (const [key, text] of this.heads()) {
      const cell = textElement('th', key === 'name' ? 'nbp-tree-name' : 'nbp-number', text);
      cell.setAttribute('scope', 'col');
      cell.dataset.key = key;
      row.append(cell);
    }
    head.append(row);
    grid.append(head, this.body);
    scroll.append(grid);
    return scroll;
  }

  heads() {
    return this.part.heads.filter(([key]) => key !== 'category');
  }

  foot() {
    const {size, rows, call} = this.part,
      foot = textElement('div', 'nbp-part-foot', size < rows ? `the ${formatCount(size)} heaviest of ${formatCount(rows)} paths · ` : '');
    foot.append('in Python: ', textElement('code', '', call));
    return foot;
  }

  /**
   * Names from the outermost row on.
   * @param {number} row
   */
  pathOf(row) {
    const path = [String(this.upwards)];
    for (let at = row; at >= 0; at = this.rows.parent[at]) path.push(this.names[at]);
    return path.join('\n');
  }

  /** Open what is worth opening, what was opened before, and what leads to the selected name. */
  openRows() {
    const {rows, memory, weights} = this;
    if (!this.upwards) rows.openTrunk(weights);
    if (memory.size)
      for (let row = 0; row < rows.below.length; row++) {
        const before = rows.canOpen(row) ? memory.get(this.pathOf(row)) : undefined;
        if (before) rows.open.add(row);
        else if (before === false) rows.open.delete(row);
      }
    this.chosen = this.heaviestPicked();
    if (this.chosen !== null) rows.openTo(this.chosen);
  }

  /**
   * What a click on a row selects: slices of its name; of all steps as one row, those of every step.
   * @param {number} row
   */
  namesOf(row) {
    const name = this.names[row];
    if (!this.part.texts.category?.[row]) return null; // a thread
    const names = this.members.get(name) ?? (/Step[*]$|>$/.test(name) ? this.ctx.meta.nameList.filter((one) => mergedName(one) === name) : [name]);
    this.members.set(name, names);
    return names;
  }

  /** @param {number} row */
  isPicked(row) {
    const {name} = this.ctx.store.get();
    return Boolean(name?.length) && Boolean(this.namesOf(row)?.every((one) => name?.includes(one)));
  }

  /** The heaviest row of what is selected. */
  heaviestPicked() {
    if (!this.ctx.store.get().name) return null;
    return this.rows.heaviest(
      Array.from(this.names, (_, row) => row).filter((row) => this.isPicked(row)),
      this.weights,
    );
  }

  /** Write the rows that are shown; those that were there stay. */
  draw() {
    this.lines = this.rows.lines().map((line) => {
      const key = `${line.more ? 'more' : 'row'} ${line.row}`;
      let el = this.made.get(key);
      if (!el) this.made.set(key, (el = line.more ? this.moreOf(line.row) : this.rowOf(line.row)));
      el.dataset.line = key;
      return {...line, el};
    });
    const focused = activeElement();
    this.body.replaceChildren(...this.lines.map(({el}) => el));
    if (focused && this.body.contains(focused)) focused.focus();
    if (!this.lines.some(({el}) => el.dataset.line === this.at)) this.at = this.lines[0]?.el.dataset.line ?? '';
    for (const {el, row, more} of this.lines) {
      el.tabIndex = el.dataset.line === this.at ? 0 : -1;
      if (more || !this.rows.canOpen(row)) continue;
      const isOpen = this.rows.open.has(row);
      el.setAttribute('aria-expanded', String(isOpen));
      const mark = el.querySelector('.nbp-tree-mark');
      if (mark) mark.textContent = isOpen ? '▾' : '▸';
    }
  }

  /** @param {number} row */
  rowOf(row) {
    const {columns, names} = this.part,
      el = document.createElement('tr');
    el.setAttribute('aria-level', String(columns.depth[row] + 1));
    for (const [key, , unit] of this.heads()) {
      const cell = document.createElement('td');
      cell.dataset.key = key;
      if (key === 'name') {
        cell.className = 'nbp-tree-name';
        cell.title = this.names[row];
        cell.append(this.nameOf(row, names.name?.labels[row] ?? this.names[row], names.name?.colours[row] ?? ''));
      } else {
        cell.className = 'nbp-number';
        const value = columns[key][row];
        cell.textContent = value || unit === 'share' ? cellText(value, unit) : '';
        cell.dataset.pandas = codeOfPart(this.part, row, key);
        if (unit === 'share') {
          cell.classList.add('nbp-share-cell');
          cell.style.setProperty('--nbp-share', `${(100 * value) / this.largest}%`);
        }
      }
      el.append(cell);
    }
    el.classList.toggle('nbp-pickable', this.namesOf(row) !== null);
    return el;
  }

  /**
   * @param {number} row
   * @param {string} label
   * @param {string} colour
   */
  nameOf(row, label, colour) {
    const line = textElement('div', '', ''),
      mark = textElement('span', 'nbp-tree-mark', ''),
      swatch = textElement('i', 'nbp-swatch', '');
    mark.setAttribute('aria-hidden', 'true');
    if (/^#[0-9a-f]{6}$/i.test(colour)) swatch.style.background = colour;
    line.style.setProperty('--nbp-depth', String(this.part.columns.depth[row]));
    line.append(mark, swatch, textElement('span', 'nbp-tree-label', label));
    return line;
  }

  /**
   * A row that says what was left out below another, or of the roots.
   * @param {number} up
   */
  moreOf(up) {
    const {columns, more_roots: [roots, took], weight, heads} = this.part,
      [count, spent] = up < 0 ? [roots, took] : [columns.more[up], columns.more_weight[up]],
      el = document.createElement('tr'),
      cell = document.createElement('td'),
      line = textElement('div', '', ''),
      what = heads.find(([key]) => key === weight)?.[1] ?? '';
    el.className = 'nbp-tree-more';
    el.setAttribute('aria-level', String(up < 0 ? 1 : columns.depth[up] + 2));
    cell.colSpan = this.heads().length;
    line.style.setProperty('--nbp-depth', String(up < 0 ? 0 : columns.depth[up] + 1));
    line.append(textElement('span', 'nbp-tree-label', `${formatCount(count)} more, ${what} ${formatTimeCell(spent)}`));
    cell.append(line);
    el.append(cell);
    return el;
  }

  listen() {
    this.body.addEventListener('click', (event) => {
      const target = /** @type {HTMLElement} */ (event.target),
        line = this.lineOf(target);
      if (!line || line.more || String(getSelection())) return;
      this.reach(line, false);
      if (target.closest('.nbp-tree-mark') && this.rows.canOpen(line.row)) this.toggle(line.row, !this.rows.open.has(line.row));
      else this.choose(line.row);
    });
    this.body.addEventListener('keydown', (event) => this.keyed(event));
    this.body.addEventListener('focusin', (event) => {
      const line = this.lineOf(/** @type {HTMLElement} */ (event.target));
      if (line && !line.more) this.stackOf(line.row);
    });
  }

  /** @param {HTMLElement} target */
  lineOf(target) {
    const el = target.closest('tr');
    return this.lines.find((line) => line.el === el);
  }

  /** @param {number} row */
  choose(row) {
    const names = this.namesOf(row);
    this.chosen = row;
    if (names) this.pick({name: names});
  }

  /**
   * @param {number} row
   * @param {boolean} open
   */
  toggle(row, open) {
    if (open) this.rows.open.add(row);
    else this.rows.open.delete(row);
    this.memory.set(this.pathOf(row), open);
    this.draw();
    this.mark();
  }

  /**
   * @param {ShownLine} line
   * @param {boolean} focus
   */
  reach(line, focus = true) {
    const before = this.made.get(this.at);
    if (before) before.tabIndex = -1;
    this.at = line.el.dataset.line ?? '';
    line.el.tabIndex = 0;
    if (focus) line.el.focus();
  }

  /** @param {KeyboardEvent} event */
  keyed(event) {
    const {key} = event,
      at = this.lines.findIndex(({el}) => el === event.target),
      line = this.lines[at],
      by = LINES_OF_KEY[key];
    if (!line || event.altKey || event.ctrlKey || event.metaKey) return;
    if (by) this.reach(this.lines[Math.max(0, Math.min(this.lines.length - 1, at + by))]);
    else if (key === 'ArrowRight' || key === 'ArrowLeft') this.sideways(line, key);
    else if (key === 'Enter' || key === ' ') {
      if (!line.more) this.choose(line.row);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /**
   * @param {ShownLine} line
   * @param {'ArrowRight' | 'ArrowLeft'} key
   */
  sideways(line, key) {
    const {open, go} = line.more ? {open: undefined, go: key === 'ArrowLeft' && line.row >= 0 ? line.row : undefined} : this.rows.arrow(line.row, key);
    if (open !== undefined) this.toggle(line.row, open);
    const next = go === undefined ? null : this.lines.find(({row, more}) => row === go && !more);
    if (next) this.reach(next);
  }

  /**
   * Show the heaviest stack through a row; none: of all that is selected.
   * @param {number | null} row
   */
  stackOf(row) {
    if (!this.stack) return;
    if (row === null) {
      this.stack.reset();
      return;
    }
    const path = this.rows.pathThrough(row, this.weights);
    if (this.upwards) path.reverse();
    const frames = path.map((at) => frameOf(this.part, at, this.part.weight, at === row));
    this.stack.show(frames, this.part.names.name?.labels[row] ?? this.names[row]);
  }

  mark() {
    for (const {el, row, more} of this.lines) if (!more) el.setAttribute('aria-selected', String(this.isPicked(row)));
  }

  /** Mark anew what is selected. */
  redraw() {
    this.mark();
    if (this.chosen === null || !this.isPicked(this.chosen)) this.chosen = this.heaviestPicked();
    this.stackOf(this.chosen);
  }
}
