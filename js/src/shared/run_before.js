// What the run before took: its steps, and the lines that this run has too.
import {DIMENSIONS} from './store.js';
import {formatTime} from './units.js';

/**
 * How many times as long a line took in the run before, and that in words; null where it is not known, or where what is shown
 * is a part of the recording.
 * @param {RunBefore | undefined} before
 * @param {string | undefined} line
 * @param {SelectionState} state
 */
export function lineBefore(before, line, state) {
  const known = line === undefined ? undefined : before?.lines[line];
  if (!before || !known || DIMENSIONS.some((one) => one !== 'line' && one !== 'focus' && state[one] != null)) return null;
  const [then, now] = known;
  return {ratio: then / now, words: `the run before ${formatTime(then)}, now ${formatTime(now)}${before.steps.length ? ' a step' : ''}`};
}
