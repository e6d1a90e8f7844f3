// The timeline: asks for what is in view and beside it, draws the answer, finds what is under the pointer. The picture moves
// with the hand in the next frame; fresh data follow where it does not reach.
// Asked for: a share of the view more on each side, in bins finer than pixels. So a pan or a turn of the wheel within that
// shows right pixels in the next frame, and the next answer is on its way before they end.
const OVERSCAN = 0.36;
const FINER = 1.27;
const SETTLE_MS = 120;
const MOST_QUADS = 4000;
const MOST_LANES_SHOWN = 24;

const shownLanes = (lanes) => Math.max(3, Math.min(lanes.count(), MOST_LANES_SHOWN));

function createTimeline(ctx, element) {
  const {host, settings, store, meta} = ctx;
  const figure = host.model('timeline'),
    view = host.viewOf(figure),
    range = host.model('view');
  const sources = Object.fromEntries(
    ['focus', 'rules', 'links', 'heads'].map((name) => [name, host.model(name)]),
  );
  const laneRange = host.model('lanes'),
    lanes = createLanes(meta);
  const gutter = createGutter(ctx, lanes, (why) => {
    if (why === 'layout') relayout();
    else scrolled();
  });
  element.append(gutter.box, gutter.top);
  let have = null,
    changed = true, // what was asked for must be asked again, wherever the view is
    settleTimer = 0,
    detail = null;
  const painter = createPainter(view, range, laneRange);

  const counters = createCounters(ctx, view, lanes);
  lanes.visible = () => lanes.all().slice(...visibleSpan());
  const failed = (error) => {
    changed = true;
    ctx.trouble(error);
  };
  const channel = ctx.asker.channel(request, arrived, failed, PICTURED);
  const widthPx = () => Math.max(1, view.frame.bbox.width),
    timeScale = () => widthPx() / (range.end - range.start);

  function relayout() {
    const shown = shownLanes(lanes);
    figure.height = settings.axis + shown * settings.lane;
    gutter.box.style.height = `${shown * settings.lane}px`;
    scrolled();
  }
  function scrolled() {
    const shown = shownLanes(lanes),
      top = gutter.box.scrollTop / settings.lane;
    if (laneRange.start !== top + shown || laneRange.end !== top) laneRange.setv({start: top + shown, end: top});
    rules();
    counters.scrolled();
    if (have && have.lanes !== laneKey()) refresh();
    else if (have) draw();
  }
  const visibleSpan = () => [
    Math.max(0, Math.floor(laneRange.end) - 2),
    Math.min(lanes.count(), Math.ceil(laneRange.start) + 2),
  ];
  function visibleLanes() {
    const [first, last] = visibleSpan();
    const places = [],
      rows = [];
    lanes
      .all()
      .slice(first, last)
      .forEach((lane, i) => {
        if (lane.kind === 'lane') {
          places.push(first + i);
          rows.push(lane.row);
        }
      });
    return {places, rows};
  }
  const laneKey = () => visibleLanes().rows.join();

  function refresh() {
    changed = true;
    channel.run();
  }
  const wantedPx = () => Math.round(widthPx() * (1 + 2 * OVERSCAN) * FINER);
  function request(must) {
    const serves = reach() === 'all' && have.lanes === laneKey() && have.tint === ctx.tint && have.asked.px === wantedPx();
    if (!must && !changed && serves) return null;
    changed = false;
    if (serves) return {...have.asked, picture: have.answer.picture}; // what of it is selected may have changed
    const a = range.start,
      b = range.end,
      width = b - a,
      {rows, places} = visibleLanes();
    return {
      t: 'lod',
      a: a - OVERSCAN * width,
      b: b + OVERSCAN * width,
      px: wantedPx(),
      rows,
      places,
      zoom: width,
      tint: ctx.tint,
      max_quads: MOST_QUADS,
    };
  }
  function arrived(found, asked, stale) {
    const {picture, ...place} = asked,
      answer = found.same ? {...have.answer, filtered: found.filtered, data: {...have.answer.data, ...found.data}} : found,
      next = {answer, asked: place, tint: asked.tint, places: asked.places, a: asked.a, b: asked.b, zoom: asked.zoom, lanes: asked.rows.join()};
    if (stale && (reach(next) === 'none' || reach() === 'all')) return; // what is shown is newer, or as good
    have = next;
    draw();
    ctx.count('timeline');
  }
  // how far a picture serves the view: 'none' (pixels are missing), 'now' (but another one should be asked for), 'all'
  function reach(picture = have) {
    if (!picture) return 'none';
    const width = range.end - range.start,
      zoom = width / picture.zoom,
      beside = Math.min(range.start - picture.a, picture.b - range.end) / width;
    if (beside < 0 || zoom < 0.7 / FINER) return 'none';
    return zoom < 1 / FINER || zoom > 1.4 || beside < OVERSCAN / 2 ? 'now' : 'all';
  }
  function moved() {
    // on every change of the range, once a frame
    clearTimeout(settleTimer);
    settleTimer = setTimeout(ctx.settled, SETTLE_MS);
    if (reach() !== 'all') channel.run();
    counters.moved();
  }

  // What was clicked shows in the next frame: of each slice the page knows the name, of a bin that of its longest one. What
  // the kernel finds follows.
  function foresee() {
    const chosen = store.get(),
      known = PICTURED.every((key) => key === 'name' || chosen[key] == null);
    if (!have || !known) return;
    const {data} = have.answer,
      names = chosen.name && new Set(chosen.name),
      marks = (codes, yes) => Uint8Array.from(codes, (code) => (!names || names.has(ctx.nameOf(code)) ? yes : 0));
    const seen = {...data, match: marks(data.name, 1)};
    if (data.bright) seen.bright = marks(data.dname, 255);
    have = {...have, answer: {...have.answer, filtered: Boolean(names), data: seen}};
    draw();
  }

  const isMatch = (data, i) => data.match[i] === 1;
  function draw() {
    const {answer, places} = have,
      {data} = answer,
      dim = parseColour(ctx.theme.dim),
      own = Array.from({length: 256}, (_, code) => {
        const rgb = ctx.palettes.colour(ctx.tint, code);
        return {colour: ctx.palettes.css(rgb), ink: textOn(rgb)};
      }),
      other = {colour: ctx.palettes.css(dim), ink: ctx.theme.muted};
    const items = stepItems();
    for (let i = 0; i < data.x0.length; i++) {
      items.push({
        ...(isMatch(data, i) ? own[data.tint[i]] : other),
        start: data.x0[i],
        length: data.dur[i],
        place: places[data.slot[i]],
        inset: 0.07,
        text: ctx.nameOf(data.name[i]),
      });
    }
    painter.show(items, answer.mode === 'dense' ? density(answer, places) : null);
    focusMark();
  }
  const density = (answer, places) => ({
    cells: densityColours(answer, ctx),
    bins: answer.bins,
    slots: places.length,
    places,
    start: answer.bin_start,
    ns: answer.bin_ns,
  });
  function stepItems() {
    const {step, ts, dur} = meta.stepColumns,
      chosen = store.get().step,
      dim = parseColour(ctx.theme.dim),
      own = parseColour(meta.colours.step);
    const out = [];
    if (!step.length || range.end - range.start > 2e5 * Math.max(dur[0], 1)) return out;
    for (let i = 0; i < step.length; i++) {
      if (ts[i] + dur[i] < have.a || ts[i] > have.b) continue;
      const rgb = chosen && !chosen.includes(step[i]) ? dim : own;
      out.push({
        start: ts[i],
        length: dur[i],
        place: 0,
        inset: 0.12,
        colour: ctx.palettes.css(rgb),
        text: `step ${step[i]}`,
        ink: textOn(rgb),
      });
    }
    return out.length > 600 ? [] : out;
  }
  function rules() {
    // thin lines above every track
    const y = [],
      far = (meta.span[1] - meta.span[0]) * 4;
    lanes.all().forEach((lane, i) => {
      if (i && (lane.kind === 'group' || lane.first)) y.push(i);
    });
    renew(sources.rules, {x0: y.map(() => meta.span[0] - far), x1: y.map(() => meta.span[1] + far), y0: y, y1: y});
  }
  function focusMark() {
    if (!detail) {
      renew(sources.focus, {x0: [], x1: [], y0: [], y1: []});
      renew(sources.links, {xs: [], ys: []});
      renew(sources.heads, {x: [], y: []});
      return;
    }
    const place = lanes.placeOfRow(detail.row),
      px = 1 / timeScale();
    renew(
      sources.focus,
      place < 0
        ? {x0: [], x1: [], y0: [], y1: []}
        : {x0: [detail.ts], x1: [detail.ts + Math.max(detail.dur, 2 * px)], y0: [place + 0.04], y1: [place + 0.96]},
    );
    const xs = [],
      ys = [];
    for (const link of detail.links ?? []) {
      const other = lanes.placeOfRow(link.row);
      if (other < 0 || place < 0) continue;
      const ends = link.direction === 'to' ? [detail.ts, link.ts] : [link.ts, detail.ts];
      const at = link.direction === 'to' ? [place + 0.5, other + 0.5] : [other + 0.5, place + 0.5];
      const middle = (ends[0] + ends[1]) / 2;
      xs.push([ends[0], middle, middle, ends[1]]);
      ys.push([at[0], at[0], at[1], at[1]]);
    }
    renew(sources.links, {xs, ys});
    renew(sources.heads, {x: xs.map((x) => x[3]), y: ys.map((y) => y[3])});
  }
  // What is at a point: {kind: 'slice' | 'bin' | 'step' | null, …}
  function hit(time, y) {
    const lane = lanes.at(y);
    if (!lane || !have) return {kind: null};
    if (lane.kind === 'steps') {
      const {step, ts, dur} = meta.stepColumns;
      for (let i = 0; i < step.length; i++)
        if (time >= ts[i] && time < ts[i] + dur[i]) return {kind: 'step', step: step[i], ts: ts[i], dur: dur[i]};
      return {kind: null};
    }
    if (lane.kind === 'counter') {
      const value = counters.valueAt(lane.counter.track, time);
      return value === null ? {kind: null} : {kind: 'counter', counter: lane.counter, value};
    }
    if (lane.kind !== 'lane') return {kind: null};
    const place = lanes.all().indexOf(lane),
      slot = have.places.indexOf(place),
      {data, bins} = have.answer,
      near = 2 / timeScale();
    let best = -1;
    for (let i = 0; i < data.x0.length; i++) {
      if (data.slot[i] !== slot || time < data.x0[i] - near || time >= data.x0[i] + Math.max(data.dur[i], near)) continue;
      if (best < 0 || data.x0[i] >= data.x0[best]) best = i;
    }
    if (best >= 0)
      return {
        kind: 'slice',
        id: data.id[best],
        name: ctx.nameOf(data.name[best]),
        ts: data.x0[best],
        dur: data.dur[best],
        track: lane.track,
      };
    if (!bins) return {kind: null};
    const k = Math.floor((time - have.answer.bin_start) / have.answer.bin_ns),
      cell = slot * bins + k;
    if (k < 0 || k >= bins || !data.count[cell]) return {kind: null};
    return {
      kind: 'bin',
      name: ctx.nameOf(data.dname[cell]),
      count: data.count[cell],
      busy: data.busy[cell] / 255,
      ts: have.answer.bin_start + k * have.answer.bin_ns,
      dur: have.answer.bin_ns,
      sums: have.answer.sums,
      track: lane.track,
    };
  }
  relayout();
  return {
    element,
    view,
    figure,
    lanes,
    moved,
    hit,
    refresh: () => {
      refresh();
      counters.refresh();
    },
    foresee,
    marks: () => gutter.render(),
    counters,
    close: () => {
      clearTimeout(settleTimer);
      channel.close();
      counters.close();
    },
    repaint: () => {
      if (have) draw();
    },
    scrollBy: (px) => {
      gutter.box.scrollTop += px;
    },
    showRow(row) {
      if (lanes.reveal(row)) {
        gutter.render();
        relayout();
      }
      const top = lanes.placeOfRow(row) * settings.lane,
        box = gutter.box;
      if (top < box.scrollTop || top + settings.lane > box.scrollTop + box.clientHeight)
        box.scrollTop = top - box.clientHeight / 2;
    },
    firstRow: () => visibleLanes().rows.find((row) => lanes.placeOfRow(row) >= laneRange.end) ?? 0,
    laneAt: (event) => {
      const f = frameOf(view, element);
      return laneRange.end + (event.clientY - f.top) / settings.lane;
    },
    setDetail(next) {
      detail = next;
      focusMark();
    },
    snapshot: () => ({
      mode: have?.answer.mode,
      quads: have?.answer.quads,
      total: have?.answer.total,
      filtered: have?.answer.filtered,
      matched: have ? have.answer.data.match.reduce((sum, m) => sum + m, 0) : 0,
      labels: painter.labels(),
      links: sources.links.data.xs?.length ?? 0,
      lanes: lanes.count(),
      names: have ? [...new Set(Array.from(have.answer.data.name, ctx.nameOf))] : [],
    }),
    // where a slice of a name is on the screen: what a test, or a tour, needs to point at it
    locate(name, place = 0) {
      if (!have) return null;
      const f = frameOf(view, element),
        {data} = have.answer,
        found = [];
      for (let i = 0; i < data.x0.length; i++) {
        if (ctx.nameOf(data.name[i]) !== name) continue;
        const x = f.left + (data.x0[i] + data.dur[i] / 2 - range.start) * timeScale(),
          y = f.top + (have.places[data.slot[i]] + 0.5 - laneRange.end) * settings.lane;
        if (x > f.left + 4 && x < f.left + f.width - 4)
          found.push({x, y, id: data.id[i], dur: data.dur[i], width: data.dur[i] * timeScale()});
      }
      found.sort((p, q) => q.dur - p.dur);
      return found[place] ?? null;
    },
  };
}
