// The operator table: plain HTML (a grid that screen readers know), sorted and filtered where the data are.
import {activeElement, targetOf, textElement} from '../shared/elements.js';
import {Roving} from '../shared/roving.js';
import {scrollWithFocus} from '../shared/scrolling.js';
import {DIMENSIONS} from '../shared/store.js';
import {mergedName} from '../shared/merged_names.js';
import {codeOfCell} from '../page/copying.js';
import {FIRST_TABLE} from '../page/opening.js';
import {COLUMNS, FIRST_ROWS, GROUP_TEXTS, NO_NAME, SHARES} from './columns.js';
import {TableFoot} from './foot.js';
import {TableRow} from './row.js';
import {SumRow} from './sum.js';

/** @type {Record<string, number>} */
const ROWS_OF_KEY = {ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9};
const HALF = /(^|\s)\w+(!?=|[<>]=?)$/; // a condition that is being typed filters nothing yet
const TYPING_MS = 30; // the next question waits for the answer to the last one anyway

/**
 * @param {string} label
 * @param {string[][]} choices value and text
 * @param {(value: string) => void} changed
 */
function select(label, choices, changed) {
  const box = document.createElement('select');
  box.setAttribute('aria-label', label);
  for (const [value, text] of choices) box.add(new Option(text, value));
  box.addEventListener('change', () => changed(box.value));
  return box;
}

/**
 * The largest value of a column.
 * @param {TableAnswer} answer
 * @param {import('./columns.js').TableColumn} column
 */
const highest = (answer, column) => answer.label.reduce((most, _, i) => Math.max(most, column.value(answer, i) ?? 0), 1e-9);

/** The table of operators, with its choices above and the number of its rows below. */
export class Table {
  state = {...FIRST_TABLE};
  /** @type {TableAnswer | null} */ last = null;
  /** @type {TableRow[]} */ rows = [];
  typing = 0;
  headed = '';
  filter = document.createElement('input');
  waits = document.createElement('button');
  problem = textElement('div', 'nbp-problem', '');
  scroll = textElement('div', 'nbp-table-scroll', '');
  headRow = document.createElement('tr');
  /** @type {Roving | null} */ roving = null;
  thead = document.createElement('thead');
  body = document.createElement('tbody');
  sum = new SumRow();

  /**
   * @param {Context} ctx
   * @param {HTMLElement} section
   */
  constructor(ctx, section) {
    this.ctx = ctx;
    this.columns = COLUMNS.filter((column) => column.sort !== 'device_ns' || ctx.meta.device);
    this.channel = ctx.asker.channel(
      () => ({t: 'table', ...this.state}),
      (answer) => {
        this.last = answer;
        this.draw(answer);
        this.told(answer);
      },
      (error) => ctx.trouble(error),
      DIMENSIONS,
      (act) => ctx.host.frames.turn(act), // the table may be there before the figures
    );
    this.foot = new TableFoot(this);
    const title = textElement('strong', '', ctx.settings.tabs?.find((tab) => tab.name === 'operators')?.title ?? 'Operators');
    section.append(this.head(title), this.problem, this.grid(title.textContent ?? ''), this.foot.box);
    this.listen();
    scrollWithFocus(this.scroll, () => this.scroll.contains(activeElement()));
  }

  /** @param {HTMLElement} title */
  head(title) {
    const {meta} = this.ctx,
      {filter} = this,
      head = textElement('div', 'nbp-panel-head', '');
    head.append(
      title,
      select(
        'group by',
        meta.groupings.map((key) => [key, `by ${GROUP_TEXTS[key]}`]),
        (value) => this.ask({by: /** @type {Grouping} */ (value), top: FIRST_ROWS, start: 0}),
      ),
    );
    if (meta.device)
      head.append(
        select(
          'where',
          [
            ['all', 'host and device'],
            ['host', 'host'],
            ['device', 'device'],
          ],
          (value) => {
            const scope = /** @type {TableRequest['scope']} */ (value);
            this.ask({scope, sort: 'self_ns', by_side: false, descending: true, start: 0});
          },
        ),
      );
    this.waits.textContent = 'waits';
    this.waits.title = 'show calls that only wait: synchronisation, locks, sockets, sleep';
    this.waits.setAttribute('aria-pressed', 'true');
    this.waits.addEventListener('click', () => {
      this.waits.setAttribute('aria-pressed', String(!this.state.waits));
      this.ask({waits: !this.state.waits, start: 0});
    });
    head.append(this.waits);
    filter.type = 'search';
    filter.placeholder = 'filter: conv, /mm|conv/, self>1ms, step=3:7';
    filter.setAttribute('aria-label', 'filter rows');
    filter.addEventListener('input', () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.ask({filter: filter.value.replace(HALF, ''), top: FIRST_ROWS, start: 0}), TYPING_MS);
    });
    head.append(filter);
    this.problem.setAttribute('role', 'alert');
    new Roving(head, 'select, input, button');
    return head;
  }

  /** @param {string} title */
  grid(title) {
    const {thead, scroll} = this,
      grid = document.createElement('table');
    grid.setAttribute('role', 'grid');
    grid.setAttribute('aria-label', title.toLowerCase());
    grid.setAttribute('aria-multiselectable', 'true');
    thead.append(this.headRow);
    grid.append(thead, this.body, this.sum.foot);
    scroll.append(grid);
    return scroll;
  }

  /**
   * Change what is asked for, and ask.
   * @param {Partial<TableRequest>} change
   */
  ask(change) {
    Object.assign(this.state, change);
    this.channel.run();
  }

  drawHeads() {
    const {state} = this,
      key = [state.by, state.sort, state.descending, state.by_side].join();
    if (key === this.headed) return;
    this.headed = key;
    this.headRow.replaceChildren(...this.columns.map((column) => this.headOf(column)));
    this.roving ??= new Roving(this.headRow, 'button');
    this.roving.settle();
  }

  /** @param {import('./columns.js').TableColumn} column */
  headOf(column) {
    const {state} = this,
      cell = document.createElement('th'),
      button = document.createElement('button'),
      key = column.sort,
      active = state.sort === key && !SHARES.has(column.key);
    cell.scope = 'col';
    cell.className = column.key !== 'label' ? `nbp-number nbp-col-${column.key}` : '';
    cell.setAttribute('aria-sort', active ? (state.descending ? 'descending' : 'ascending') : 'none');
    button.textContent = `${column.key === 'label' ? GROUP_TEXTS[state.by] : column.text}${active ? (state.descending ? ' ▾' : ' ▴') : ''}`;
    if (column.title) button.title = column.title;
    button.dataset.sort = key;
    button.addEventListener('click', () => {
      // at first by own time, wherever it was spent; a column that was chosen sorts by what it shows
      const again = state.sort === key && (state.by_side || !this.ctx.meta.device);
      this.ask({start: 0, sort: key, by_side: this.ctx.meta.device, descending: again ? !state.descending : column.key !== 'label'});
    });
    cell.append(button);
    return cell;
  }

  /**
   * What a click on a row selects.
   * @param {TableAnswer} answer
   * @param {number} row
   * @returns {{dimension: 'category' | 'name', values: string[]} | null}
   */
  clauseOf({by, label, data}, row) {
    if (by === 'category') return {dimension: 'category', values: [label[row]]};
    if (data.name[row] === NO_NAME) return null;
    const {nameList} = this.ctx.meta,
      whole = this.ctx.nameOf(data.name[row]);
    return {dimension: 'name', values: whole === label[row] ? [whole] : nameList.filter((name) => mergedName(name) === label[row])};
  }

  /**
   * What is chosen shows at once, before the kernel has answered.
   * @param {TableAnswer} answer
   * @param {HTMLElement} row
   * @param {number} i
   */
  mark(answer, row, i) {
    const state = this.ctx.store.get(),
      clause = this.clauseOf(answer, i),
      chosen = clause !== null && clause.values.every((value) => (state[clause.dimension] ?? []).includes(value)),
      any = Boolean(state.name || state.category);
    if (row.getAttribute('aria-selected') !== String(chosen)) row.setAttribute('aria-selected', String(chosen));
    row.classList.toggle('nbp-unchosen', any && !chosen && answer.by !== 'module');
  }

  /**
   * Rows stay and only what has changed in them is written: a table made anew costs the page 15 ms of styles and layout.
   * @param {TableAnswer} answer
   */
  draw(answer) {
    this.drawHeads();
    const {body, rows, problem} = this,
      {label} = answer,
      most = new Map(this.columns.filter(({key}) => SHARES.has(key)).map((column) => [column.key, highest(answer, column)]));
    const focused = body.contains(activeElement()) ? (activeElement()?.dataset.name ?? '') : null;
    while (rows.length < label.length) {
      const made = new TableRow(this.ctx, this.columns);
      rows.push(made);
      body.append(made.row);
    }
    for (const {row} of rows.splice(label.length)) row.remove();
    rows.forEach((one, i) => {
      one.fill(answer, i, most);
      this.mark(answer, one.row, i);
    });
    let reached = 0;
    if (focused !== null) {
      // who walks the rows by keyboard must not be thrown out by fresh data
      reached = Math.max(0, label.indexOf(focused));
      const again = rows[reached]?.row;
      if (again && again !== activeElement()) again.focus({preventScroll: true});
    }
    rows.forEach(({row}, i) => {
      if (row.tabIndex !== (i === reached ? 0 : -1)) row.tabIndex = i === reached ? 0 : -1;
    });
    this.sum.draw(answer, this.columns);
    this.waits.hidden = !answer.waits;
    problem.textContent = answer.error;
    problem.hidden = !answer.error;
    this.foot.draw(answer);
  }

  /**
   * @param {number} row
   * @param {boolean} extend
   */
  choose(row, extend) {
    const {ctx, last} = this,
      clause = last && this.clauseOf(last, row);
    if (!clause) {
      ctx.hint('modules are shown, not selected: click the names inside');
      return;
    }
    const now = ctx.store.get()[clause.dimension] ?? [];
    const {values} = clause;
    const next = values.every((value) => now.includes(value))
      ? now.filter((value) => !values.includes(value))
      : extend
        ? [...new Set([...now, ...values])]
        : values;
    ctx.store.set({[clause.dimension]: next.length ? next : null}, 'table');
  }

  listen() {
    const {body} = this;
    const rowOf = (/** @type {Event} */ event) => {
      const row = targetOf(event).closest('tbody tr');
      return row ? [...body.children].indexOf(row) : -1;
    };
    body.addEventListener('click', (event) => {
      const i = rowOf(event);
      if (i >= 0) this.choose(i, event.ctrlKey || event.metaKey || event.shiftKey);
    });
    body.addEventListener('keydown', (event) => {
      const i = rowOf(event),
        step = ROWS_OF_KEY[event.key];
      if (i < 0) return;
      if (step) {
        const lines = /** @type {HTMLCollectionOf<HTMLElement>} */ (body.children),
          next = lines[Math.max(0, Math.min(lines.length - 1, i + step))];
        lines[i].tabIndex = -1;
        next.tabIndex = 0;
        next.focus();
      } else if (event.key === 'Enter' || event.key === ' ') this.choose(i, event.ctrlKey || event.shiftKey);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  /**
   * The code of the number in a cell; empty for none.
   * @param {Element} element
   */
  codeAt(element) {
    const {last, rows, columns, ctx} = this,
      cell = element.closest('td'),
      i = rows.findIndex(({row}) => row === cell?.parentElement);
    if (!last || !cell || i < 0 || last.data.side[i]) return '';
    const {key, value} = columns[cell.cellIndex],
      values = this.clauseOf(last, i)?.values;
    if (!values || value(last, i) === null) return '';
    return codeOfCell({by: last.by, label: last.label[i], values}, key, ctx.store.get(), ctx.meta.device);
  }

  /** @param {TableAnswer} answer */
  told(answer) {
    this.ctx.count('table');
    this.ctx.totals(answer);
  }

  /** Tell the page of an answer from before its figures were there; false where there is none. */
  adopt() {
    if (this.last) this.told(this.last);
    return this.last !== null;
  }

  refresh() {
    return this.channel.run();
  }

  /** Mark anew what is chosen. */
  redraw() {
    const {last} = this;
    if (last) this.rows.forEach(({row}, i) => this.mark(last, row, i));
  }

  /** Draw anew once it is known which names are in doubt. */
  doubted() {
    if (this.last) this.draw(this.last);
  }

  close() {
    clearTimeout(this.typing);
    this.channel.close();
  }

  focusFilter() {
    this.filter.focus();
  }

  /** Scroll to what is chosen, in the table's own box: the page stays where it is, with the timeline in sight. */
  reveal() {
    const {scroll} = this,
      row = /** @type {HTMLElement | null} */ (this.body.querySelector('[aria-selected=true]')),
      head = this.thead.offsetHeight;
    if (!row) return;
    if (row.offsetTop - head < scroll.scrollTop) scroll.scrollTop = row.offsetTop - head;
    else if (row.offsetTop + row.offsetHeight > scroll.scrollTop + scroll.clientHeight)
      scroll.scrollTop = row.offsetTop + row.offsetHeight - scroll.clientHeight;
  }

  snapshot() {
    const {last} = this,
      chosen = /** @type {NodeListOf<HTMLElement>} */ (this.body.querySelectorAll('[aria-selected=true]'));
    return {
      by: last?.by,
      rows: last?.rows ?? 0,
      labels: last?.label ?? [],
      count: last ? Array.from(last.data.count) : [],
      total: last ? last.label.map((_, i) => (last.data.side[i] ? 0 : last.data.total_ns[i])) : [],
      self: last ? Array.from(last.data.self_ns) : [],
      chosen: [...chosen].map((r) => r.dataset.name),
    };
  }
}
