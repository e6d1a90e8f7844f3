// What a page asks first. A live view asks ahead: the kernel answers while BokehJS mounts the figures.
import {FIRST_ROWS} from '../table/columns.js';

export const FACTS = Object.freeze({
  meta: /** @type {QuestionOf<'meta'>} */ ({t: 'meta', doubts: 'later'}),
  names: /** @type {QuestionOf<'names'>} */ ({t: 'names', start: 0}), // mostly all of them
});

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

/**
 * What the views below the timeline ask first.
 * @param {Pick<BokehRange, 'start' | 'end'>} range
 * @param {number} width
 * @returns {readonly {t: string}[]}
 */
export function viewQuestions(range, width) {
  const tint = 'name',
    /** @type {QuestionOf<'strip'>} */ strip = {t: 'strip', px: Math.round(width), tint},
    /** @type {QuestionOf<'legend'>} */ legend = {t: 'legend', tint};
  return [{t: 'table', ...FIRST_TABLE}, {t: 'phases'}, memoryQuestion(range, width, null), strip, {t: 'account'}, legend];
}
