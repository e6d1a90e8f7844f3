// What the colours of the timeline mean: a line below the choice of colours.
import {element, textElement} from '../shared/elements.js';
import {formatShare} from '../shared/units.js';

/** The legend of what slices are coloured by. */
export class Legend {
  more = 0;

  /**
   * @param {Context} ctx
   * @param {HTMLElement} box
   */
  constructor(ctx, box) {
    this.ctx = ctx;
    this.line = element('div', 'nbp-colour-legend', box);
    this.items = element('div', '', this.line);
    this.items.setAttribute('role', 'list');
    this.rest = element('span', '', this.line);
    this.watch = new ResizeObserver(() => this.count());
    this.watch.observe(this.line);
  }

  /** @param {Tint} tint */
  async show(tint) {
    try {
      const {items, more} = await this.ctx.asker.ask({t: 'legend', tint});
      if (tint === this.ctx.tint) this.draw(tint, items, more);
    } catch {
      this.draw(tint, [], 0); // the timeline says what is wrong
    }
  }

  /**
   * @param {Tint} tint
   * @param {[string, string, number][]} items
   * @param {number} more
   */
  draw(tint, items, more) {
    this.more = more;
    this.items.setAttribute('aria-label', `colours by ${tint}`);
    this.items.replaceChildren(
      ...items.map(([text, colour, share]) => {
        const item = textElement('span', '', text),
          swatch = document.createElement('i');
        if (/^#[0-9a-f]{6}$/i.test(colour)) swatch.style.background = colour;
        item.title = `${text}: ${formatShare(share)} of the own time of all slices`;
        item.setAttribute('role', 'listitem');
        item.prepend(swatch);
        return item;
      }),
    );
    this.count();
  }

  /** Say how many there is no room for. */
  count() {
    this.rest.textContent = '';
    const hidden = () => [...this.items.children].filter((item) => /** @type {HTMLElement} */ (item).offsetTop > 0).length;
    if (this.more + hidden() === 0) return;
    this.rest.textContent = `and ${this.more + 99} more`; // takes room itself
    this.rest.textContent = `and ${this.more + hidden()} more`;
  }

  close() {
    this.watch.disconnect();
  }
}
