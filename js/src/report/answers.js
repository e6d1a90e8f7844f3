// The kernel's answers, computed in the page from the columns of a report: same questions, same content.
// Python's twin of every function is in views/answers and views/lod; tests/browser/test_report.py holds them together.
function createLocal(columns, given, store) {
  const {meta} = given,
    left = createLeftOut(given),
    index = createIndex(columns, given.trackOfRow),
    matching = createMatching(columns, given),
    leftMatching = (state, without) => left?.shares(state, without) ?? null;
  const tintOf = (tint, i) => {
    if (tint === 'module' || tint === 'step') {
      const own = columns[tint]?.[i] ?? -1;
      return own < 0 ? 255 : own % given.meta.colours.names.length;
    }
    const code = tint === 'name' ? given.colours[columns.name[i]] : columns[tint][i];
    return code < 0 ? 255 : code;
  };

  const estimate = (part) => (left && part ? {estimate: true} : {});
  const bins = createLocalBins(columns, given, index, tintOf, left);
  function lod(q, state) {
    const limit = Math.min(q.max_quads ?? 4000, 4000),
      rows = q.rows ?? [],
      mask = matching(state, ['window', 'track']),
      tint = q.tint ?? 'name';
    const stretches = rows.map((row) => index.stretch(row, Math.floor(q.a), Math.ceil(q.b)));
    const summed = left ? rows.reduce((sum, row) => sum + left.among(row, q.a, q.b), 0) : 0,
      single = stretches.reduce((sum, [first, stop]) => sum + stop - first, 0),
      least = single <= limit ? -1 : (2 * (q.b - q.a)) / q.px;
    let chosen = [];
    stretches.forEach(([first, stop], slot) => {
      for (let p = first; p < stop; p++) if (index.end[p] - index.start[p] >= least) chosen.push([p, slot]);
    });
    if (chosen.length > limit) {
      const lengths = Float64Array.from(chosen, ([p]) => index.start[p] - index.end[p]).sort();
      chosen = chosen.filter(([p]) => index.start[p] - index.end[p] <= lengths[limit - 1]).slice(0, limit);
    }
    const drawn = left && new Set(chosen.map(([p]) => p)),
      dense =
        single > limit || summed
          ? bins(rows, q.a, q.b, q.px, mask, leftMatching(state, ['window', 'track']), tint, drawn)
          : {where: {mode: 'all', bins: 0}, out: {}},
      total = single + Math.ceil(summed);
    const of = (Kind, value) => Kind.from(chosen, value),
      slice = ([p]) => index.order[p];
    return reply(
      {total, quads: chosen.length, filtered: mask !== null, ...dense.where},
      {
        x0: of(Float64Array, ([p]) => index.start[p]),
        dur: of(Float64Array, ([p]) => index.end[p] - index.start[p]),
        slot: of(Uint16Array, ([, slot]) => slot),
        name: of(Uint32Array, (c) => Math.max(columns.name[slice(c)], 0)),
        tint: of(Uint8Array, (c) => tintOf(tint, slice(c))),
        id: of(Uint32Array, slice),
        match: of(Uint8Array, (c) => (mask ? mask[slice(c)] : 1)),
        ...dense.out,
      },
    );
  }
  function strip(q, state) {
    const rows = meta.tracks.slice(0, 14).map((track) => track.row),
      mask = matching(state, ['window', 'track']);
    const crumbMask = leftMatching(state, ['window', 'track']),
      {where, out} = bins(rows, meta.span[0], meta.span[1], q.px, mask, crumbMask, q.tint ?? 'name');
    delete out.count;
    return reply({rows: rows.length, filtered: mask !== null, ...where}, out);
  }
  const table = createLocalTable(columns, given, index, matching, left);
  function memory(q, state) {
    if (!given.memory.length)
      return reply(
        {device: null},
        Object.fromEntries(['x', 'y', 'rx', 'ry', 'sx', 'sy'].map((name) => [name, new Float64Array(0)])),
      );
    const one = given.memory.find((m) => m.device === q.device) ?? given.memory[0],
      {ts, allocated, reserved, owner} = one.columns,
      n = ts.length;
    const mask = matching(state, ['window']),
      alive = mask && owner.length ? aliveOf(mask, leftMatching(state, ['window']), {...one.columns, ts: one.columns.blocks_ts ?? ts}) : null; // a thinned curve has no owners
    const sample = (values) => sampleCurve(ts, values, q.a, q.b, q.px ?? 1000),
      [x, y] = sample(allocated);
    const [rx, ry] = one.reserved ? sample(reserved) : [new Float64Array(0), new Float64Array(0)],
      blocks = !mask && one.columns.blocks ? [one.columns.blocks_ts, one.columns.blocks] : null,
      [sx, sy] = alive || blocks ? sampleCurve(...(alive ?? blocks), q.a, q.b, q.px ?? 1000) : [new Float64Array(0), new Float64Array(0)];
    let inWindow = null;
    if (state.window) {
      const i = Math.max(lowerBound(ts, 0, n, state.window[0] + 1) - 1, 0),
        j = lowerBound(ts, 0, n, state.window[1]);
      for (let k = i; k < j; k++) if (!inWindow || allocated[k] > inWindow.bytes) inWindow = {ts: ts[k], bytes: allocated[k]};
    }
    return reply(
      {device: one.device, part: blocks ? 'blocks' : 'selection', peak: one.peak, window_peak: inWindow, highest: one.highest, lowest: 0},
      {x, y, rx, ry, sx, sy},
    );
  }
  // bytes alive that slices of the mask have allocated; it begins and ends with the recording, at nothing
  function aliveOf(mask, crumbMask, {ts, bytes, owner}) {
    const x = [ts[0]],
      y = [0];
    for (let i = 0, sum = 0; i < ts.length; i++) {
      if (owner[i] < 0) continue;
      const share = owner[i] < mask.length ? mask[owner[i]] : crumbMask[owner[i] - mask.length];
      if (!share) continue;
      x.push(ts[i]);
      y.push((sum += share * bytes[i]));
    }
    return [[...x, ts[ts.length - 1]], [...y, y[y.length - 1]]];
  }
  function counters(q) {
    const tracks = (q.tracks ?? []).filter((track) => given.counters[track]).slice(0, 24),
      parts = tracks.map((track) => sampleCurve(given.counters[track].ts, given.counters[track].value, q.a, q.b, q.px ?? 1000)),
      join = (k) => Float64Array.from(parts.flatMap((part) => Array.from(part[k])));
    return reply({tracks, sizes: parts.map(([x]) => x.length)}, {x: join(0), y: join(1)});
  }
  function phases(q, state) {
    const {content, data} = given.phases,
      mask = matching(state, ['step', 'phase', 'window']),
      cells = content.phases.length;
    const part = new Float64Array(mask ? data.total.length : 0);
    if (mask && content.bars) {
      const stream = new Set(meta.tracks.filter((t) => t.kind === 'stream').map((t) => t.track)),
        host = (i) => !stream.has(given.trackOfRow[columns.row[i]]);
      let any = false;
      for (let i = 0; i < mask.length && !any; i++) any = mask[i] === 1 && host(i);
      const crumbMask = leftMatching(state, ['step', 'phase', 'window']);
      left?.selfOf(crumbMask, 'host', () => (any = true));
      const place = [...meta.phases.map((name) => content.phases.indexOf(name)), cells - 1];
      for (let i = 0; i < mask.length; i++) {
        if (!mask[i] || columns.step[i] < 0 || (any && !host(i))) continue;
        let bar = lowerBound(data.first, 0, data.first.length, columns.step[i] + 1) - 1;
        if (bar < 0 || columns.step[i] > data.last[bar]) continue;
        const phase = columns.phase[i],
          cell = bar * cells + (phase < 0 ? cells - 1 : place[phase]);
        part[cell] += (columns.dur[i] - columns.inside[i]) / (data.last[bar] - data.first[bar] + 1);
      }
      if (left) addCrumbs(part, crumbMask, any ? 'host' : 'device', place, cells);
      for (let c = 0; c < part.length; c++) part[c] = Math.min(part[c], data.total[c]);
    }
    return reply({...content, filtered: mask !== null, ...estimate(mask !== null)}, {...data, part});
  }
  // self time of what was left out, spread evenly over its coarse cell
  function addCrumbs(part, crumbMask, which, place, cells) {
    const {first, last, ts, end} = given.phases.data,
      ofCell = Array.from({length: left.coarse}, () => []);
    for (let bar = 0; bar < ts.length; bar++)
      left.timeShares([[ts[bar], end[bar]]]).forEach((share, cell) => {
        if (share) ofCell[cell].push([bar, share / (last[bar] - first[bar] + 1)]);
      });
    left.selfOf(crumbMask, which, (cell, phase, ns) => {
      for (const [bar, share] of ofCell[cell]) part[bar * cells + (phase < 0 ? cells - 1 : place[phase])] += ns * share;
    });
  }
  const argumentsOf = createLocalArguments(given.told);
  async function detail(q) {
    const i = q.id;
    if (!(i >= 0 && i < columns.row.length)) return reply({found: false});
    const row = columns.row[i],
      track = meta.tracks.find((t) => row >= t.row && row < t.row + t.depths),
      text = (list, code) => (code >= 0 ? (list?.[code] ?? '') : '');
    let parent = null;
    if (row > track.row) {
      const above = lowerBound(index.start, index.pointer[row - 1], index.pointer[row], columns.ts[i] + 0.5) - 1;
      if (above >= index.pointer[row - 1] && index.end[above] >= columns.ts[i])
        parent = {id: index.order[above], name: given.names[columns.name[index.order[above]]]};
    }
    const module = columns.module ? text(given.groups.module?.labels, columns.module[i]) : '',
      shapes = columns.shapes ? (given.groups.shapes?.details[columns.shapes[i]] ?? '') : '';
    return reply({
      found: true,
      id: i,
      name: given.names[columns.name[i]],
      category: text(meta.categories, columns.category[i]),
      track_name: track.name,
      group: track.group,
      row,
      depth: row - track.row,
      ts: columns.ts[i],
      dur: columns.dur[i],
      self_ns: columns.dur[i] - columns.inside[i],
      step: columns.step[i] < 0 ? null : columns.step[i],
      phase: text(meta.phases, columns.phase[i]),
      module,
      shapes,
      parent,
      ...(await argumentsOf(i)),
      stack: [],
      links: linksOf(i),
    });
  }
  function linksOf(i) {
    const {flow_src: src, flow_dst: dst, flow_kind: kind} = columns,
      out = [];
    for (const [mine, other, direction] of [
      [src, dst, 'to'],
      [dst, src, 'from'],
    ]) {
      for (let k = 0, found = 0; k < mine.length && found < 20; k++) {
        if (mine[k] !== i) continue;
        const end = other[k];
        found++;
        out.push({
          kind: given.flowKinds[kind[k]],
          direction,
          id: end,
          name: given.names[columns.name[end]].slice(0, 200),
          ts: columns.ts[end],
          dur: columns.dur[end],
          row: columns.row[end],
        });
      }
    }
    return out;
  }
  const answers = {
    meta: () => reply(meta, given.steps),
    account: () => reply(given.account.content, given.account.data),
    names: () => reply({start: 0, names: given.names, next: null}, {colour: given.colours}),
    lod,
    strip,
    counters,
    table,
    memory,
    phases,
    detail,
    panel: createLocalPanel(given),
    ...createLocalFind(columns, given, index),
  };
  // All is worked out on the page's own thread: the hand first. What can wait comes one a frame, after the frame in which what
  // was clicked shows; also the timeline's marks, where its picture stays (`picture`).
  const CAN_WAIT = ['table', 'strip', 'phases', 'memory', 'counters'];
  let turns = Promise.resolve();
  const painted = () => new Promise((done) => (document.hidden ? done() : requestAnimationFrame(() => setTimeout(done, 0))));
  return {
    async request(q) {
      if (CAN_WAIT.includes(q.t) || 'picture' in q) await (turns = turns.then(painted));
      const began = performance.now();
      let answer;
      try {
        answer = await answers[q.t](q, store.get());
      } catch (error) {
        answer = reply({failed: String(error)});
      }
      Object.assign(answer.content, {seq: q.seq, ms: performance.now() - began});
      return answer;
    },
  };
}
