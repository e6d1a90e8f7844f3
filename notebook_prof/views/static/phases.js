// Stacked bars: one a step, one colour a phase. Click a bar for its step, a legend entry for its phase; a drag takes several steps.
function createPhases(ctx, element, legend, title) {
  const {host, meta, store} = ctx,
    figure = host.model('phases'),
    view = host.viewOf(figure);
  const bars = host.model('bars'),
    chosen = host.model('chosen'),
    xs = host.model('bars_x'),
    ys = host.model('bars_y');
  let last = null,
    cursor = -1;
  title.textContent = 'Step phases';
  const channel = ctx.asker.channel(
    () => ({t: 'phases'}),
    arrived,
    (error) => ctx.trouble(error),
    ['name', 'category', 'track', 'rank'],
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
      out = {x0: [], x1: [], y0: [], y1: [], color: [], alpha: []};
    const phase = clause('phase'),
      frame = {x0: [], x1: [], y0: [], y1: []};
    const add = (i, y0, y1, colour, alpha) => {
      if (y1 > y0) {
        out.x0.push(i - 0.42);
        out.x1.push(i + 0.42);
        out.y0.push(y0);
        out.y1.push(y1);
        out.color.push(colour);
        out.alpha.push(alpha);
      }
    };
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
      if ((lit && clause('step')) || i === cursor) {
        frame.x0.push(i - 0.46);
        frame.x1.push(i + 0.46);
        frame.y0.push(0);
        frame.y1.push(y);
      }
    }
    view.pause();
    xs.setv({start: -0.6, end: n - 0.4});
    ys.setv({start: 0, end: highest * 1.06});
    bars.data = out;
    chosen.data = frame;
    view.unpause();
    showLegend();
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
    legend.replaceChildren(
      ...phases.map((name, k) => {
        const item = document.createElement('button');
        item.className = 'nbp-legend-item';
        item.dataset.phase = name;
        item.setAttribute('aria-pressed', String(active?.includes(name) ?? false));
        if (!sums[k]) item.classList.add('nbp-absent');
        const swatch = document.createElement('i');
        swatch.style.background = meta.colours.phase[name];
        const share = document.createElement('span');
        share.className = 'nbp-share';
        share.textContent = formatShare(sums[k] / all);
        item.append(swatch, name, share);
        item.title = `select the phase ${name}: ${formatTime(sums[k])} in the steps shown`;
        item.addEventListener('click', () => toggle('phase', name));
        return item;
      }),
    );
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
      bright: bars.data.alpha ? Array.from(bars.data.alpha).filter((x) => x === 1).length : 0,
      drawn: bars.data.alpha?.length ?? 0,
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
