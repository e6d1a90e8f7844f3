// What slices of a report were called and launched with; unpacked when the first is asked for.
function createLocalArguments(told) {
  if (!told) return async () => ({arguments: []});
  const {row, code} = told.columns;
  let texts = null;
  async function unpack() {
    const packed = Uint8Array.from(atob(told.texts), (c) => c.charCodeAt(0)),
      stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate'));
    return JSON.parse(await new Response(stream).text());
  }
  return async (i) => {
    const at = lowerBound(row, 0, row.length, i);
    if (row[at] !== i) return {arguments: [], left: told.left};
    return {arguments: (await (texts ??= unpack()))[code[at]]};
  };
}
