// The edge below the timeline: drag it, or move it with the arrow keys, for more or fewer lanes.
import {element} from '../shared/elements.js';

/**
 * @param {HTMLElement} parent
 * @param {{lanes: () => number, lane: number, set: (lanes: number) => void}} heights
 */
export function createHandle(parent, {lanes, lane, set}) {
  const handle = element('div', 'nbp-handle', parent);
  handle.tabIndex = 0;
  handle.title = 'drag for more or fewer rows';
  handle.setAttribute('role', 'separator');
  handle.setAttribute('aria-orientation', 'horizontal');
  handle.setAttribute('aria-label', 'height of the timeline');
  const tell = () => handle.setAttribute('aria-valuenow', String(lanes()));
  /** @type {{y: number, lanes: number} | null} */
  let drag = null;
  handle.addEventListener('pointerdown', (event) => {
    event.stopPropagation();
    event.preventDefault();
    drag = {y: event.clientY, lanes: lanes()};
    handle.setPointerCapture?.(event.pointerId);
  });
  handle.addEventListener('pointermove', (event) => {
    event.stopPropagation();
    if (!drag) return;
    set(drag.lanes + Math.round((event.clientY - drag.y) / lane));
    tell();
  });
  for (const end of ['pointerup', 'pointercancel'])
    handle.addEventListener(end, (event) => {
      event.stopPropagation();
      drag = null;
    });
  handle.addEventListener('keydown', (event) => {
    /** @type {Record<string, number>} */
    const steps = {ArrowDown: 1, ArrowUp: -1, PageDown: 5, PageUp: -5},
      by = steps[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    set(lanes() + by);
    tell();
  });
  tell();
}
