// BokehJS in the page. Another library's BokehJS of another version may live there: ours is taken by its version, never as
// "Bokeh".

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

/**
 * Load BokehJS over the comm, once a page.
 * @param {Transport} line
 * @param {string} version
 * @returns {Promise<BokehObject>}
 */
export async function loadBokeh(line, version) {
  const loads = /** @type {Record<string, Promise<void>>} */ (/** @type {unknown} */ (window)),
    key = `__nbp_bokeh_${version}`;
  loads[key] ??= (async () => {
    if (findBokeh(version)) return;
    for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
      const answer = await patiently(line.request({t: 'bokehjs'})); // a message may be lost
      for (const part of answer?.buffers ?? []) await runScript(/** @type {BlobPart} */ (part));
      if (answer) return;
    }
    throw new Error('the kernel does not answer: BokehJS could not be loaded');
  })();
  try {
    await loads[key];
  } catch (error) {
    delete loads[key];
    throw error;
  }
  return findBokeh(version);
}
