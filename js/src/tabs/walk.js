// Lists whose items are walked with the arrows and chosen with Enter.
/** @type {Record<string, number>} */
const ITEMS_OF_KEY = {ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9};

/**
 * @typedef {(patch: SelectionPatch | null) => void} Pick
 * @typedef {{el: HTMLElement, select: SelectionPatch | null}} Item
 */

/**
 * Listen to the pointer and the keys in a list.
 * @param {HTMLElement} list
 * @param {Item[]} items
 * @param {Pick} pick
 */
export function walked(list, items, pick) {
  items.forEach((item, i) => {
    item.el.tabIndex = i ? -1 : 0;
    item.el.addEventListener('click', () => {
      if (!String(getSelection())) pick(item.select);
    });
  });
  list.addEventListener('keydown', (event) => {
    const at = items.findIndex((item) => item.el === event.target),
      by = ITEMS_OF_KEY[event.key];
    if (at < 0) return;
    if (by) {
      const next = items[Math.max(0, Math.min(items.length - 1, at + by))].el;
      items[at].el.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    } else if (event.key === 'Enter' || event.key === ' ') pick(items[at].select);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
}
