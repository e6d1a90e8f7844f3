// The selection of one side: what it shares goes through the selection of the comparison, so both sides follow at once.
import {createStore} from '../shared/store.js';

/** @type {readonly SideName[]} */
export const SIDES = ['a', 'b'];

/**
 * Where the aligned step of a side begins.
 * @param {Store} shared
 * @param {0 | 1} side
 */
export const startOf = (shared, side) => /** @type {ComparedState} */ (shared.get()).starts?.[side] ?? 0;

/**
 * Make the store of a side. Gives it, and a function that ends its following.
 * @param {Store} shared
 * @param {0 | 1} side
 * @param {import('./words.js').Counterparts} words
 * @param {ComparisonSource['own']} sendOwn
 */
export function createSideStore(shared, side, words, sendOwn) {
  const name = SIDES[side],
    stateNow = () => words.ofSide(shared.get(), side, startOf(shared, side));
  const store = createStore({.../** @type {ComparedState} */ (shared.get())[name], ...stateNow()}, (patch, origin) => {
    const {linked, own} = words.ofComparison(patch, side, startOf(shared, side));
    if (Object.keys(linked).length) shared.set(linked, origin); // comes back through `follow`, before this ends
    return Object.keys(own).length ? kept(sendOwn(name, own, origin)) : null;
  });
  /** What nobody else has holds as it is here. @param {ReturnType<ComparisonSource['own']>} sent */
  const kept = async (sent) => (await sent) ?? {state: store.get()};
  /** @param {string} origin */
  function follow(origin) {
    const {revision = 0} = store.get(),
      confirmed = /** @type {ComparedState} */ (shared.get())[name]?.revision ?? 0;
    store.adopt({...store.get(), ...stateNow(), revision: Math.max(revision, confirmed)}, origin);
  }
  const ends = [shared.subscribe((_, origin) => follow(origin)), shared.whenAdopted(() => follow('python'))];
  return {store, close: () => ends.forEach((end) => end())};
}
