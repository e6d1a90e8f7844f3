// What a page asks first, some of it ahead: the kernel answers while BokehJS mounts the figures.
import {Asker} from '../shared/asker.js';
import {FIRST_ROWS} from '../table/columns.js';

/** The facts that every page needs. */
export const FACTS = Object.freeze({
  meta: /** @type {QuestionOf<'meta'>} */ ({t: 'meta', doubts: 'later'}),
  names: /** @type {QuestionOf<'names'>} */ ({t: 'names', start: 0}), // mostly all of them
});

/**
 * An asker that has asked for the facts.
 * @param {Transport} transport
 */
export function askedAhead(transport) {
  const asker = new Asker(transport);
  asker.foresee(FACTS.meta);
  asker.foresee(FACTS.names);
  return asker;
}

/** @type {TableRequest} */
export const FIRST_TABLE = {by: 'name', scope: 'all', filter: '', waits: true, sort: 'self_ns', descending: true, start: 0, top: FIRST_ROWS};

/**
 * @param {Pick<BokehRange, 'start' | 'end'>} range
 * @param {number} width of the curve, in pixels
 * @param {number | null} device
 * @returns {QuestionOf<'memory'>}
 */
export function memoryQuestion({start, end}, width, device) {
  const beside = (end - start) / 2;
  return {t: 'memory', a: start - beside, b: end + beside, px: Math.round(width * 2), device};
}
