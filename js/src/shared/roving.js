// Several controls that are one stop of the Tab key; arrow keys walk them (WAI-ARIA's roving tab index).
import {targetOf} from './elements.js';

/** @typedef {HTMLElement & {disabled?: boolean}} Control */

/** The controls of a box that match a selector, of which one can be reached by Tab. */
export class Roving {
  at = 0;
  /** @type {Control | null} */ stop = null;

  /**
   * @param {HTMLElement} box
   * @param {string} selector
   * @param {boolean} vertical whether up and down walk them, in place of left and right
   */
  constructor(box, selector, vertical = false) {
    this.box = box;
    this.selector = selector;
    this.keys = vertical ? ['ArrowUp', 'ArrowDown'] : ['ArrowLeft', 'ArrowRight'];
    box.addEventListener('focusin', (event) => this.reached(targetOf(event)));
    box.addEventListener('keydown', (event) => this.keyed(event));
    this.settle();
  }

  items() {
    const found = /** @type {NodeListOf<Control>} */ (this.box.querySelectorAll(this.selector));
    return [...found].filter((one) => !one.disabled && (!one.isConnected || one.checkVisibility()));
  }

  /** Take over what the box holds now. */
  settle() {
    const items = this.items();
    if (this.stop && items.includes(this.stop)) this.at = items.indexOf(this.stop); // others came or went before it
    this.at = Math.max(0, Math.min(this.at, items.length - 1));
    this.stop = items[this.at] ?? null;
    for (const one of /** @type {NodeListOf<HTMLElement>} */ (this.box.querySelectorAll(this.selector))) one.tabIndex = -1;
    if (items.length) items[this.at].tabIndex = 0;
  }

  /** @param {HTMLElement} target */
  reached(target) {
    const at = this.items().indexOf(target);
    if (at < 0) return;
    this.at = at;
    this.stop = target;
    this.settle();
  }

  /** @param {KeyboardEvent} event */
  keyed(event) {
    const by = this.keys.indexOf(event.key) * 2 - 1,
      items = this.items(),
      at = items.indexOf(targetOf(event)),
      next = items[at + by];
    if (by < -1 || at < 0 || !next || event.altKey || event.ctrlKey || event.metaKey || movesInText(targetOf(event), by)) return;
    event.preventDefault();
    event.stopPropagation();
    next.focus();
  }
}

/**
 * Whether an arrow still has somewhere to go in a text.
 * @param {HTMLElement} target
 * @param {number} by
 */
function movesInText(target, by) {
  if (!(target instanceof HTMLInputElement)) return false;
  const {selectionStart, selectionEnd, value} = target;
  return by < 0 ? selectionStart !== 0 || selectionEnd !== 0 : selectionStart !== value.length;
}
