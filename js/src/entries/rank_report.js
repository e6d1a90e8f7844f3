// The ranks' report: sums of all ranks lie in the file, compressed, and the timelines of some of them.
async function startRanks() {
  const el = document.getElementById('nbp-report');
  try {
    const packed = Uint8Array.from(atob(jsonOf('nbp-given')), (c) => c.charCodeAt(0)),
      stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate')),
      given = JSON.parse(await new Response(stream).text()),
      settings = jsonOf('nbp-settings');
    let revision = 0;
    const store = createStore(jsonOf('nbp-selection'), async (patch) => ({
      state: {...store.get(), ...patch, revision: ++revision},
    }));
    revision = store.get().revision ?? 0;
    const timelines = createLocalTimelines(settings.timelines, () => openGiven('nbp-timelines-', store));
    await mountRanks({
      Bokeh: window.Bokeh,
      el,
      document: jsonOf('nbp-document'),
      settings,
      transport: createLocalRanks(given, store, timelines),
      store,
    });
    document.getElementById('nbp-static').hidden = true;
    el.classList.add('nbp-ready');
  } catch (error) {
    el.textContent = `The views could not be started (${error.message}); below is the static form.`;
  }
}
startRanks();
