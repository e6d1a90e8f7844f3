// Spans of time of the account.
import {formatCount} from '../shared/units.js';

/** @typedef {{from: number, to: number, part: number, steps: number}} AccountSpan */

/**
 * The part in words, for one of its stretches: a loop that is interrupted has its steps here and there.
 * @param {Pick<AccountPart, 'kind' | 'steps' | 'part'>} part
 * @param {number} steps
 */
export function spanWords(part, steps) {
  const whole = steps === part.steps || !steps;
  if (part.kind === 'steps' && !whole) return `${formatCount(steps)} ${steps === 1 ? 'step' : 'steps'}`;
  if (part.kind === 'outside-window' && !whole) return `${formatCount(steps)} ${steps === 1 ? 'step' : 'steps'} not recorded`;
  return part.part;
}

/**
 * What can be drawn at so many ns a pixel: a part that goes on after something too thin to be seen is one stretch.
 * @param {AccountSpan[]} stretches
 * @param {number} thin
 */
export function drawnSpans(stretches, thin) {
  /** @type {AccountSpan[]} */
  const out = [];
  /** @type {AccountSpan | null} */
  let last = null;
  /** @type {AccountSpan[]} */
  let crumbs = []; // thin ones after the last
  const keep = () => {
    out.push(...crumbs);
    crumbs = [];
  };
  for (const one of stretches) {
    if (last && one.part === last.part && one.from - last.to < thin) {
      Object.assign(last, {to: one.to, steps: last.steps + one.steps});
      crumbs = [];
    } else if (last && one.to - last.to < thin) crumbs.push({...one});
    else {
      keep();
      out.push((last = {...one}));
    }
  }
  keep();
  return out;
}
