// BokehJS in the page. Another library's BokehJS of another version may live there: ours is taken by its version, never as
// "Bokeh".

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
    const {buffers} = await line.request({t: 'bokehjs'});
    for (const part of buffers) await runScript(/** @type {BlobPart} */ (part));
  })();
  try {
    await loads[key];
  } catch (error) {
    delete loads[key];
    throw error;
  }
  return findBokeh(version);
}
