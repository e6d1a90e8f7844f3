// Texts that fit into so many pixels.
import {FONT} from '../figures/document.js';
import {penOf} from '../shared/elements.js';

/**
 * Make a function that gives the longest beginning of a text that fits, with an ellipsis.
 * @returns {(text: string, room: number) => string}
 */
export function createFitting() {
  const pen = penOf(document.createElement('canvas'));
  /** @type {Map<string, number>} */
  const widths = new Map();
  pen.font = FONT;
  /** @param {string} text */
  function measure(text) {
    let width = widths.get(text);
    if (width === undefined) {
      if (widths.size > 20000) widths.clear();
      widths.set(text, (width = pen.measureText(text).width));
    }
    return width;
  }
  return (text, room) => {
    const width = measure(text);
    if (width <= room) return text;
    let length = Math.floor((text.length * room) / width);
    while (length > 1 && measure(`${text.slice(0, length)}…`) > room) length--;
    return length > 1 ? `${text.slice(0, length)}…` : '';
  };
}
