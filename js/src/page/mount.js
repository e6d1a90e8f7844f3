// Mounts the dashboard: the same code for the live widget and for the HTML report.
//   transport.request(message) -> Promise<{content, buffers}>   kernel (widget/line.js), or the page itself (report/answers.js)
//   store: see shared/store.js
import {mountDocument} from '../figures/document.js';
import {Asker} from '../shared/asker.js';
import {firstPicture, pictureOrLate} from '../timeline/early.js';
import {Dashboard} from './dashboard.js';
import {earlyContext, firstViews} from './early_views.js';
import {FACTS} from './opening.js';
import {fitOnPaper} from './printing.js';
import {skeleton} from './skeleton.js';

/**
 * @typedef {object} Mounting
 * @property {BokehObject} Bokeh or a promise of it
 * @property {HTMLElement} el
 * @property {DocumentJson} document
 * @property {Settings} settings
 * @property {Transport} transport
 * @property {Store} store
 * @property {Asker} [asker] that has asked for facts
 * @property {() => void} [pictured] told when the first picture is there, or cannot be
 */

/** @type {Record<string, string>} */
const TROUBLES = {
  gone: 'The kernel that made this profile has ended: what you see can no longer answer. Run this cell again.',
  waiting: 'The kernel is busy: what you see is from before. It goes on as soon as the kernel answers.',
  lost: 'The kernel does not answer. If it was restarted, run the cell again.',
};

const SLOW = 'Still working: what you see is from before.';
const ALONE = 'The kernel that made this profile has ended. The views go on; Python no longer hears what is selected.';

/**
 * What the page says while it is in trouble. A file has no kernel: it is only slow.
 * @param {import('../shared/asker.js').Trouble} state
 * @param {Pick<Transport, 'alone' | 'whenLost'>} transport
 */
export function troubleText(state, {alone, whenLost}) {
  if (!state) return '';
  if (!whenLost) return SLOW;
  return state === 'gone' && alone ? ALONE : TROUBLES[state];
}

/**
 * Ask for what must be known once.
 * @param {Asker} asker
 * @returns {Promise<Meta>}
 */
export async function fetchMeta(asker) {
  const [{data, ...meta}, first] = await Promise.all([
    asker.ask(FACTS.meta),
    asker.ask(FACTS.names),
  ]);
  const names = [],
    short = [],
    colours = [];
  /** @type {typeof first | null} */
  let page = first;
  while (page) {
    names.push(...page.names);
    short.push(...page.short);
    colours.push(...page.data.colour);
    page = page.next === null ? null : await asker.ask({t: 'names', start: page.next});
  }
  const stepColumns = {step: data.step, ts: data.ts, dur: data.dur};
  return {...meta, stepColumns, nameList: names, shortList: short, nameColours: Uint8Array.from(colours)};
}

/**
 * Mount the page. Gives a function that takes it away.
 * @param {Mounting} mounting
 * @returns {Promise<() => void>}
 */
export async function mount({Bokeh: loading, el, document: json, settings, transport, store, asker = new Asker(transport), pictured}) {
  const parts = skeleton(el, settings, json);
  const say = (/** @type {string} */ text) => {
    parts.trouble.textContent = text;
    parts.trouble.hidden = !text;
  };
  /** @type {Record<string, number>} */
  const counts = {};
  /** @type {Record<string, HTMLElement>} */
  const awaited = {table: parts.table, phases: parts.phases, memory: parts.memory};
  // what is not there yet says so; later answers leave the old picture until they come
  const pending = (/** @type {string} */ kind, /** @type {boolean} */ waits) => {
    const part = awaited[kind];
    if (waits && part && !counts[kind]) part.dataset.awaited = 'summing up all slices …';
    else if (part) delete part.dataset.awaited;
  };
  asker.tell((state) => say(troubleText(state, transport)), pending);
  const forget = store.subscribe(() => asker.ahead.clear());
  /** @type {Dashboard | null} */
  let dashboard = null;
  const stopFitting = fitOnPaper(parts.root);
  let disposed = false;
  const dispose = () => {
    if (disposed) return;
    disposed = true;
    stopFitting();
    dashboard?.close();
    asker.close();
    forget();
    Reflect.deleteProperty(el, 'nbp');
    el.replaceChildren(); // an output that JupyterLab keeps would keep all of this
  };
  let meta, host;
  /** @type {import('./early_views.js').Early | null} */
  let early = null;
  const wanted = () => !dashboard && !disposed;
  const drawEarly = async (/** @type {Meta} */ facts) => {
    const ctx = earlyContext({meta: facts, settings, store, asker}, parts.root),
      picture = await firstPicture(ctx, parts, wanted, (range, frame) => {
        const {table, drawn} = firstViews(ctx, parts, range, frame, wanted);
        early = {ctx, table, state: store.get(), picture: null};
        return drawn;
      });
    if (early) early.picture = picture;
  };
  try {
    const asked = fetchMeta(asker),
      picture = asked.then(drawEarly).catch(() => {}); // the views ask by themselves
    picture.then(pictured);
    const [facts, Bokeh] = await Promise.all([asked, loading]);
    meta = facts;
    await pictureOrLate(picture);
    host = await mountDocument(
      Bokeh,
      json,
      settings.figures.map((name) => /** @type {Record<string, HTMLElement>} */ (parts)[name]),
    );
  } catch (error) {
    say(`This profile cannot be shown: ${/** @type {Error} */ (error).message}`);
    return dispose;
  }
  dashboard = new Dashboard({el, parts, host, meta, settings, store, asker, transport, counts, say, early});
  return dispose;
}
