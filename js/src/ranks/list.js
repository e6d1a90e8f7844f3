// Below the figures of the ranks: the button that opens timelines, sets of ranks, and the table.
import {activeElement, element} from '../shared/elements.js';
import {formatCount, formatNumbers} from '../shared/units.js';

const MOST_TIMELINES = 32;

/** The bar and the table of the ranks. */
export class RankList {
  /**
   * @param {RankContext} ctx
   * @param {HTMLElement} box
   */
  constructor(ctx, box) {
    const {settings, store} = ctx;
    this.ctx = ctx;
    const bar = element('div', 'nbp-rank-bar', box);
    this.button = element('button', '', bar);
    const sets = element('span', 'nbp-rank-sets', bar),
      hint = element('span', 'nbp-hint', bar);
    this.table = element('table', '', element('div', 'nbp-rank-scroll', box));
    this.button.addEventListener('click', () => ctx.open(store.get().rank));
    for (const [label, why, ranks] of settings.groups) {
      const set = element('button', '', sets);
      set.textContent = label;
      set.title = why;
      set.addEventListener('click', () => store.set({rank: ranks}, 'groups'));
    }
    // a report holds the timelines of some ranks, or of none; a kernel reads those of all
    this.inFile = settings.timelines;
    this.hasTimelines = !this.inFile || this.inFile.ranks.length > 0;
    this.button.hidden = !this.hasTimelines;
    if (this.inFile?.note) element('div', 'nbp-notice', box).textContent = this.inFile.note;
    hint.textContent = `click or drag in any figure: select · Ctrl adds${this.hasTimelines ? ' · double click: open the timeline' : ''}`;
    if (this.inFile) hint.textContent += ' · figures and table stay as they are: in a notebook, read_ranks(…) shows what is selected';
  }

  drawBar() {
    const {button, inFile} = this,
      chosen = this.ctx.store.get().rank,
      held = chosen?.filter((rank) => !inFile || inFile.ranks.includes(rank)),
      ranks = held?.length ? held : null;
    button.textContent = ranks ? `Open ${ranks.length === 1 ? 'the timeline' : 'timelines'} of rank ${formatNumbers(ranks)}` : 'Open timelines';
    button.disabled = !ranks || ranks.length > MOST_TIMELINES;
    button.title = ranks ? 'stack them on one aligned axis' : chosen ? 'the timeline is not in this file' : 'select ranks first';
    const lines = /** @type {NodeListOf<HTMLElement>} */ (this.table.querySelectorAll('tr[data-rank]'));
    for (const row of lines) row.setAttribute('aria-selected', String((chosen ?? []).includes(Number(row.dataset.rank))));
  }

  /** @param {RankTable} rows */
  drawTable({heads, ranks, rows, more}) {
    const {table} = this,
      line = document.createElement('tr');
    for (const text of ['rank', ...heads]) element('th', '', line).textContent = text;
    const held = table.contains(activeElement()) ? activeElement()?.dataset.rank : null;
    table.replaceChildren(line, ...ranks.map((rank, i) => this.rowOf(rank, rows[i])));
    if (more > 0) element('td', '', element('tr', '', table)).textContent = `and ${formatCount(more)} more`;
    if (held != null) /** @type {HTMLElement | null} */ (table.querySelector(`tr[data-rank="${held}"]`))?.focus({preventScroll: true});
    this.drawBar();
  }

  /**
   * @param {number} rank
   * @param {string[]} texts
   */
  rowOf(rank, texts) {
    const {ctx} = this,
      row = document.createElement('tr');
    row.dataset.rank = String(rank);
    row.tabIndex = 0;
    for (const text of [String(rank), ...texts]) element('td', '', row).textContent = text;
    row.addEventListener('click', (event) => this.pick(rank, event.ctrlKey || event.metaKey || event.shiftKey));
    row.addEventListener('dblclick', () => ctx.open([rank]));
    row.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' && event.key !== ' ') return;
      event.preventDefault();
      if (event.key === 'Enter') ctx.open([rank]);
      else this.pick(rank, event.ctrlKey || event.shiftKey);
    });
    return row;
  }

  /**
   * @param {number} rank
   * @param {boolean} extend
   */
  pick(rank, extend) {
    const {store} = this.ctx,
      now = store.get().rank ?? [],
      next = now.includes(rank) ? now.filter((r) => r !== rank) : extend ? [...now, rank].sort((a, b) => a - b) : [rank];
    store.set({rank: next.length ? next : null}, 'rank table');
  }
}
