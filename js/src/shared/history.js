// What was selected before, for undo and redo. Twin of selection/history.py: whoever goes back to the state before has undone.
import {DIMENSIONS} from './store.js';

const MOST_STATES = 100;

/**
 * @param {SelectionState} state
 * @returns {SelectionPatch}
 */
const clausesOf = (state) => Object.fromEntries(DIMENSIONS.filter((key) => key !== 'focus').map((key) => [key, state[key] ?? null]));

/**
 * Remember what a store holds, from now on.
 * @param {Store} store
 */
export function createHistory(store) {
  let states = [clausesOf(store.get())],
    at = 0;
  const now = () => JSON.stringify(clausesOf(store.get())),
    stop = store.subscribe(() => {
      if (now() === JSON.stringify(states[at])) return;
      const step = [-1, 1].find((by) => now() === JSON.stringify(states[at + by]));
      if (step) at += step;
      else {
        states = [...states.slice(0, at + 1).slice(-MOST_STATES), clausesOf(store.get())];
        at = states.length - 1;
      }
    });
  /**
   * Select what was selected one state before (-1) or after (1); whether there is one.
   * @param {number} step
   */
  const go = (step) => {
    const state = states[at + step];
    if (state) store.set(state, 'history');
    return Boolean(state);
  };
  return {go, stop};
}
