// Mounts the page of a comparison, and anew where other recordings of it are shown.
import {fitOnPaper} from '../page/printing.js';
import {Asker} from '../shared/asker.js';
import {activeElement} from '../shared/elements.js';
import {ComparisonPage} from './page.js';
import {mountSide} from './side.js';
import {createSideStore, SIDES} from './side_store.js';
import {skeleton} from './skeleton.js';
import {fromKernel} from './sources.js';
import {Counterparts} from './words.js';

/** @type {Record<string, string>} */
const TROUBLES = {
  gone: 'The kernel that made this comparison has ended: what you see can no longer answer. Run this cell again.',
  waiting: 'The kernel is busy: what you see is from before.',
  lost: 'The kernel does not answer. If it was restarted, run the cell again.',
};

/**
 * @typedef {Omit<import('../page/mount.js').Mounting, 'document' | 'settings'> & {source: ComparisonSource}} Place
 * @typedef {{document: Record<SideName, DocumentJson>, settings: ComparisonSettings}} ShownRuns
 * @typedef {{page: ComparisonPage | null, say: (text: string) => void, dispose: () => void}} Mounted
 */

/**
 * Mount the page of two recordings.
 * @param {Place} place
 * @param {ShownRuns} shown
 * @returns {Promise<Mounted>}
 */
async function mountRuns({Bokeh, el, store, source}, {document: documents, settings}) {
  const boxes = skeleton(el, settings),
    words = new Counterparts(settings.words),
    stores = SIDES.map((_, i) => createSideStore(store, /** @type {0 | 1} */ (i), words, source.own)),
    stopFitting = fitOnPaper(boxes.root);
  const say = (/** @type {string} */ text) => {
    boxes.trouble.textContent = text;
    boxes.trouble.hidden = !text;
  };
  /** @type {ComparisonPage | null} */
  let page = null;
  let disposed = false;
  const dispose = () => {
    if (disposed) return;
    disposed = true;
    stopFitting();
    page?.close();
    for (const one of stores) one.close();
    Reflect.deleteProperty(el, 'nbpComparison');
    el.replaceChildren();
  };
  try {
    const mounted = await Promise.all(
      SIDES.map(async (side, i) => {
        const transport = await source.side(side, stores[i].store, settings.shown[i]),
          asker = new Asker(transport, (state) => say(TROUBLES[state ?? ''] ?? '')),
          places = i ? [boxes.timelines[i]] : [boxes.timelines[i], boxes.memory],
          [host, meta] = await mountSide(Bokeh, documents[side], places, asker);
        return {store: stores[i].store, asker, host, meta};
      }),
    );
    page = new ComparisonPage(boxes, settings, store, source, words, mounted);
    Object.assign(el, {nbpComparison: page});
  } catch (error) {
    say(`This comparison cannot be shown: ${/** @type {Error} */ (error).message}`);
  }
  return {page, say, dispose};
}

/** A page that follows which recordings are shown. */
class Following {
  closed = false;
  busy = false;
  /** @type {Mounted | null} */ mounted = null;

  /**
   * @param {Place} place
   * @param {ShownRuns} shown
   */
  constructor(place, shown) {
    this.place = place;
    this.shown = shown;
    this.unsubscribe = place.store.whenAdopted(() => this.follow());
  }

  /** Whether others are to be shown than those that are. */
  get late() {
    const {runs} = /** @type {ComparedState} */ (this.place.store.get()),
      {shown} = this.shown.settings;
    return !this.closed && runs !== undefined && runs.some((run, i) => run !== shown[i]);
  }

  async mount() {
    const {el} = this.place,
      view = this.mounted?.page?.boxes.root.dataset.view,
      control = /** @type {HTMLElement | null} */ (el.contains(activeElement()) ? activeElement() : null)?.dataset.control;
    el.style.minHeight = `${el.offsetHeight}px`; // what stands below stays where it is
    this.mounted?.dispose();
    this.mounted = await mountRuns(this.place, this.shown);
    el.style.minHeight = '';
    if (this.closed) this.mounted.dispose();
    if (view === 'a' || view === 'b') this.mounted.page?.flip(view);
    if (control) /** @type {HTMLElement | null} */ (el.querySelector(`[data-control="${control}"]`))?.focus({preventScroll: true});
  }

  async follow() {
    const {source} = this.place;
    if (this.busy || !source.shown) return;
    this.busy = true;
    try {
      while (this.late) {
        this.shown = await source.shown();
        if (!this.closed) await this.mount();
      }
    } catch (error) {
      this.mounted?.say(`The recording that is aligned cannot be shown: ${/** @type {Error} */ (error).message}`);
    }
    this.busy = false;
  }

  close() {
    this.closed = true;
    this.unsubscribe();
    this.mounted?.dispose();
  }
}

/**
 * Mount the page of a comparison. Gives a function that takes it away.
 * @param {import('../page/mount.js').Mounting & {source?: ComparisonSource}} mounting
 * @returns {Promise<() => void>}
 */
export async function mountComparison({document, settings, source, ...place}) {
  const given = /** @type {ShownRuns} */ (/** @type {unknown} */ ({document, settings})),
    page = new Following({...place, source: source ?? fromKernel(place.transport, place.store)}, given);
  page.busy = true;
  await page.mount();
  page.busy = false;
  await page.follow(); // a view that is opened later has the settings of the first
  return () => page.close();
}
