// What is selected in numbers: in a window both sides' self times, else the difference of a mean step.
import {columnsOf} from '../shared/packing.js';
import {formatCount, formatDelta, formatTime} from '../shared/units.js';

/**
 * A difference of mean steps; where one of its parts may be noise it may be, too.
 * @param {number[]} deltas
 * @param {boolean[]} sure
 * @param {string} words the heading of differences, such as "Δ a step"
 */
export function deltaText(deltas, sure, words) {
  const sum = deltas.reduce((all, one) => all + one, 0);
  return deltas.length ? words.replace('Δ', `Δ ${sure.every(Boolean) ? '' : '≈ '}${formatDelta(sum)}`) : '';
}

/** The sentence at the end of the line of the selection. */
export class Totals {
  /** @type {ComparedAnswer | null} */ answer = null;
  turn = 0;

  /**
   * @param {import('./page.js').ComparisonPage} page
   * @param {HTMLElement} box
   */
  constructor(page, box) {
    this.page = page;
    this.box = box;
  }

  /** @param {ComparedAnswer} answer */
  take(answer) {
    this.answer = answer;
    this.draw();
  }

  draw() {
    const mine = ++this.turn;
    if (!this.page.store.get().window) {
      this.box.textContent = this.meanStep();
      return;
    }
    this.inWindow().then(
      (text) => {
        if (mine === this.turn) this.box.textContent = text;
      },
      () => {}, // a side that does not answer says so itself
    );
  }

  /** The difference of a mean step in the rows that are selected, of the host; nothing where no table has them. */
  meanStep() {
    const {answer, page} = this,
      {name, phase, line, category} = page.store.get();
    if (!answer || category) return '';
    if (line) {
      const rows = answer.source.filter((row) => row.line !== null && line.includes(row.line));
      return deltaText(rows.map((row) => row.delta_ns ?? 0), rows.map((row) => row.sure), page.settings.delta);
    }
    if (phase && !name) {
      const rows = answer.phases.filter((row) => phase.includes(row.phase));
      return deltaText(rows.map((row) => row.delta_ns), rows.map((row) => row.sure), page.settings.delta);
    }
    if (!name) return '';
    for (const [i, part] of answer.parts.entries()) {
      if (part.kind !== 'table' || !part.texts.name) continue;
      const {delta_ns: delta} = columnsOf(answer.data, i),
        rows = Array.from(delta, (_, row) => row).filter((row) => name.includes(part.texts.name[row]) && (!phase || !part.texts.phase || phase.includes(part.texts.phase[row])));
      if (rows.length) return deltaText(rows.map((row) => delta[row]), rows.map((row) => part.texts.change[row] !== '≈'), page.settings.delta);
    }
    return '';
  }

  /** Both sides' self time in the window. */
  async inWindow() {
    const {sides, settings} = this.page,
      [a, b] = await Promise.all(
        sides.map(({asker}) => asker.ask({t: 'table', by: 'name', scope: 'all', filter: '', sort: 'self_ns', waits: true, start: 0, top: 1})),
      );
    const words = [a, b].map(({count, self_ns: self}, i) => `${settings.names[i]} ${formatCount(count)} × ${formatTime(self)}`);
    return `${words.join(' · ')} · Δ ${formatDelta(b.self_ns - a.self_ns)} self time`;
  }

  close() {
    this.turn = -1;
  }
}
