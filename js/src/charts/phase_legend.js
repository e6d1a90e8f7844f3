// The legend of the phases: a button each, with its share of the steps shown.
import {textElement} from '../shared/elements.js';
import {Roving} from '../shared/roving.js';
import {formatShare, formatTime} from '../shared/units.js';

/** Buttons that select phases. */
export class PhaseLegend {
  /** @type {{item: HTMLButtonElement, share: HTMLElement}[]} */ items = [];

  /**
   * @param {Context} ctx
   * @param {HTMLElement} box
   */
  constructor(ctx, box) {
    this.ctx = ctx;
    this.box = box;
    this.roving = new Roving(box, '.nbp-legend-item');
  }

  /** @param {string} name */
  item(name) {
    const item = document.createElement('button'),
      swatch = document.createElement('i'),
      share = textElement('span', 'nbp-share', '');
    item.className = 'nbp-legend-item';
    item.dataset.phase = name;
    swatch.style.background = this.ctx.meta.colours.phase[name];
    item.append(swatch, name, share);
    item.addEventListener('click', () => this.toggle(name));
    return {item, share};
  }

  /**
   * Write the shares of the bars that are lit.
   * @param {PhasesAnswer} answer
   * @param {(i: number) => boolean} isLit
   */
  show({data, bars, phases}, isLit) {
    const cells = phases.length,
      active = this.ctx.store.get().phase;
    const sums = phases.map((_, k) => {
      let sum = 0;
      for (let i = 0; i < bars; i++) if (isLit(i)) sum += data.total[i * cells + k];
      return sum;
    });
    const all = Math.max(
      1,
      sums.reduce((p, q) => p + q, 0),
    );
    if (this.items.length !== cells) {
      this.items = phases.map((name) => this.item(name));
      this.box.replaceChildren(...this.items.map(({item}) => item));
    }
    this.items.forEach(({item, share}, k) => {
      item.setAttribute('aria-pressed', String(active?.includes(phases[k]) ?? false));
      item.classList.toggle('nbp-absent', !sums[k]);
      share.textContent = formatShare(sums[k] / all);
      item.title = `select the phase ${phases[k]}: ${formatTime(sums[k])} in the steps shown`;
    });
    this.roving.settle();
  }

  /** @param {string} name */
  toggle(name) {
    const {store} = this.ctx,
      now = store.get().phase ?? [],
      next = now.includes(name) ? now.filter((v) => v !== name) : [...now, name];
    store.set({phase: next.length ? next : null}, 'phases');
  }
}
