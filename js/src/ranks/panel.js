// One figure of the ranks' page: draws what the kernel sends, and turns clicks and brushes into selections.
const RANK_DRAG_PX = 4;

function createRankPanel(ctx, spec, box) {
  const {host, store} = ctx,
    view = host.viewOf(host.model(spec.name)),
    title = element('div', 'nbp-rank-title', box);
  box.prepend(title);
  const caption = element('strong', '', title);
  caption.textContent = spec.title;
  const legend = element('span', 'nbp-rank-legend', title);
  for (const [label, colour] of spec.legend) {
    const part = element('span', '', legend);
    element('i', '', part).style.background = colour;
    part.append(label);
  }
  const brush = element('div', 'nbp-rank-brush', box);
  brush.hidden = true;
  const note = element('p', 'nbp-rank-note', box);
  note.hidden = true;
  let drawn = null,
    places = null,
    drag = null;

  const whole = (ticks) => ticks.map((t) => (Number.isInteger(t) ? String(t) : ''));
  const named = (ticks) => ticks.map((t) => drawn?.labels?.[t] ?? '');
  const times = (ticks) => {
    const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : 1,
      largest = Math.max(...ticks.map(Math.abs), 1);
    return ticks.map((t) => (t === 0 ? '0' : formatInstant(t, step, largest)));
  };
  const writers = {rank: whole, step: whole, time: times, 'late rank': named, talk: named};
  for (const axis of ['x', 'y']) formatTicks(host.model(`${spec.name}_${axis}_ticks`), writers[spec[axis]]);

  function draw(next) {
    drawn = next;
    places = null;
    caption.textContent = next.title ?? spec.title;
    note.textContent = next.note ?? '';
    note.hidden = !next.note;
    box.classList.toggle('nbp-rank-empty', Boolean(next.note));
    view.pause?.();
    for (const [name, columns] of Object.entries(next.sources)) host.model(name).data = columns;
    for (const axis of ['x', 'y']) host.model(`${spec.name}_${axis}s`).setv({start: next[axis][0], end: next[axis][1]});
    if (next.colours) {
      host.model(`${spec.name}_colours`).setv({low: next.colours[0], high: next.colours[1]});
      legend.replaceChildren();
      if (!next.note) legend.append(next.scale[0]);
      if (next.scale.length > 1) {
        element('b', 'nbp-rank-scale', legend);
        legend.append(next.scale[1]);
      }
    }
    view.unpause?.();
    frameWindow();
  }
  function frameWindow() {
    const chosen = store.get().window;
    host.model(`${spec.name}_window`)?.setv({visible: Boolean(chosen), left: chosen?.[0] ?? 0, right: chosen?.[1] ?? 1});
  }

  const at = (event) => {
    const rect = view.el.getBoundingClientRect(),
      frame = view.frame;
    return [frame.x_scale.invert(event.clientX - rect.left), frame.y_scale.invert(event.clientY - rect.top)];
  };
  const inside = (event) => {
    const f = frameOf(view, view.el);
    return event.clientX >= f.left && event.clientX <= f.left + f.width && event.clientY >= f.top && event.clientY <= f.top + f.height;
  };
  function hit(event) {
    if (!drawn || !inside(event)) return -1;
    const [x, y] = at(event);
    if (spec.name === 'late') return drawn.rank[Math.round(x)] === undefined ? -1 : Math.round(x);
    if (spec.name === 'talk') return drawn.members[Math.round(y)] === undefined ? -1 : Math.round(y);
    if (spec.name === 'marey') {
      const {y: rows, left, right} = drawn.sources.marey_data;
      return rows.findIndex((row, i) => row === Math.round(y) && left[i] <= x && x <= right[i]);
    }
    if (spec.name === 'heat' || spec.name === 'links') {
      const data = drawn.sources[`${spec.name}_data`];
      places ??= new Map(data.x.map((value, i) => [`${value},${data.y[i]}`, i]));
      return places.get(`${Math.round(x)},${Math.round(y)}`) ?? -1;
    }
    return drawn.rank.indexOf(Math.round(x));
  }
  // the heat map and Marey's figure have a row for each rank and step: too many to write out
  const byStep = spec.name === 'heat' || spec.name === 'marey';
  const rowOf = (i) => {
    const data = drawn.sources[`${spec.name}_data`];
    if (spec.name === 'heat') return {rank: data.y[i], step: data.x[i], ns: data.value[i]};
    return {rank: data.y[i], step: data.step[i], ns: data.right[i] - data.left[i]};
  };
  const linesOf = (i) => {
    if (!byStep) return drawn.tips[i].split('\n');
    const {rank, step, ns} = rowOf(i);
    return [`rank ${rank}, step ${step}`, formatTime(ns)];
  };
  const ranksOf = (i) => (byStep ? [rowOf(i).rank] : drawn.members ? drawn.members[i] : [drawn.rank[i]]);
  const unique = (values) => [...new Set(values)].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  function choose(i, extend) {
    const now = store.get(),
      patch = {rank: ranksOf(i)};
    if (byStep) patch.step = [rowOf(i).step];
    if (drawn.groups) patch.group = drawn.groups[i] ? [drawn.groups[i]] : null;
    if (extend) for (const key of Object.keys(patch)) if (patch[key]) patch[key] = unique([...(now[key] ?? []), ...patch[key]]);
    const same = Object.keys(patch).every((key) => JSON.stringify(now[key] ?? null) === JSON.stringify(patch[key]));
    if (same) for (const key of Object.keys(patch)) patch[key] = null;
    store.set(patch, spec.name);
  }
  function chooseBox([x0, y0], [x1, y1]) {
    const within = (value, a, b) => value >= Math.min(a, b) - 0.5 && value <= Math.max(a, b) + 0.5;
    const some = (values) => (values.length ? unique(values) : null);
    if (spec.name === 'marey') store.set({window: [Math.min(x0, x1), Math.max(x0, x1)]}, 'marey');
    else if (spec.name === 'late') store.set({rank: some(drawn.rank.filter((_, i) => within(i, x0, x1)))}, 'late');
    else if (spec.name === 'heat')
      store.set({rank: some(drawn.sources.heat_data.y.filter((r) => within(r, y0, y1))), step: some(drawn.sources.heat_data.x.filter((s) => within(s, x0, x1)))}, 'heat');
    else if (spec.name === 'links') store.set({rank: some(drawn.members.filter(([s, d]) => within(s, y0, y1) && within(d, x0, x1)).flat())}, 'links');
    else if (drawn.rank) store.set({rank: some(drawn.rank.filter((r) => within(r, x0, x1)))}, spec.name);
  }

  const figure = view.el;
  const listeners = {
    pointerdown(event) {
      if (event.button !== 0 || !drawn || !inside(event)) return;
      drag = {event, at: at(event), moved: false};
      event.preventDefault();
    },
    pointermove(event) {
      if (!drag) {
        const i = hit(event);
        figure.style.cursor = i < 0 ? '' : 'pointer';
        if (i < 0) ctx.tooltip.hide();
        else ctx.tooltip.show(event, linesOf(i));
        return;
      }
      if (!drag.moved && Math.hypot(event.clientX - drag.event.clientX, event.clientY - drag.event.clientY) < RANK_DRAG_PX) return;
      if (!drag.moved) figure.setPointerCapture?.(event.pointerId);
      drag.moved = true;
      ctx.tooltip.hide();
      const f = frameOf(view, figure),
        outer = box.getBoundingClientRect(),
        flat = !['heat', 'links'].includes(spec.name);
      const clampX = (x) => Math.min(Math.max(x, f.left), f.left + f.width),
        clampY = (y) => Math.min(Math.max(y, f.top), f.top + f.height);
      const [xa, xb] = [clampX(drag.event.clientX), clampX(event.clientX)].sort((p, q) => p - q),
        [ya, yb] = flat ? [f.top, f.top + f.height] : [clampY(drag.event.clientY), clampY(event.clientY)].sort((p, q) => p - q);
      Object.assign(brush.style, {left: `${xa - outer.left}px`, top: `${ya - outer.top}px`, width: `${xb - xa}px`, height: `${yb - ya}px`});
      brush.hidden = spec.name === 'talk';
    },
    pointerup(event) {
      const begun = drag;
      drag = null;
      brush.hidden = true;
      if (!begun) return;
      if (begun.moved) {
        chooseBox(begun.at, at(event));
        return;
      }
      const i = hit(event);
      if (i >= 0) choose(i, event.ctrlKey || event.metaKey || event.shiftKey);
    },
    pointercancel() {
      drag = null;
      brush.hidden = true;
    },
    pointerleave: () => ctx.tooltip.hide(),
    dblclick(event) {
      const i = hit(event);
      if (i >= 0) ctx.open(ranksOf(i));
    },
  };
  for (const [name, listener] of Object.entries(listeners)) figure.addEventListener(name, listener);
  return {
    draw,
    frameWindow,
    drawn: () => drawn,
    // where a value stands on the screen, for whoever drives the page
    place(x, y) {
      const rect = view.el.getBoundingClientRect();
      return [rect.left + view.frame.x_scale.compute(x), rect.top + view.frame.y_scale.compute(y)];
    },
    close() {
      for (const [name, listener] of Object.entries(listeners)) figure.removeEventListener(name, listener);
    },
  };
}
