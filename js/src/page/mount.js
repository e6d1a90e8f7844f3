// Mounts the dashboard: the same code for the live widget and for the HTML report.
//   transport.request(message) -> Promise<{content, buffers}>   kernel, or the page itself (local.js)
//   store: see store.js
// Returns dispose().
function element(tag, className, parent) {
  const el = document.createElement(tag);
  el.className = className;
  parent.append(el);
  return el;
}

async function fetchMeta(asker) {
  const [meta, first] = await Promise.all([
    asker.ask({t: 'meta', doubts: 'later'}),
    asker.ask({t: 'names', start: 0}), // mostly all of them
  ]);
  meta.stepColumns = {step: meta.data.step, ts: meta.data.ts, dur: meta.data.dur};
  const names = [],
    colours = [];
  for (let page = first; page; page = page.next === null ? null : await asker.ask({t: 'names', start: page.next})) {
    names.push(...page.names);
    colours.push(...page.data.colour);
  }
  return {...meta, nameList: names, nameColours: Uint8Array.from(colours)};
}

// The page before its figures are there: as high as with them, so that nothing below moves.
function skeleton(el, settings, json) {
  const root = element('div', 'nbp nbp-loading', el);
  root.tabIndex = 0;
  root.setAttribute('role', 'region');
  root.setAttribute('aria-label', 'profile: timeline, memory, step phases and tabs of tables and figures');
  const parts = {
    root,
    head: element('div', 'nbp-head', root),
    trouble: element('div', 'nbp-trouble', root),
    bar: element('div', 'nbp-bar', root),
  };
  parts.account = document.createElement('div');
  parts.account.className = 'nbp-account';
  parts.head.append(...headlineOf(settings.verdict || '', settings.headline), parts.account);
  parts.trouble.hidden = true;
  if (settings.notice) element('div', 'nbp-notice', root).textContent = settings.notice;
  parts.trouble.setAttribute('role', 'alert');
  for (const name of ['overview', 'timeline']) parts[name] = element('div', `nbp-figure nbp-${name}`, root);
  parts.timeline.dataset.loading = 'drawing the timeline …';
  parts.detail = element('div', 'nbp-detail', root);
  parts.memory = element('div', 'nbp-figure nbp-memory', root);
  const row = element('div', 'nbp-row', root);
  parts.phasePanel = element('section', 'nbp-panel', row);
  parts.phaseHead = element('div', 'nbp-panel-head', parts.phasePanel);
  parts.phaseTitle = element('strong', '', parts.phaseHead);
  parts.legend = element('div', 'nbp-legend', parts.phasePanel);
  parts.phases = element('div', 'nbp-figure nbp-phases', parts.phasePanel);
  Object.assign(parts, railSkeleton(row), {row});
  settings.figures.forEach((name, i) => {
    parts[name].style.minHeight = `${json.roots[i].attributes.height}px`;
  });
  for (const [view, reason] of Object.entries(settings.empty)) {
    parts[view].hidden = true;
    const note = document.createElement('p');
    note.className = 'nbp-empty';
    note.textContent = reason;
    parts[view].after(note);
  }
  return parts;
}

async function mount({Bokeh: loading, el, document: json, settings, transport, store}) {
  const parts = skeleton(el, settings, json),
    {root} = parts;
  const say = (text) => {
    parts.trouble.textContent = text;
    parts.trouble.hidden = !text;
  };
  // what is not there yet says so; later answers leave the old picture until they come
  const counts = {},
    awaited = {table: parts.table, phases: parts.phases, memory: parts.memory};
  const pending = (kind, waits) => {
    const part = awaited[kind];
    if (waits && part && !counts[kind]) part.dataset.awaited = 'summing up all slices …';
    else if (part) delete part.dataset.awaited;
  };
  const trouble = (state) =>
    say(
      state === 'gone'
        ? 'The kernel that made this profile has ended: what you see can no longer answer. Run this cell again.'
        : state === 'waiting'
        ? 'The kernel is busy: what you see is from before. It goes on as soon as the kernel answers.'
        : state === 'lost'
          ? 'The kernel does not answer. If it was restarted, run the cell again.'
          : '',
    );
  const asker = createAsker(transport, trouble, pending);
  let host = null,
    disposed = false;
  const undo = [];
  const dispose = () => {
    if (disposed) return;
    disposed = true;
    for (const action of undo.reverse()) action();
    host?.dispose();
    asker.close();
    delete el.nbp;
    el.replaceChildren(); // an output that JupyterLab keeps would keep all of this
  };
  let meta;
  try {
    const asked = fetchMeta(asker).then((facts) => {
      parts.timeline.style.minHeight = `${settings.axis + settings.lane * shownLanes(createLanes(facts))}px`;
      return facts;
    });
    const [facts, Bokeh] = await Promise.all([asked, loading]);
    meta = facts;
    host = await mountDocument(
      Bokeh,
      json,
      settings.figures.map((name) => parts[name]),
    );
  } catch (error) {
    say(`This profile cannot be shown: ${error.message}`);
    return dispose;
  }
  const range = host.model('view'),
    [begin, end] = meta.span;
  let mode = 'pan',
    pointer = null,
    hintTimer = 0;
  // the selected time, or that of the selected steps
  const chosenSpan = () => {
    const {window: chosen, step} = store.get(),
      {step: numbers, ts, dur} = meta.stepColumns,
      at = (step ?? []).map((s) => numbers.indexOf(s)).filter((i) => i >= 0);
    if (chosen || !at.length) return chosen ?? null;
    return [Math.min(...at.map((i) => ts[i])), Math.max(...at.map((i) => ts[i] + dur[i]))];
  };
  const ctx = {
    host,
    settings,
    meta,
    store,
    asker,
    whenTold: transport.whenTold,
    range,
    theme: readTheme(root),
    tint: 'name',
    tooltip: createTooltip(root),
    palettes: createPalettes(meta.colours),
    nameOf: (code) => meta.nameList[code] ?? '',
    colourOfName: (code) => meta.nameColours[code] ?? NO_CODE,
    count: (name) => {
      counts[name] = (counts[name] ?? 0) + 1;
      el.nbp?.counted?.(name); // who measures
    },
    trouble: (error) => {
      if (!disposed && parts.trouble.hidden) say(`A view could not be updated: ${error.message}`);
    },
    reveal: (id) => reveal(id).catch(ctx.trouble),
    takeFocus: () => root.focus({preventScroll: true}),
    hasFocus: () => root.contains(document.activeElement),
    mode: () => mode,
    pointerTime: () => pointer,
    settled: () => {},
    totals(answer) {
      header.totals(answer);
      ruler.totals(answer);
    },
    hint(text) {
      bar.hint.textContent = text;
      clearTimeout(hintTimer);
      if (text)
        hintTimer = setTimeout(() => {
          bar.hint.textContent = '';
        }, 2500);
    },
    setView(a, b) {
      const width = Math.min(Math.max(b - a, 20), 1.2 * (end - begin)),
        margin = 0.1 * width;
      const start = Math.min(Math.max(a, begin - margin), end + margin - width);
      range.setv({start, end: start + width});
    },
    zoom(factor, at) {
      const width = Math.min(Math.max((range.end - range.start) * factor, 20), 1.2 * (end - begin)),
        share = (at - range.start) / (range.end - range.start);
      ctx.setView(at - share * width, at - share * width + width);
    },
    fitSelection() {
      const detail = details.current(),
        span = chosenSpan() ?? (detail && [detail.ts - detail.dur, detail.ts + 2 * detail.dur]);
      if (!span) {
        ctx.setView(begin, end);
        return;
      }
      const margin = 0.05 * (span[1] - span[0]);
      ctx.setView(span[0] - margin, span[1] + margin);
    },
    // bring the selected time into view where none of it is
    showSelection() {
      const span = chosenSpan();
      if (span && (span[1] <= range.start || span[0] >= range.end)) ctx.fitSelection();
    },
    async walk(by) {
      const id = store.get().focus;
      if (id == null) return;
      const found = await asker.ask({t: 'find', id, by});
      if (found.id === null) {
        ctx.hint(by > 0 ? 'this is the last one on its track' : 'this is the first one on its track');
        return;
      }
      ctx.goTo(found);
    },
    // focus a slice and bring it into view
    goTo(found) {
      store.set({focus: found.id}, 'timeline');
      if (found.ts < range.start || found.ts + found.dur > range.end) {
        const width = Math.max(range.end - range.start, 2 * found.dur);
        ctx.setView(found.ts + found.dur / 2 - width / 2, found.ts + found.dur / 2 + width / 2);
      }
      timeline.showRow(found.row);
    },
    async neighbour(to) {
      const id = store.get().focus,
        row = timeline.firstRow();
      const found = await asker.ask({t: 'neighbour', id: id ?? -1, to, row, at: Math.max(begin, Math.ceil(range.start))});
      if (found.id === null) ctx.hint({next: 'the last one in its row', previous: 'the first one in its row', parent: 'nothing is around it', child: 'nothing is inside it'}[to]);
      else ctx.goTo(found);
    },
    follow() {
      const links = details.current()?.links ?? [],
        link = links.find((one) => one.direction === 'to') ?? links[0];
      if (link) ctx.goTo(link);
      else ctx.hint('no arrow begins or ends at this slice');
    },
    find: () => bar.finder.focus(),
    clearFind: () => bar.finder.clear(),
    measure: () => ruler.toggle(),
    focusFilter: () => table.focusFilter(),
    help: () => help.toggle(),
    escape() {
      if (!help.hide() && !ruler.hide() && !bar.finder.clear()) store.clear('escape');
    },
  };
  parts.head.replaceChildren();
  const bar = toolbar(
    ctx,
    parts.bar,
    (next) => {
      mode = next;
      parts.timeline.classList.toggle('nbp-select-mode', next === 'select');
    },
    () => everything(),
  );
  const header = createHeader(ctx, parts.head, parts.account),
    account = createAccount(ctx, parts.account),
    help = helpPanel(root),
    ruler = createRuler(ctx, root);
  const timeline = createTimeline(ctx, parts.timeline),
    overview = createOverview(ctx, parts.overview),
    memory = createMemory(ctx, parts.memory);
  const phases = createPhases(ctx, parts.phases, parts.legend, parts.phaseTitle),
    table = createTable(ctx, parts.table);
  const details = createDetail(ctx, parts.detail, timeline),
    panels = createPanels(ctx, parts.row, parts);
  async function reveal(id) {
    const found = await asker.ask({t: 'detail', id});
    if (found.found) ctx.goTo(found);
  }
  const everything = () => {
    for (const view of [timeline, overview, memory, phases, table]) view.refresh();
  };
  writeTicks(ctx, phases);
  watchPointer(
    ctx,
    timeline,
    memory,
    parts,
    (time) => {
      pointer = time;
    },
    undo,
  );
  undo.push(attachKeyboard(ctx, root), header.close, () => {
    clearTimeout(hintTimer);
    bar.finder.close();
    for (const view of [account, timeline, overview, memory, phases, table, panels]) view.close();
  });

  const follow = () => {
    timeline.moved();
    overview.seen();
    ruler.draw();
    memory.moved();
  };
  const changed = () => host.frames.before(follow);
  for (const name of ['start', 'end']) range.properties[name].change.connect(changed);
  const theme = () => {
    ctx.theme = readTheme(root);
    paintFigures(host.doc, ctx.theme);
    account.draw();
    timeline.repaint();
    overview.refresh();
    panels.theme();
  };
  undo.push(watchTheme(theme));
  const shade = () => showWindow(ctx);
  undo.push(
    store.subscribe((patch, origin) => {
      const has = (...keys) => keys.some((key) => key in patch),
        filters = Object.keys(patch).some((key) => key !== 'window' && key !== 'focus');
      // the questions first: the kernel works while the page draws what it knows
      if (filters) timeline.refresh();
      if (filters || has('window')) {
        table.refresh();
        if (filters) overview.refresh();
        phases.refresh();
        memory.refresh();
      }
      if (has('focus')) details.update();
      transport.flush?.();
      if (has('name')) timeline.foresee();
      panels.changed(patch, origin);
      header.draw();
      if (has('window')) {
        shade();
        account.draw();
        ruler.draw();
      }
      if (has('track')) timeline.marks();
      if (filters) table.redraw();
      if (has('step', 'phase')) phases.redraw();
      if (origin !== 'table' && has('name')) requestAnimationFrame(() => table.reveal());
    }),
  );
  undo.push(store.whenConfirmed(asker.confirm));
  const resize = new ResizeObserver(() => {
    if (root.offsetWidth) {
      timeline.refresh();
      overview.refresh();
    }
  });
  resize.observe(root);
  undo.push(() => resize.disconnect());
  paintFigures(host.doc, ctx.theme);
  shade();
  root.classList.remove('nbp-loading');
  for (const name of settings.figures) parts[name].style.minHeight = '';
  everything();
  if (store.get().focus != null) details.update();
  // which names are in doubt takes the kernel seconds for a long recording: the rows are marked when it is known
  if (!meta.doubts)
    asker.ask({t: 'doubts'}, () => !disposed).then(
      (answer) => {
        meta.doubts = answer.doubts;
        if (!disposed) table.doubted();
      },
      () => {}, // no row is marked then
    );
  el.nbp = {
    store,
    transport,
    range,
    counts,
    log: asker.log,
    setView: ctx.setView,
    account,
    timeline,
    overview,
    memory,
    phases,
    table,
    panels,
    detail: details.current,
    finder: bar.finder,
    meta,
    theme: () => ctx.theme,
    doc: host.doc,
  };
  return dispose;
}
