// How a report begins: the views take the place of the static form, or say why they cannot.
import {createStore} from '../../shared/store.js';
import {jsonOf} from './unpack.js';

/** The store of a file: nobody else writes its selection. */
export function createFileStore() {
  /** @type {SelectionState} */
  const initial = {...jsonOf('nbp-selection'), ...rememberedPins()};
  let revision = initial.revision ?? 0;
  /** @type {Store} */
  const store = createStore(initial, async (patch) => ({state: {...store.get(), ...patch, revision: ++revision}}));
  store.subscribe((patch) => {
    if ('pinned' in patch) rememberPins(patch.pinned ?? null);
  });
  return store;
}

/** Pinned tracks of the file, as they were before the page was loaded anew. */
function rememberedPins() {
  const {pinned} = history.state?.notebookProf ?? {};
  return pinned === undefined ? {} : {pinned};
}

/** @param {number[] | null} pinned */
function rememberPins(pinned) {
  try {
    history.replaceState({...history.state, notebookProf: {pinned}}, '');
  } catch {
    // a sandboxed page has no memory: they hold for this view then
  }
}

/**
 * Start the views of the file.
 * @param {(el: HTMLElement) => Promise<void>} start
 */
export async function startReport(start) {
  const el = /** @type {HTMLElement} */ (document.getElementById('nbp-report')),
    fallback = /** @type {HTMLElement} */ (document.getElementById('nbp-static'));
  try {
    await start(el);
    fallback.hidden = true;
    el.classList.add('nbp-ready');
  } catch (error) {
    el.textContent = `The views could not be started (${/** @type {Error} */ (error).message}); below is the static form.`;
  }
}
