// The heaviest stack beside a call tree: a path of calls, the outermost first.
import {textElement} from '../shared/elements.js';
import {formatShare, formatTimeCell} from '../shared/units.js';

/** @typedef {{name: string, label: string, colour: string, ns: number, share: number, lit: boolean}} Frame */

/** A list of frames with what each took. */
export class StackView {
  element = textElement('aside', 'nbp-stack', '');
  list = document.createElement('ol');
  foot = textElement('div', 'nbp-part-foot', 'in Python: ');

  /** @param {ShownStack} part */
  constructor(part) {
    const {title, call, size} = part;
    this.element.setAttribute('aria-label', title);
    this.heading = textElement('div', 'nbp-part-title', title);
    this.title = title;
    this.foot.append(textElement('code', '', call));
    this.element.append(this.heading, this.list, this.foot);
    this.frames = Array.from({length: size}, (_, i) => frameOf(part, i, 'total_ns'));
    this.reset();
  }

  /** Show the stack of all that is selected. */
  reset() {
    this.show(this.frames, '');
  }

  /**
   * @param {Frame[]} frames
   * @param {string} through what is written of the row that it goes through; empty for the heaviest of all
   */
  show(frames, through) {
    this.heading.textContent = through ? `${this.title} through ${through}` : this.title;
    this.heading.title = this.heading.textContent;
    this.foot.hidden = Boolean(through);
    this.list.replaceChildren(
      ...frames.map(({name, label, colour, ns, share, lit}) => {
        const item = document.createElement('li'),
          swatch = textElement('i', 'nbp-swatch', '');
        if (/^#[0-9a-f]{6}$/i.test(colour)) swatch.style.background = colour;
        item.title = `${name}\n${formatShare(share)} of all`;
        item.classList.toggle('nbp-lit', lit);
        item.classList.add('nbp-share-cell');
        item.style.setProperty('--nbp-share', `${100 * share}%`);
        item.append(swatch, textElement('span', 'nbp-tree-label', label), textElement('span', 'nbp-number', formatTimeCell(ns)));
        return item;
      }),
    );
  }
}

/**
 * A row of a part as a frame.
 * @param {ShownTree | ShownStack} part
 * @param {number} row
 * @param {string} key
 * @param {boolean} lit
 * @returns {Frame}
 */
export const frameOf = ({texts, names, columns}, row, key, lit = false) => ({
  name: texts.name[row],
  label: names.name?.labels[row] ?? texts.name[row],
  colour: names.name?.colours[row] ?? '',
  ns: columns[key][row],
  share: columns.share[row],
  lit,
});
