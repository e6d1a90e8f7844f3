// The timeline: asks for what is in view (and half a view on each side), draws the answer, finds what is under
// the pointer. The old picture moves with the hand in the next frame; fresh data follow.
const OVERSCAN = 0.5;
const SETTLE_MS = 120;
const QUADS_MOVING = 1200,
  QUADS_AT_REST = 4000;
const LABELS_MOVING = 40,
  LABELS_AT_REST = 150;
const MOST_LANES_SHOWN = 24;
const NARROWEST_LABEL_PX = 30;

function createTimeline(ctx, element) {
  const {host, settings, store, meta} = ctx;
  const figure = host.model('timeline'),
    view = host.viewOf(figure),
    range = host.model('view');
  const sources = Object.fromEntries(
    ['density', 'slices', 'focus', 'labels', 'rules', 'links', 'heads'].map((name) => [name, host.model(name)]),
  );
  const laneRange = host.model('lanes'),
    lanes = createLanes(meta);
  const gutter = createGutter(ctx, lanes, (why) => {
    if (why === 'layout') relayout();
    else scrolled();
  });
  element.append(gutter.box, gutter.top);
  let have = null,
    moving = false,
    settleTimer = 0,
    detail = null;
  const pen = document.createElement('canvas').getContext('2d');
  pen.font = FONT;
  const widths = new Map();

  const counters = createCounters(ctx, element, view, lanes);
  lanes.visible = () => lanes.all().slice(...visibleSpan());
  const channel = ctx.asker.channel(request, arrived, (error) => ctx.trouble(error), PICTURED);
  const timeScale = () => frameOf(view, element).width / (range.end - range.start);

  function relayout() {
    const shown = Math.max(3, Math.min(lanes.count(), MOST_LANES_SHOWN));
    figure.height = settings.axis + shown * settings.lane;
    gutter.box.style.height = `${shown * settings.lane}px`;
    scrolled();
  }
  function scrolled() {
    const shown = Math.max(3, Math.min(lanes.count(), MOST_LANES_SHOWN)),
      top = gutter.box.scrollTop / settings.lane;
    if (laneRange.start !== top + shown || laneRange.end !== top) laneRange.setv({start: top + shown, end: top});
    rules();
    counters.scrolled();
    if (have && have.lanes !== laneKey()) channel.run();
    else if (have) draw(have.answer, have.places);
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

  function request() {
    const a = range.start,
      b = range.end,
      width = b - a,
      {rows, places} = visibleLanes();
    const px = Math.round(frameOf(view, element).width * (1 + 2 * OVERSCAN));
    return {
      t: 'lod',
      a: a - OVERSCAN * width,
      b: b + OVERSCAN * width,
      px,
      rows,
      places,
      zoom: width,
      tint: ctx.tint,
      max_quads: moving ? QUADS_MOVING : QUADS_AT_REST,
    };
  }
  function arrived(answer, asked, stale) {
    have = {
      answer,
      places: asked.places,
      a: asked.a,
      b: asked.b,
      zoom: asked.zoom,
      lanes: asked.rows.join(),
      full: answer.quads < asked.max_quads || asked.max_quads === QUADS_AT_REST,
    };
    if (stale && !covers()) return;
    draw(answer, asked.places);
    ctx.count('timeline');
  }
  function covers() {
    if (!have) return false;
    const zoom = (range.end - range.start) / have.zoom;
    return range.start >= have.a && range.end <= have.b && zoom > 0.7 && zoom < 1.4;
  }
  function moved() {
    // on every change of the range, once a frame
    moving = true;
    clearTimeout(settleTimer);
    settleTimer = setTimeout(settle, SETTLE_MS);
    if (!covers()) channel.run();
    counters.moved();
  }
  function settle() {
    moving = false;
    if (!covers() || !have.full || have.zoom !== range.end - range.start) channel.run();
    else labels();
    ctx.settled();
  }

  const isMatch = (data, i) => data.match[i] === 1;
  function draw(answer, places) {
    const {data} = answer,
      n = data.x0.length,
      dim = parseColour(ctx.theme.dim),
      px = 1 / timeScale();
    const steps = stepQuads(px),
      m = steps.length;
    const x0 = new Float64Array(n + m),
      x1 = new Float64Array(n + m),
      y0 = new Float32Array(n + m),
      y1 = new Float32Array(n + m);
    const colour = new Uint32Array(n + m);
    for (let i = 0; i < n; i++) {
      const place = places[data.slot[i]],
        dur = data.dur[i];
      x0[i] = data.x0[i];
      x1[i] = data.x0[i] + Math.max(dur - Math.min(0.8 * px, 0.25 * dur), 1.2 * px); // neighbours stay apart, instants stay visible
      y0[i] = place + 0.07;
      y1[i] = place + 0.93;
      colour[i] = columnColour(isMatch(data, i) ? ctx.palettes.colour(ctx.tint, data.tint[i]) : dim);
    }
    steps.forEach((s, i) => {
      x0[n + i] = s.x0;
      x1[n + i] = s.x1;
      y0[n + i] = 0.12;
      y1[n + i] = 0.88;
      colour[n + i] = columnColour(s.rgb);
    });
    view.pause();
    sources.slices.data = {x0, x1, y0, y1, color: host.ndarray(colour, {shape: [n + m], dtype: 'uint32'})};
    if (answer.mode === 'dense') sources.density.data = densityOnLanes(answer, places);
    else sources.density.data = {...NO_IMAGE};
    labels();
    focusMark();
    view.unpause();
  }
  function densityOnLanes(answer, places) {
    // one image over all lanes between the first and the last
    const first = places[0] ?? 0,
      rows = (places[places.length - 1] ?? 0) - first + 1;
    const image = densityImage(
      answer,
      rows,
      places.map((place) => place - first),
      ctx,
    );
    return {...image, y: [first + 0.07], dh: [rows]};
  }
  function stepQuads(px) {
    const {step, ts, dur} = meta.stepColumns,
      chosen = store.get().step,
      dim = parseColour(ctx.theme.dim),
      own = parseColour(meta.colours.step);
    const out = [];
    if (!step.length || range.end - range.start > 2e5 * Math.max(dur[0], 1)) return out;
    for (let i = 0; i < step.length; i++) {
      if (ts[i] + dur[i] < have.a || ts[i] > have.b) continue;
      out.push({
        x0: ts[i],
        x1: ts[i] + Math.max(dur[i] - 1.5 * px, px),
        rgb: chosen && !chosen.includes(step[i]) ? dim : own,
        step: step[i],
      });
    }
    return out.length > 600 ? [] : out;
  }
  function textWidth(text) {
    let width = widths.get(text);
    if (width === undefined) {
      if (widths.size > 20000) widths.clear();
      widths.set(text, (width = pen.measureText(text).width));
    }
    return width;
  }
  function fit(text, room) {
    // the longest beginning that fits, with an ellipsis
    if (textWidth(text) <= room) return text;
    let length = Math.floor((text.length * room) / textWidth(text));
    while (length > 1 && pen.measureText(`${text.slice(0, length)}…`).width > room) length--;
    return length > 1 ? `${text.slice(0, length)}…` : '';
  }
  function labels() {
    if (!have) return;
    const {data} = have.answer,
      a = range.start,
      b = range.end,
      scale = timeScale(),
      wide = [];
    const add = (x0, x1, place, text, ink) => {
      const left = Math.max(x0, a),
        room = (Math.min(x1, b) - left) * scale - 7;
      if (room > NARROWEST_LABEL_PX) wide.push({left, room, place, text, ink});
    };
    for (let i = 0; i < data.x0.length; i++) {
      if (data.dur[i] * scale < NARROWEST_LABEL_PX) continue;
      const ink = isMatch(data, i) ? textOn(ctx.palettes.colour(ctx.tint, data.tint[i])) : ctx.theme.muted;
      add(data.x0[i], data.x0[i] + data.dur[i], have.places[data.slot[i]], ctx.nameOf(data.name[i]), ink);
    }
    for (const s of stepQuads(1 / scale)) add(s.x0, s.x1, 0, `step ${s.step}`, textOn(s.rgb));
    wide.sort((p, q) => q.room - p.room);
    const out = {x: [], y: [], text: [], color: []};
    for (const one of wide.slice(0, moving ? LABELS_MOVING : LABELS_AT_REST)) {
      const text = fit(one.text, one.room);
      if (!text) continue;
      out.x.push(one.left);
      out.y.push(one.place + 0.5);
      out.text.push(text);
      out.color.push(one.ink);
    }
    sources.labels.data = out;
  }
  function rules() {
    // thin lines above every track
    const y = [],
      far = (meta.span[1] - meta.span[0]) * 4;
    lanes.all().forEach((lane, i) => {
      if (i && (lane.kind === 'group' || lane.first)) y.push(i);
    });
    sources.rules.data = {x0: y.map(() => meta.span[0] - far), x1: y.map(() => meta.span[1] + far), y0: y, y1: y};
  }
  function focusMark() {
    if (!detail) {
      sources.focus.data = {x0: [], x1: [], y0: [], y1: []};
      sources.links.data = {xs: [], ys: []};
      sources.heads.data = {x: [], y: []};
      return;
    }
    const place = lanes.placeOfRow(detail.row),
      px = 1 / timeScale();
    sources.focus.data =
      place < 0
        ? {x0: [], x1: [], y0: [], y1: []}
        : {x0: [detail.ts], x1: [detail.ts + Math.max(detail.dur, 2 * px)], y0: [place + 0.04], y1: [place + 0.96]};
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
    sources.links.data = {xs, ys};
    sources.heads.data = {x: xs.map((x) => x[3]), y: ys.map((y) => y[3])};
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
      channel.run();
      counters.refresh();
    },
    marks: () => gutter.render(),
    counters,
    close: () => {
      clearTimeout(settleTimer);
      channel.close();
      counters.close();
    },
    repaint: () => {
      if (have) draw(have.answer, have.places);
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
      labels: sources.labels.data.text,
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
