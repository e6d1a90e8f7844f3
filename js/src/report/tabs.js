// Tabs in a report: worked out once, of the whole recording, when the file was written.
function createLocalPanel(given) {
  return async ({name}) => {
    const {data: text} = given.panels.tabs[name] ?? {};
    if (!text) return reply({name, absent: 'This tab is not in this file: open the profile in a notebook to see it.'});
    const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0)),
      stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate')),
      {content, data} = JSON.parse(await new Response(stream).text());
    if (!given.panels.focus)
      // rows of the recording are not those of this file, which holds a part of it
      for (const part of content.parts) {
        const patches = [...(part.select ?? []), ...(part.cards ?? []).map((card) => card.select)];
        for (const patch of patches) if (patch) delete patch.focus;
      }
    const columns = Object.entries(data).map(([key, values]) => [key, Float64Array.from(values, (x) => x ?? NaN)]);
    return reply({...content, whole: true}, Object.fromEntries(columns));
  };
}
