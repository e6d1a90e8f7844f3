// The report: columns lie in the file, compressed; questions are answered in the page.
async function startReport() {
  const el = document.getElementById('nbp-report'),
    fallback = document.getElementById('nbp-static');
  try {
    let revision = 0;
    const store = createStore(jsonOf('nbp-selection'), async (patch) => ({
      state: {...store.get(), ...patch, revision: ++revision},
    }));
    revision = store.get().revision ?? 0;
    await mount({Bokeh: window.Bokeh, el, store, ...(await openGiven('nbp-', store))});
    fallback.hidden = true;
    el.classList.add('nbp-ready');
  } catch (error) {
    el.textContent = `The views could not be started (${error.message}); below is the static form.`;
  }
}
startReport();
