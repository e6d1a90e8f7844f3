// The ranks' report: sums of all ranks lie in the file, compressed; the page adds them up.
async function startRanks() {
  const el = document.getElementById('nbp-report'),
    read = (id) => JSON.parse(document.getElementById(id).textContent);
  try {
    const packed = Uint8Array.from(atob(read('nbp-given')), (c) => c.charCodeAt(0)),
      stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate')),
      given = JSON.parse(await new Response(stream).text());
    let revision = 0;
    const store = createStore(read('nbp-selection'), async (patch) => ({
      state: {...store.get(), ...patch, revision: ++revision},
    }));
    revision = store.get().revision ?? 0;
    await mountRanks({
      Bokeh: window.Bokeh,
      el,
      document: read('nbp-document'),
      settings: read('nbp-settings'),
      transport: createLocalRanks(given, store),
      store,
    });
    document.getElementById('nbp-static').hidden = true;
    el.classList.add('nbp-ready');
  } catch (error) {
    el.textContent = `The views could not be started (${error.message}); below is the static form.`;
  }
}
startRanks();
