// Stacked bars: one a step, one colour a phase. Click a bar for its step, a legend entry for its phase; a drag takes several steps.
function createPhases(ctx, element, legend, title) {
  const {host, meta, store} = ctx,
    figure = host.model('phases'),
    view = host.viewOf(figure);
  const xs = host.model('bars_x'),
    ys = host.model('bars_y');
  let last = null,
    cursor = -1,
    boxes = [], // [bar, from, to, colour, alpha]
    framed = []; // [bar, height]
  const at = () => {
    const {left, top, width, height} = view.frame.bbox;
    return {
      x: (v) => left + ((v - xs.start) / (xs.end - xs.start)) * width,
      y: (v) => top + (1 - (v - ys.start) / (ys.end - ys.start)) * height,
    };
  };
  // painted straight: BokehJS takes 15 ms to copy, index and project a thousand boxes
  const asks = [
    paintSource(view, 'bars', (pen) => {
      const {x, y} = at();
      for (const [bar, from, to, colour, alpha] of boxes) {
        const left = x(bar - 0.42);
        Object.assign(pen, {fillStyle: colour, globalAlpha: alpha});
        pen.fillRect(left, y(to), x(bar + 0.42) - left, y(from) - y(to));
      }
    }),
    paintSource(view, 'chosen', (pen) => {
      const {x, y} = at();
      Object.assign(pen, {strokeStyle: ctx.theme.text, lineWidth: 1.5});
      for (const [bar, high] of framed) pen.strokeRect(x(bar - 0.46), y(high), x(bar + 0.46) - x(bar - 0.46), y(0) - y(high));
    }),
  ];
  title.textContent = 'Step phases';
  const channel = ctx.asker.channel(
    () => ({t: 'phases'}),
    arrived,
    (error) => ctx.trouble(error),
    ['name', 'category', 'track', 'rank'],
    host.frames.turn,
  );
  const clause = (name) => store.get()[name];
  const inWindow = (i) => {
    const w = clause('window');
    return !w || (last.data.ts[i] < w[1] && last.data.end[i] > w[0]);
  };
  const stepChosen = (i) => {
    const s = clause('step');
    return !s || s.some((n) => n >= last.data.first[i] && n <= last.data.last[i]);
  };

  function arrived(answer) {
    last = answer;
    draw();
    ctx.count('phases');
  }
  function draw() {
    if (!last?.bars) return;
    const {data, bars: n, phases} = last,
      cells = phases.length,
      phase = clause('phase');
    const add = (...box) => {
      if (box[2] > box[1]) boxes.push(box);
    };
    boxes = [];
    framed = [];
    let highest = 1;
    for (let i = 0; i < n; i++) {
      const lit = stepChosen(i) && inWindow(i);
      let y = 0;
      for (let k = 0; k < cells; k++) {
        const total = data.total[i * cells + k],
          colour = meta.colours.phase[phases[k]];
        const bright = lit && (!phase || phase.includes(phases[k]));
        if (last.filtered) {
          // what the other views selected is solid, the rest of the bar a ghost
          const part = Math.min(total, data.part[i * cells + k]);
          add(i, y, y + part, colour, bright ? 1 : 0.28);
          add(i, y + part, y + total, colour, 0.22);
        } else add(i, y, y + total, colour, bright ? 1 : 0.25);
        y += total;
      }
      highest = Math.max(highest, y);
      if ((lit && clause('step')) || i === cursor) framed.push([i, y]);
    }
    view.pause();
    xs.setv({start: -0.6, end: n - 0.4});
    ys.setv({start: 0, end: highest * 1.06});
    view.unpause();
    for (const ask of asks) ask();
    showLegend();
  }
  let items = [];
  function legendItem(name) {
    const item = document.createElement('button'),
      swatch = document.createElement('i'),
      share = document.createElement('span');
    item.className = 'nbp-legend-item';
    item.dataset.phase = name;
    swatch.style.background = meta.colours.phase[name];
    share.className = 'nbp-share';
    item.append(swatch, name, share);
    item.addEventListener('click', () => toggle('phase', name));
    return {item, share};
  }
  function showLegend() {
    const {data, bars: n, phases} = last,
      cells = phases.length,
      active = clause('phase');
    const sum = (k) => {
      let s = 0;
      for (let i = 0; i < n; i++) if (stepChosen(i) && inWindow(i)) s += data.total[i * cells + k];
      return s;
    };
    const sums = phases.map((_, k) => sum(k)),
      all = Math.max(
        1,
        sums.reduce((p, q) => p + q, 0),
      );
    if (items.length !== cells) {
      items = phases.map(legendItem);
      legend.replaceChildren(...items.map(({item}) => item));
    }
    items.forEach(({item, share}, k) => {
      item.setAttribute('aria-pressed', String(active?.includes(phases[k]) ?? false));
      item.classList.toggle('nbp-absent', !sums[k]);
      share.textContent = formatShare(sums[k] / all);
      item.title = `select the phase ${phases[k]}: ${formatTime(sums[k])} in the steps shown`;
    });
    title.textContent = last.filtered ? `Step phases · solid: the selected slices${last.estimate ? ' (≈)' : ''}` : 'Step phases';
  }
  function toggle(dimension, value, extend = false) {
    const now = store.get()[dimension] ?? [];
    const next = now.includes(value)
      ? now.filter((v) => v !== value)
      : extend || dimension === 'phase'
        ? [...now, value]
        : [value];
    store.set({[dimension]: next.length ? next : null}, 'phases');
  }
  const barAt = (event) => {
    const f = frameOf(view, element),
      x = xs.start + ((event.clientX - f.left) / f.width) * (xs.end - xs.start),
      i = Math.round(x);
    return last?.bars && event.clientX >= f.left && event.clientX <= f.left + f.width && i >= 0 && i < last.bars ? i : -1;
  };
  const phaseAt = (event, i) => {
    const f = frameOf(view, element),
      y = ys.end * (1 - (event.clientY - f.top) / f.height),
      cells = last.phases.length;
    let sum = 0;
    for (let k = 0; k < cells; k++) {
      sum += last.data.total[i * cells + k];
      if (y >= 0 && y <= sum) return last.phases[k];
    }
    return null;
  };
  const stepsOf = (i) => Array.from({length: last.data.last[i] - last.data.first[i] + 1}, (_, k) => last.data.first[i] + k);
  element.tabIndex = 0;
  element.setAttribute('role', 'listbox');
  element.setAttribute('aria-label', 'steps: arrows move, Enter selects, Shift+arrows extend');
  element.addEventListener('keydown', (event) => {
    if (!last?.bars || event.ctrlKey || event.metaKey || event.altKey) return;
    const by = {ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity}[event.key];
    if (by === undefined && event.key !== 'Enter' && event.key !== ' ') return;
    event.preventDefault();
    event.stopPropagation();
    if (by !== undefined) cursor = Math.max(0, Math.min(last.bars - 1, cursor < 0 ? 0 : cursor + by));
    if (cursor < 0) return;
    const steps = stepsOf(cursor),
      now = store.get().step ?? [];
    if (by === undefined) store.set({step: now.length === steps.length && steps.every((s) => now.includes(s)) ? null : steps}, 'phases');
    else if (event.shiftKey) store.set({step: [...new Set([...now, ...steps])].sort((p, q) => p - q)}, 'phases');
    draw();
    ctx.hint(`step ${steps[0]}, ${formatTime(last.data.end[cursor] - last.data.ts[cursor])}`);
  });
  element.addEventListener('blur', () => {
    cursor = -1;
    draw();
  });
  let from = -1;
  element.addEventListener('pointerdown', (event) => {
    if (event.button === 0) {
      from = barAt(event);
      ctx.takeFocus();
      event.preventDefault();
    }
  });
  element.addEventListener('pointerup', (event) => {
    const to = barAt(event);
    if (from < 0 || to < 0) {
      from = -1;
      return;
    }
    const [a, b] = [Math.min(from, to), Math.max(from, to)],
      steps = [];
    for (let i = a; i <= b; i++) steps.push(...stepsOf(i));
    from = -1;
    const now = store.get().step ?? [];
    if (event.ctrlKey || event.metaKey || event.shiftKey)
      store.set({step: [...new Set([...now, ...steps])].sort((p, q) => p - q)}, 'phases');
    else if (a === b && now.length === steps.length && steps.every((s) => now.includes(s))) store.set({step: null}, 'phases');
    else store.set({step: steps}, 'phases');
  });
  element.addEventListener('dblclick', (event) => {
    const i = barAt(event),
      phase = i < 0 ? null : phaseAt(event, i);
    if (phase) store.set({step: stepsOf(i), phase: [phase]}, 'phases');
  });
  element.addEventListener('pointermove', (event) => {
    const i = barAt(event);
    if (i < 0) {
      ctx.tooltip.hide();
      return;
    }
    const cells = last.phases.length,
      row = Array.from(last.data.total.slice(i * cells, (i + 1) * cells)),
      all = row.reduce((p, q) => p + q, 0);
    const under = phaseAt(event, i),
      [a, b] = [last.data.first[i], last.data.last[i]];
    ctx.tooltip.show(event, [
      a === b ? `step ${a} · ${formatTime(all)}` : `steps ${a}–${b}, mean · ${formatTime(all)}`,
      ...last.phases.map((name, k) =>
        row[k] ? `${name === under ? '▸ ' : ''}${name}  ${formatTime(row[k])}  ${formatShare(row[k] / Math.max(all, 1))}` : '',
      ),
      'click: select the step · double-click: step and phase',
    ]);
  });
  element.addEventListener('pointerleave', () => ctx.tooltip.hide());
  return {
    refresh: () => channel.run(),
    redraw: draw,
    close: () => channel.close(),
    labelOf: (i) => (last?.bars && last.data.first[i] !== undefined ? String(last.data.first[i]) : ''),
    snapshot: () => ({
      bars: last?.bars ?? 0,
      filtered: last?.filtered ?? false,
      bright: boxes.filter((box) => box[4] === 1).length,
      drawn: boxes.length,
    }),
    locate: (step) => {
      const i = last ? Array.from(last.data.first).findIndex((a, k) => step >= a && step <= last.data.last[k]) : -1;
      if (i < 0) return null;
      const f = frameOf(view, element),
        cells = last.phases.length,
        all = last.data.total.slice(i * cells, (i + 1) * cells).reduce((p, q) => p + q, 0);
      return {x: f.left + ((i - xs.start) / (xs.end - xs.start)) * f.width, y: f.top + f.height * (1 - all / 2 / ys.end)};
    },
  };
}
