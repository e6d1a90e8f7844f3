// BokehJS in the page. Another library's BokehJS of another version may live there: ours is taken by its version, never as
// "Bokeh".

import {pictureOrLate} from '../timeline/early.js';
import {MOST_ATTEMPTS, patiently} from './line.js';

/** @param {string} version */
const findBokeh = (version) => (window.Bokeh?.version === version ? window.Bokeh : window.Bokeh?.[version]) ?? null;

/** @param {BlobPart} part */
async function runScript(part) {
  const url = URL.createObjectURL(new Blob([part], {type: 'text/javascript'}));
  await new Promise((resolve, reject) => {
    const script = document.createElement('script');
    Object.assign(script, {src: url, onload: resolve, onerror: () => reject(new Error('BokehJS could not be loaded'))});
    document.head.append(script);
  });
  URL.revokeObjectURL(url);
}

const GONE = 'GoneError'; // by name: pages of ranks are another bundle, with classes of its own

/**
 * @param {Transport} line
 * @param {string} version
 * @param {Promise<unknown>} closed
 * @param {Promise<unknown>} pictured
 */
async function load(line, version, closed, pictured) {
  if (findBokeh(version)) return;
  const gone = closed.then(() => {
    throw Object.assign(new Error('the display that loaded BokehJS was closed'), {name: GONE});
  });
  gone.catch(() => {}); // it may be closed when everything is there
  for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
    const answer = await Promise.race([patiently(line.request({t: 'bokehjs'})), gone]); // a message may be lost
    await pictureOrLate(pictured);
    for (const part of answer?.buffers ?? []) await runScript(/** @type {BlobPart} */ (part));
    if (answer) return;
  }
  throw new Error('the kernel does not answer: BokehJS could not be loaded');
}

/**
 * Load BokehJS over the comm, once a page: displays that are there at the same time wait for the first one's.
 * @param {Transport} line
 * @param {string} version
 * @param {Promise<unknown>} closed when the display that asks is closed
 * @param {Promise<unknown>} pictured when its first picture is there
 * @returns {Promise<BokehObject>}
 */
export async function loadBokeh(line, version, closed, pictured = Promise.resolve()) {
  const loads = /** @type {Record<string, Promise<void>>} */ (/** @type {unknown} */ (window)),
    key = `__nbp_bokeh_${version}`;
  for (;;) {
    const mine = !loads[key],
      loading = (loads[key] ??= load(line, version, closed, pictured));
    try {
      await loading;
      return findBokeh(version);
    } catch (error) {
      if (loads[key] === loading) delete loads[key];
      if (mine || /** @type {Error} */ (error).name !== GONE) throw error; // else one that waited goes on
    }
  }
}
