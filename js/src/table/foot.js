// Below the operator table: how many rows there are, and the buttons that bring more.
import {formatCount} from '../shared/units.js';
import {MORE_ROWS, PAGE_ROWS} from './columns.js';

/** The line below the table. */
export class TableFoot {
  box = document.createElement('div');
  drawn = '';

  /** @param {import('./table.js').Table} table */
  constructor(table) {
    this.table = table;
    this.box.className = 'nbp-table-foot';
  }

  /** @param {TableAnswer} answer */
  draw(answer) {
    const {state} = this.table,
      {label, rows, start} = answer,
      key = [rows, start, label.length, state.filter, state.top, state.waits, answer.waits, Boolean(answer.estimate)].join('\n');
    if (key === this.drawn) return;
    this.drawn = key;
    const {box} = this,
      hidden = rows - start - label.length;
    box.replaceChildren(
      rows
        ? `${formatCount(rows)} ${rows === 1 ? 'row' : 'rows'}`
        : state.filter
          ? 'no row passes the filter'
          : 'nothing is selected by the other views',
    );
    if (!state.waits && answer.waits) box.append(` · ${formatCount(answer.waits)} that wait hidden`);
    if (answer.estimate) box.append(' · ≈ estimates: many slices are in this file as sums only');
    if (start || hidden > 0) box.append(` · ${formatCount(start + 1)} – ${formatCount(start + label.length)}`);
    if (start) this.turn('‹ before', () => ({start: Math.max(0, state.start - PAGE_ROWS)}));
    if (hidden > 0 && state.top < PAGE_ROWS)
      this.turn(`show ${Math.min(hidden, MORE_ROWS)} more`, () => ({top: Math.min(PAGE_ROWS, state.top + MORE_ROWS)}));
    else if (hidden > 0) this.turn('after ›', () => ({start: state.start + PAGE_ROWS}));
  }

  /**
   * Add a button that asks for other rows.
   * @param {string} text
   * @param {() => Partial<TableRequest>} change
   */
  turn(text, change) {
    const {table} = this,
      button = document.createElement('button');
    button.textContent = text;
    button.addEventListener('click', () => {
      const from = table.state.start;
      table.ask(change());
      if (table.state.start !== from) table.scroll.scrollTop = 0;
    });
    this.box.append(button);
  }
}
