// Sums of the slices that are not in the file one by one: twin of views/left_out.py and views/left_totals.py.
// Cells (fine): how busy a row is when, exact at their edges. Crumbs (coarse): how the totals of every name spread over
// time, for estimates of a part of the recording.
const CLAUSES = ['name', 'category', 'track', 'step', 'phase', 'rank', 'window'];

function createLeftOut(given) {
  if (!given.left) return null;
  const {origin, cell, cells, fine, coarse, placeOfRow, columns, kinds, totals} = given.left,
    {at, busy, count, kind, crumb_at: crumbAt, crumb_kind: crumbKind, crumb_weight: weight} = columns,
    crumbs = crumbAt.length,
    wide = fine * cell, // ns
    kindOf = new Map(given.meta.tracks.map((t) => [t.track, t.kind])),
    rows = placeOfRow.length,
    rowKinds = Array.from(given.trackOfRow, (track) => kindOf.get(track)),
    places = 1 + placeOfRow.reduce((most, place) => Math.max(most, place), 0),
    pointer = new Uint32Array(rows + 1);
  for (let row = 0, p = 0; row < rows; pointer[++row] = p) while (p < at.length && at[p] < (row + 1) * cells) p++;
  const sideOfPlace = new Array(places);
  for (let row = 0; row < rows; row++) sideOfPlace[placeOfRow[row]] = rowKinds[row];
  const of = Object.fromEntries(Object.keys(kinds).map((key) => [key, (j) => kinds[key][crumbKind[j]]])),
    work = new Set(['kernel', 'memcpy', 'memset', 'collective']),
    sideOf = (j) => {
      const place = sideOfPlace[Math.floor(crumbAt[j] / coarse)];
      if (place === 'thread' || place === 'process') return 'host';
      return place === 'stream' && work.has(given.meta.categories[of.category(j)]) ? 'device' : '';
    },
    side = Array.from({length: crumbs}, (_, j) => sideOf(j));

  const active = (state, without) => CLAUSES.filter((d) => state[d] != null && !without.includes(d));
  // the share of every coarse cell that lies in some windows
  function timeShares(windows) {
    const out = new Float64Array(coarse);
    for (const [a, b] of windows)
      for (let k = Math.max(0, Math.floor((a - origin) / wide)); k < coarse && origin + k * wide < b; k++)
        out[k] += Math.max(0, Math.min(b, origin + (k + 1) * wide, given.meta.span[1]) - Math.max(a, origin + k * wide));
    return out.map((ns, k) => Math.min(1, ns / Math.max(1, Math.min(wide, given.meta.span[1] - origin - k * wide))));
  }
  function stepWindows(steps) {
    const {step, ts, dur} = given.steps,
      wanted = new Set(steps),
      out = [];
    for (let i = 0; i < step.length; i++) if (wanted.has(step[i])) out.push([ts[i], ts[i] + dur[i]]);
    return out;
  }
  // the share of what was left out of every place that lies on tracks that pass
  const busyOfRow = Float64Array.from({length: rows}, (_, row) => {
    let sum = 0;
    for (let p = pointer[row]; p < pointer[row + 1]; p++) sum += busy[p] + count[p];
    return sum;
  });
  function placeShares(passes) {
    const whole = new Float64Array(places),
      part = new Float64Array(places);
    for (let row = 0; row < rows; row++) {
      whole[placeOfRow[row]] += busyOfRow[row];
      if (passes(given.trackOfRow[row])) part[placeOfRow[row]] += busyOfRow[row];
    }
    return part.map((sum, place) => (whole[place] ? sum / whole[place] : 0));
  }
  const memory = new Map();
  // how much of every crumb passes (0–1), or null for all of them
  function shares(state, without) {
    const clauses = active(state, without);
    if (!clauses.length) return null;
    const key = JSON.stringify(clauses.map((d) => [d, state[d]]));
    if (memory.has(key)) return memory.get(key);
    const factors = clauses.map((d) => {
      const values = state[d],
        known = {name: given.names, category: given.meta.categories, phase: given.meta.phases}[d];
      if (known) {
        const codes = new Set(values.map((value) => known.indexOf(value)));
        return (j) => (codes.has(of[d](j)) ? 1 : 0);
      }
      if (d === 'track' || d === 'rank') {
        const tracks = new Set(d === 'track' ? values : given.meta.tracks.filter((t) => values.includes(t.rank)).map((t) => t.track)),
          share = placeShares((track) => tracks.has(track));
        return (j) => share[Math.floor(crumbAt[j] / coarse)];
      }
      if (d === 'window' && clauses.includes('step')) return () => 1; // the steps are cut to it
      const [a, b] = (clauses.includes('window') && state.window) || [-Infinity, Infinity],
        inside = d === 'window' ? [values] : stepWindows(values).map(([c, e]) => [Math.max(a, c), Math.min(b, e)]),
        share = timeShares(inside.filter(([c, e]) => e > c));
      return (j) => share[crumbAt[j] % coarse];
    });
    const out = Float64Array.from({length: crumbs}, (_, j) => factors.reduce((share, factor) => share && share * factor(j), 1));
    if (memory.size > 6) memory.delete(memory.keys().next().value);
    memory.set(key, out);
    return out;
  }

  // -- the timeline: what was left out of a row, cell by cell
  let litKey = null,
    litOf = new Map();
  function litShares(mask) {
    if (litKey === mask) return litOf;
    const all = new Map();
    litOf = new Map();
    for (let j = 0; j < crumbs; j++) {
      all.set(crumbAt[j], (all.get(crumbAt[j]) ?? 0) + weight[j]);
      litOf.set(crumbAt[j], (litOf.get(crumbAt[j]) ?? 0) + weight[j] * mask[j]);
    }
    for (const [place, sum] of all) litOf.set(place, litOf.get(place) / sum);
    litKey = mask;
    return litOf;
  }
  // use(bin, ns, selected ns, slices, cell) for the cells of a row under n bins
  function spread(row, start, width, n, mask, use) {
    const lit = mask && litShares(mask),
      end = start + n * width,
      first = row * cells + Math.max(0, Math.floor((start - origin) / cell));
    for (let p = lowerBound(at, pointer[row], pointer[row + 1], first); p < pointer[row + 1]; p++) {
      const mine = at[p] - row * cells,
        s = origin + mine * cell,
        e = s + cell;
      if (s >= end) break;
      const share = lit ? (lit.get(placeOfRow[row] * coarse + Math.floor(mine / fine)) ?? 0) : 1,
        k1 = Math.min(n - 1, Math.ceil((e - start) / width) - 1);
      for (let k = Math.max(0, Math.floor((s - start) / width)); k <= k1; k++) {
        const part = (Math.min(e, start + (k + 1) * width) - Math.max(s, start + k * width)) / cell;
        if (part > 0) use(k, part * busy[p], part * busy[p] * share, part * count[p], p);
      }
    }
  }
  // slices in the cells under a window; 1 where the cells are only reached into
  const before = new Float64Array(at.length + 1);
  for (let p = 0; p < at.length; p++) before[p + 1] = before[p] + count[p];
  function among(row, a, b) {
    const cellAt = (t) => row * cells + Math.min(Math.max(t, 0), cells),
      first = lowerBound(at, pointer[row], pointer[row + 1], cellAt(Math.floor((a - origin) / cell))),
      stop = lowerBound(at, first, pointer[row + 1], cellAt(Math.ceil((b - origin) / cell)));
    return stop > first ? Math.max(1, before[stop] - before[first]) : 0;
  }
  const busyIn = (row, a, b) => {
    let sum = 0;
    if (row >= 0 && b > a) spread(row, a, b - a, 1, null, (k, ns) => (sum += ns));
    return sum;
  };
  function tintOf(tint, p) {
    const colours = given.meta.colours.names.length,
      code = kinds[tint]?.[kind[p]] ?? -1;
    if (tint !== 'step') return code < 0 ? NO_CODE : tint === 'name' ? given.colours[code] : tint === 'module' ? code % colours : code;
    const middle = origin + ((at[p] % cells) + 0.5) * cell,
      {step, ts, dur} = given.steps,
      i = lowerBound(ts, 0, ts.length, middle) - 1;
    return i >= 0 && middle < ts[i] + dur[i] ? step[i] % colours : NO_CODE;
  }

  // -- the table: totals by group, exact of everything and in proportion to the crumbs of a part
  const weights = (by, which, mask) => {
    const sums = new Map();
    let every = 0;
    for (let j = 0; j < crumbs; j++) {
      if (side[j] !== which) continue;
      const part = mask ? weight[j] * mask[j] : weight[j],
        code = of[by](j);
      sums.set(code, (sums.get(code) ?? 0) + part);
      every += part;
    }
    return {sums, every};
  };
  const whole = new Map();
  const wholeWeights = (by, which) => {
    const key = `${by} ${which}`;
    if (!whole.has(key)) whole.set(key, weights(by, which, null));
    return whole.get(key);
  };
  // which share of a group's total is in the part that a mask leaves; `rest` where nothing tells
  function ratios(by, group, which, mask, rest) {
    if (!mask) return () => 1;
    const key = by === 'shapes' ? 'name' : by,
      part = weights(key, which, mask),
      all = wholeWeights(key, which),
      overall = rest ?? (all.every ? part.every / all.every : 0),
      code = by === 'shapes' ? (g) => group.names[g] : (g) => g;
    return (g) => {
      const sum = all.sums.get(code(g));
      return sum ? (part.sums.get(code(g)) ?? 0) / sum : overall;
    };
  }
  // device time that was launched: when it ran, and for chosen names what they have launched of it
  function deviceRatios(by, group, state, own) {
    const when = shares({...state, name: null, category: null, track: null}, own),
      {every} = wholeWeights('name', 'device'),
      ran = when && every ? weights('name', 'device', when).every / every : 1,
      ratio = ratios(by, group, 'host', when, ran);
    if (state.name == null || own.includes('name')) return ratio;
    const launched = totals['name host device_ns'],
      named = state.name.reduce((sum, name) => sum + (launched[given.names.indexOf(name)] ?? 0), 0),
      share = Math.min(1, named / launched.reduce((most, ns) => Math.max(most, ns), Math.max(1, every)));
    return (g) => share * ratio(g);
  }
  function addTo(out, by, group, which, state, own) {
    const covers = state.window && state.window[0] <= given.meta.span[0] && state.window[1] >= given.meta.span[1],
      asked = covers ? {...state, window: null} : state,
      ratio = ratios(by, group, which, shares(asked, own)),
      device = which === 'host' ? deviceRatios(by, group, asked, own) : ratio;
    for (const name of Object.keys(out)) {
      const sums = totals[`${by} ${which} ${name}`],
        share = name === 'device_ns' ? device : ratio;
      for (let g = 0; g < sums.length; g++) if (sums[g]) out[name][g] += Math.round(sums[g] * share(g));
    }
  }
  // self time of the selected ones by step and phase: use(crumb, coarse cell, phase, ns)
  function selfOf(mask, which, use) {
    const self = totals[`name ${which} self_ns`],
      {sums} = wholeWeights('name', which);
    for (let j = 0; j < crumbs; j++)
      if (mask[j] && side[j] === which)
        use(crumbAt[j] % coarse, of.phase(j), (self[of.name(j)] * weight[j] * mask[j]) / sums.get(of.name(j)));
  }
  return {
    cell,
    origin,
    coarse,
    name: (p) => kinds.name[kind[p]],
    shares,
    spread,
    among,
    busyIn,
    tintOf,
    addTo,
    selfOf,
    timeShares,
    isPart: (state, own) => active(state, own).length > 0,
  };
}
