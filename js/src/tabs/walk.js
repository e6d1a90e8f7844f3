// Lists whose items are walked with the arrows and chosen with Enter.
/** @type {Record<string, number>} */
const ITEMS_OF_KEY = {ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9};

const SLOP_PX = 4;

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
    onPress(item.el, () => pick(item.select));
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

/**
 * Act where the pointer was pressed and let go, unless text was selected. Not a click: on a busy page a list is drawn anew
 * or moves while the button is down, and the browser gives the click to what is around both places.
 * @param {HTMLElement} el
 * @param {() => void} act
 */
function onPress(el, act) {
  el.addEventListener('pointerdown', ({button, clientX: x, clientY: y}) => {
    if (button) return;
    const held = new AbortController(),
      {signal} = held;
    window.addEventListener('pointercancel', () => held.abort(), {signal}); // a finger scrolls
    window.addEventListener(
      'pointerup',
      (up) => {
        held.abort();
        if (Math.hypot(up.clientX - x, up.clientY - y) < SLOP_PX && !String(getSelection())) act();
      },
      {signal},
    );
  });
  el.addEventListener('click', ({detail}) => {
    if (!detail) act(); // a screen reader's has no pointer
  });
}
