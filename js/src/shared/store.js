// The selection as this page sees it, and the only place that writes it.
// Truth is Profile.selection in Python. A gesture is applied here at once (pending) and sent as a patch of what it
// changes; the confirmed state that comes back, with pending patches on top, is what views see. So a Python write and
// a gesture at the same moment both survive, and a gesture that takes back one that is still on its way is not lost.

/** @type {readonly Dimension[]} */
export const DIMENSIONS = ['window', 'name', 'category', 'track', 'step', 'phase', 'rank', 'group', 'line', 'focus'];
/** What the views share: clauses, the slice in focus, and the tracks that stay at the top of the timeline. */
const SHARED = /** @type {const} */ ([...DIMENSIONS, 'pinned']);
/** What filters nothing. */
const FILTERS_NOTHING = ['focus', 'pinned'];
/**
 * Whether a patch has what filters, apart from some dimensions.
 * @param {SelectionPatch} patch
 * @param {Dimension[]} without
 */
export const filters = (patch, ...without) => Object.keys(patch).some((key) => ![...FILTERS_NOTHING, ...without].includes(key));
/**
 * What dims slices in the timeline and the overview.
 * @type {readonly Dimension[]}
 */
export const PICTURED = ['name', 'category', 'step', 'phase', 'rank', 'line'];

/**
 * @typedef {(patch: SelectionPatch, origin: string) => void} Subscriber
 * @typedef {(revision: number, changed: Dimension[]) => void} ConfirmedListener
 * @typedef {{state?: SelectionState} | null | undefined} SelectReply
 */

/**
 * @param {unknown} a
 * @param {unknown} b
 */
const same = (a, b) => JSON.stringify(a ?? null) === JSON.stringify(b ?? null);

/** A patch that takes back every clause. */
export const nothingSelected = () => /** @type {SelectionPatch} */ (Object.fromEntries(DIMENSIONS.map((key) => [key, null])));

/**
 * Whether a state has what a patch selects.
 * @param {SelectionState} state
 * @param {SelectionPatch} patch
 */
export const isPicked = (state, patch) => {
  const all = /** @type {Dimension[]} */ (Object.keys(patch)),
    keys = all.filter((key) => patch[key] != null);
  return keys.length > 0 && all.every((key) => same(state[key], patch[key]));
};

/**
 * Make the store of a page.
 * @param {SelectionState} initial
 * @param {(patch: SelectionPatch, origin: string) => SelectReply | Promise<SelectReply>} send
 */
export function createStore(initial, send) {
  let confirmed = {...initial},
    current = {...initial};
  /** @type {SelectionPatch[]} */
  const pending = [];
  /** @type {Set<Subscriber>} */
  const subscribers = new Set();
  /** @type {Set<ConfirmedListener>} */
  const listeners = new Set();
  /** @type {Set<(state: SelectionState) => void>} */
  const readers = new Set();

  /** @param {string} origin */
  function settle(origin) {
    const before = current;
    current = Object.assign({...confirmed}, ...pending);
    /** @type {Record<string, unknown>} */
    const patch = {};
    for (const key of SHARED) if (!same(before[key], current[key])) patch[key] = current[key] ?? null;
    if (Object.keys(patch).length) for (const tell of [...subscribers]) tell(patch, origin);
  }
  /** @param {SelectionState} state */
  function adopt(state, origin = 'python') {
    if ((state.revision ?? 0) < (confirmed.revision ?? 0)) {
      settle(origin); // late news; but what it confirms is no longer pending
      return;
    }
    const changed = DIMENSIONS.filter((key) => key !== 'focus' && !same(confirmed[key], state[key]));
    confirmed = {...state};
    settle(origin);
    for (const tell of [...readers]) tell(confirmed);
    if (changed.length) for (const tell of [...listeners]) tell(state.revision ?? 0, changed);
  }
  /**
   * @param {SelectionPatch} patch
   * @param {string} origin
   */
  function set(patch, origin) {
    /** @type {SelectionPatch} */
    const real = Object.fromEntries(Object.entries(patch).filter(([key, value]) => !same(current[/** @type {keyof SelectionPatch} */ (key)], value)));
    if (!Object.keys(real).length) return;
    pending.push(real);
    /** @param {SelectReply} reply */
    const done = (reply) => {
      pending.splice(pending.indexOf(real), 1);
      if (reply?.state) adopt(reply.state, origin);
      else settle(origin);
    };
    // sent before the views hear of it: messages keep their order, so what they ask next is answered under it
    const sent = send(real, origin);
    settle(origin);
    Promise.resolve(sent).then(done, () => done(null));
  }
  return {
    get: () => current,
    set,
    adopt,
    /** @param {string} origin */
    clear: (origin) => set(nothingSelected(), origin),
    isEmpty: () => DIMENSIONS.every((key) => key === 'focus' || current[key] == null),
    /**
     * Told the revision and the dimensions of every confirmed change: answers from before it are out of date.
     * @param {ConfirmedListener} tell
     */
    whenConfirmed: (tell) => {
      listeners.add(tell);
      return () => listeners.delete(tell);
    },
    /**
     * Told every confirmed state, also where no clause of it has changed.
     * @param {(state: SelectionState) => void} tell
     */
    whenAdopted: (tell) => {
      readers.add(tell);
      return () => readers.delete(tell);
    },
    /** @param {Subscriber} tell */
    subscribe: (tell) => {
      subscribers.add(tell);
      return () => subscribers.delete(tell);
    },
  };
}
