// From one slice to another in a report: twin of views/answers/find.py.
function createLocalFind(columns, given, index) {
  const n = columns.row.length,
    parent = parentsOf(columns, given, index),
    track = (i) => given.trackOfRow[columns.row[i]];
  const place = (i) =>
    i === null || i < 0 ? {id: null} : {id: i, ts: columns.ts[i], dur: columns.dur[i], row: columns.row[i]};
  function find(q) {
    if (!(q.id >= 0 && q.id < n)) return reply({id: null});
    for (let i = q.id + q.by; i >= 0 && i < n; i += q.by)
      if (columns.name[i] === columns.name[q.id] && track(i) === track(q.id)) return reply(place(i));
    return reply({id: null});
  }
  function neighbour(q) {
    if (!(q.id >= 0 && q.id < n)) {
      const [first, stop] = index.stretch(q.row ?? 0, q.at ?? 0, Infinity);
      return reply(place(first < stop ? index.order[first] : null));
    }
    const row = columns.row[q.id];
    if (q.to === 'parent') return reply(place(parent[q.id]));
    if (q.to === 'child') {
      if (given.trackOfRow[row + 1] !== given.trackOfRow[row]) return reply({id: null});
      const p = lowerBound(index.start, index.pointer[row + 1], index.pointer[row + 2], columns.ts[q.id]),
        found = p < index.pointer[row + 2] ? index.order[p] : -1;
      return reply(place(found >= 0 && parent[found] === q.id ? found : null));
    }
    let p = lowerBound(index.start, index.pointer[row], index.pointer[row + 1], columns.ts[q.id]);
    while (index.order[p] !== q.id) p++;
    p += q.to === 'next' ? 1 : -1;
    return reply(place(p >= index.pointer[row] && p < index.pointer[row + 1] ? index.order[p] : null));
  }
  let known = {text: '', rows: []};
  function matches(text) {
    if (known.text === text) return known.rows;
    const passes = sliceFilter(columns, given, parseQuery(text)),
      rows = [];
    for (let i = 0; i < n; i++) if (passes(i)) rows.push(i);
    known = {text, rows};
    return rows;
  }
  function search(q) {
    const text = (q.text ?? '').trim(),
      bins = Math.max(1, Math.min(q.px ?? 1000, 4000)),
      marks = new Uint8Array(bins),
      nothing = {count: 0, place: null, id: null, error: ''};
    let rows = [];
    try {
      if (text) rows = matches(text);
    } catch (error) {
      return reply({...nothing, error: String(error.message)}, {marks});
    }
    if (!rows.length) return reply(nothing, {marks});
    const [begin, end] = given.meta.span;
    for (const i of rows) marks[Math.min(Math.floor(((columns.ts[i] - begin) / Math.max(end - begin, 1)) * bins), bins - 1)] = 1;
    let at;
    if (q.id == null) {
      at = rows.findIndex((i) => columns.ts[i] >= (q.at ?? 0));
      if (at < 0) at = 0;
    } else if ((q.by ?? 1) > 0) {
      at = rows.findIndex((i) => i > q.id);
      if (at < 0) at = 0;
    } else at = lowerBound(rows, 0, rows.length, q.id) - 1;
    at = (at + rows.length) % rows.length;
    return reply({...nothing, ...place(rows[at]), count: rows.length, place: at}, {marks});
  }
  return {find, neighbour, search};
}
