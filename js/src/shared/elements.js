// DOM elements. Texts are texts: names come from strangers' files.

/**
 * Append a new element to its parent.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {string} className
 * @param {Element} parent
 */
export function element(tag, className, parent) {
  const el = document.createElement(tag);
  el.className = className;
  parent.append(el);
  return el;
}

/**
 * Make an element that holds a text.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {string} className
 * @param {string} text
 */
export function textElement(tag, className, text) {
  const el = document.createElement(tag);
  el.className = className;
  el.textContent = text;
  return el;
}

/**
 * The element that an event happened at.
 * @param {Event} event
 */
export const targetOf = (event) => /** @type {HTMLElement} */ (event.target);

/** The element that has the keyboard, also inside of shadow roots (marimo mounts views in one). */
export function activeElement() {
  let active = document.activeElement;
  while (active?.shadowRoot?.activeElement) active = active.shadowRoot.activeElement;
  return /** @type {HTMLElement | null} */ (active);
}

/**
 * The pen of a canvas.
 * @param {HTMLCanvasElement} canvas
 */
export const penOf = (canvas) => /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
