// A trace that lies in the file, compressed: its columns unpacked, and a transport that answers in the page.
const jsonOf = (id) => JSON.parse(document.getElementById(id).textContent);

async function inflate({data, type, delta}) {
  const packed = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate'));
  const shuffled = new Uint8Array(await new Response(stream).arrayBuffer()),
    Kind = ARRAYS[type],
    size = Kind.BYTES_PER_ELEMENT,
    n = shuffled.length / size;
  const bytes = new Uint8Array(shuffled.length);
  for (let j = 0; j < size; j++) for (let i = 0; i < n; i++) bytes[i * size + j] = shuffled[j * n + i];
  const values = new Kind(bytes.buffer);
  if (!delta) return values;
  const out = new Float64Array(n);
  for (let i = 0, sum = 0; i < n; i++) out[i] = sum += values[i];
  return out;
}
async function inflateAll(spec) {
  const entries = await Promise.all(Object.entries(spec).map(async ([name, one]) => [name, await inflate(one)]));
  return Object.fromEntries(entries);
}

// `prefix` is that of the ids of views/report.py's trace_blocks
async function openGiven(prefix, store) {
  const given = jsonOf(`${prefix}given`),
    columns = await inflateAll(given.columns),
    settings = jsonOf(`${prefix}settings`);
  given.colours = Uint8Array.from(given.colours);
  for (const name of Object.keys(given.steps))
    given.steps[name] = (name === 'step' ? Int32Array : Float64Array).from(given.steps[name]);
  for (const name of Object.keys(given.account.data))
    given.account.data[name] = (name === 'ts' || name === 'dur' ? Float64Array : Uint32Array).from(given.account.data[name]);
  for (const name of Object.keys(given.phases.data)) given.phases.data[name] = Float64Array.from(given.phases.data[name]);
  if (given.told) given.told.columns = await inflateAll(given.told.columns);
  for (const one of given.memory) one.columns = await inflateAll(one.columns);
  for (const track of Object.keys(given.counters)) given.counters[track] = await inflateAll(given.counters[track]);
  if (given.groups.shapes) given.groups.shapes.labels = given.groups.shapes.names.map((code) => given.names[code]);
  if (given.left) for (const part of ['columns', 'kinds', 'totals']) given.left[part] = await inflateAll(given.left[part]);
  given.panels = jsonOf(`${prefix}panels`);
  for (const tab of settings.tabs) tab.missing = given.panels.tabs[tab.name]?.missing ?? '';
  given.groups.name = {labels: given.names};
  given.groups.category = {labels: given.meta.categories};
  return {document: jsonOf(`${prefix}document`), settings, transport: createLocal(columns, given, store)};
}
