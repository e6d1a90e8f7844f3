// The operator table of a report: twin of views/answers/table.py and views/lod/{groups,launched}.py.
// Calls that only pass on a call are not counted, recursion counts once in the total, device time belongs to all
// groups around the launcher.
const SIDES = {all: ['host', 'device'], host: ['host'], device: ['device']};
const TABLE_NUMBERS = ['count', 'total_ns', 'self_ns', 'device_ns', 'touched'];

function createLocalTable(columns, given, index, matching, left) {
  const {meta} = given,
    n = columns.row.length,
    kindOf = new Map(meta.tracks.map((t) => [t.track, t.kind])),
    rowKinds = Array.from(given.trackOfRow, (track) => kindOf.get(track)),
    work = new Set(['kernel', 'memcpy', 'memset', 'collective']),
    working = meta.categories.map((name) => work.has(name)),
    again = new Set(columns.again);
  const parent = parentsOf(columns, given, index);
  const covered = (row, a, b) => index.covered(row, a, b) + (left?.busyIn(row, a, b) ?? 0);
  const rowBelow = (row) => (given.trackOfRow[row + 1] === given.trackOfRow[row] ? row + 1 : -1);
  const onSide = {
    host: (i) => rowKinds[columns.row[i]] === 'thread' || rowKinds[columns.row[i]] === 'process',
    device: (i) => rowKinds[columns.row[i]] === 'stream' && columns.category[i] >= 0 && working[columns.category[i]],
  };

  function side(which, by, group, codes, own, state, [a, b]) {
    const mask = matching(state, own.concat('window')),
      size = group.labels.length,
      reach = new Map(),
      out = Object.fromEntries(TABLE_NUMBERS.map((name) => [name, new Float64Array(size)]));
    for (let i = 0; i < n; i++) {
      const s = columns.ts[i];
      if (s >= b) break;
      const g = codes[i];
      if (g < 0 || (mask && !mask[i]) || !onSide[which](i)) continue;
      const e = s + columns.dur[i],
        row = columns.row[i],
        home = g * 65536 + given.trackOfRow[row],
        from = Math.max(s, reach.get(home) ?? -Infinity);
      if (e > (reach.get(home) ?? -Infinity)) reach.set(home, e);
      if (s < a && e <= a) continue;
      const since = Math.max(s, a),
        until = Math.min(e, b);
      out.touched[g]++;
      if (!(again.has(i) && codes[parent[i]] === g)) out.count[g]++;
      out.total_ns[g] += Math.max(0, until - Math.max(from, a));
      if (s >= a && e <= b) out.self_ns[g] += e - s - columns.inside[i];
      else out.self_ns[g] += Math.max(0, until - since - covered(rowBelow(row), since, until));
    }
    left?.addTo(out, by, group, which, state, own);
    if (which === 'host') launched(codes, state, own, [a, b], out.device_ns);
    return out;
  }
  function launched(codes, state, own, [a, b], out) {
    const only = (dimensions) => Object.fromEntries(dimensions.map((d) => [d, own.includes(d) ? null : state[d]])),
      ofWork = matching(only(['step', 'phase', 'rank']), []),
      ofHost = matching(only(['name', 'track', 'rank']), []);
    columns.work.forEach((i, k) => {
      const part = Math.min(columns.ts[i] + columns.dur[i], b) - Math.max(columns.ts[i], a);
      if (part <= 0 || (ofWork && !ofWork[i])) return;
      const seen = new Set();
      for (let h = columns.launcher[k]; h >= 0; h = parent[h]) if (!ofHost || ofHost[h]) seen.add(codes[h]);
      for (const g of seen) if (g >= 0) out[g] += part;
    });
  }
  // a click on a row leaves the rows as they are
  const kept = new Map(),
    KEPT = 8;
  function rowsOf(scope, by, group, codes, own, state) {
    const clauses = Object.entries(state).filter(([name, value]) => value != null && !['focus', 'revision', ...own].includes(name)),
      key = JSON.stringify([scope, by, clauses.sort()]);
    if (!kept.has(key)) kept.set(key, rowsAnew(scope, by, group, codes, own, state));
    if (kept.size > KEPT) kept.delete(kept.keys().next().value);
    return kept.get(key);
  }
  function rowsAnew(scope, by, group, codes, own, state) {
    const window = state.window ?? [meta.span[0], meta.span[1] + 1],
      rows = [];
    for (const which of SIDES[scope]) {
      const out = side(which, by, group, codes, own, state, window),
        mine = [];
      let every = 0;
      for (let g = 0; g < group.labels.length; g++) {
        if (!out.touched[g] && !(out.device_ns[g] && (state.category == null || own.includes('category')))) continue;
        mine.push({g, side: which === 'device' ? 1 : 0, ...Object.fromEntries(TABLE_NUMBERS.map((name) => [name, out[name][g]]))});
        every += out.self_ns[g];
      }
      for (const row of mine) rows.push({...row, share: row.self_ns / Math.max(every, 1)});
    }
    return rows;
  }
  // the rows that pass, or all of them and what is wrong with the filter
  function filtered(q, state, own, everything, isSide) {
    const by = q.by ?? 'name',
      group = given.groups[by];
    let rows = everything;
    try {
      const parsed = parseQuery(q.filter ?? ''),
        [query, narrow, rest] = narrowed(given, parsed, state, own);
      if (query.conditions.length < parsed.conditions.length) rows = rowsOf('all', by, group, columns[by], rest, narrow);
      rows = rows.filter(isSide);
      if (query.conditions.length || hasText(query)) rows = passing(rows.map(seen(by, group)), filterColumns(by), query);
      return [rows, ''];
    } catch (error) {
      return [rows.filter(isSide), String(error.message)];
    }
  }
  const filterColumns = (by) => [
    ...(by === 'module' ? ['module'] : by === 'shapes' ? ['name', 'shapes'] : ['name']),
    ...['count', 'total_ns', 'self_ns', 'device_ns', 'share', 'mean_ns'],
  ];
  const seen = (by, group) => (row) => ({
    ...row,
    [by === 'module' ? 'module' : 'name']: group.labels[row.g],
    shapes: group.details?.[row.g],
    mean_ns: row.total_ns / Math.max(row.count, 1),
  });
  return function table(q, state) {
    const by = q.by ?? 'name',
      group = given.groups[by],
      own = by === 'name' ? ['name'] : by === 'category' ? ['category'] : [],
      codes = columns[by],
      picked = own.length && state[own[0]] ? new Set(state[own[0]]) : null,
      isPicked = (row) => !picked || picked.has(group.labels[row.g]);
    const everything = rowsOf('all', by, group, codes, own, state),
      scope = q.scope ?? 'all';
    const sum = (name) => everything.reduce((s, row) => s + (isPicked(row) ? row[name] : 0), 0),
      content = {by, count: sum('touched'), self_ns: sum('self_ns'), ...(left?.isPart(state, own) ? {estimate: true} : {})};
    const isSide = (row) => scope === 'all' || row.side === (scope === 'device' ? 1 : 0),
      [rows, error] = filtered(q, state, own, everything, isSide);
    content.error = error;
    const sort = TABLE_NUMBERS.includes(q.sort) ? q.sort : 'self_ns',
      up = q.descending === false ? 1 : -1,
      label = (row) => folded(group.labels[row.g]);
    rows.sort(
      q.sort === 'label'
        ? (p, r) => (label(p) < label(r) ? -1 : label(p) > label(r) ? 1 : 0) * (q.descending ? -1 : 1)
        : (p, r) => up * (p[sort] - r[sort]),
    );
    const start = Math.max(0, q.start ?? 0),
      stop = start + Math.max(1, Math.min(q.top ?? 200, 1000)),
      extra = picked && !start ? rows.slice(stop).filter(isPicked) : [],
      shown = rows.slice(start, stop).concat(extra).slice(0, 1000),
      column = (name) => Float64Array.from(shown, (row) => row[name]);
    return reply(
      {
        ...content,
        rows: rows.length,
        start,
        label: shown.map((row) => group.labels[row.g]),
        detail: shown.map((row) => group.details?.[row.g] ?? ''),
      },
      {
        name: Uint32Array.from(shown, (row) => (group.names ? group.names[row.g] : by === 'name' ? row.g : 0xffffffff)),
        side: Uint8Array.from(shown, (row) => row.side),
        ...Object.fromEntries(['share', 'count', 'total_ns', 'self_ns', 'device_ns'].map((name) => [name, column(name)])),
      },
    );
  };
}

// The slice around every slice: the last one of the row above that began before it; -1 at the top.
function parentsOf(columns, given, index) {
  const parent = new Int32Array(columns.row.length).fill(-1);
  for (let row = 1; row < given.trackOfRow.length; row++) {
    if (given.trackOfRow[row] !== given.trackOfRow[row - 1]) continue;
    let above = index.pointer[row - 1];
    const stop = index.pointer[row];
    for (let p = index.pointer[row]; p < index.pointer[row + 1]; p++) {
      while (above + 1 < stop && index.order[above + 1] < index.order[p]) above++;
      parent[index.order[p]] = index.order[above];
    }
  }
  return parent;
}
