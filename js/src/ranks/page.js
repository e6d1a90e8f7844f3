// The page of many ranks: linked figures, a table of the ranks, and the timelines of chosen ranks below, all under one
// selection. Figures are computed by the kernel: a thousand ranks are small once they are reduced.
async function mountRanks({Bokeh, el, document: json, settings, transport, store}) {
  const root = element('div', 'nbp nbp-ranks', el);
  root.tabIndex = 0;
  root.setAttribute('role', 'region');
  root.setAttribute('aria-label', 'ranks: steps, lateness, communication and timelines');
  const head = element('div', 'nbp-head', root),
    trouble = element('div', 'nbp-trouble', root),
    grid = element('div', 'nbp-rank-grid', root),
    list = element('div', 'nbp-rank-list', root),
    below = element('div', 'nbp-rank-below', root);
  trouble.setAttribute('role', 'alert');
  const say = (text) => {
    trouble.textContent = text;
    trouble.hidden = !text;
  };
  say('');
  const asker = createAsker(transport, (state) =>
    say(
      {
        gone: 'The kernel that read these ranks has ended: run this cell again.',
        waiting: 'The kernel is busy: what you see is from before.',
        lost: 'The kernel does not answer. If it was restarted, run the cell again.',
      }[state] ?? '',
    ),
  );
  const boxes = Object.fromEntries(settings.panels.map((panel) => [panel.name, element('section', 'nbp-rank-panel', grid)])),
    figures = settings.panels.map((panel) => element('div', 'nbp-rank-figure', boxes[panel.name])),
    undo = [];
  let host = null,
    closeTimeline = null,
    disposed = false;
  const dispose = () => {
    if (disposed) return;
    disposed = true;
    closeTimeline?.();
    for (const action of undo.reverse()) action();
    host?.dispose();
    asker.close();
    delete el.nbpRanks;
    el.replaceChildren();
  };
  try {
    host = await mountDocument(Bokeh, json, figures);
  } catch (error) {
    say(`The ranks cannot be shown: ${error.message}`);
    return dispose;
  }

  const ctx = {host, settings, store, meta: {tracks: []}, tooltip: createTooltip(root), open};
  const header = createHeader(ctx, head),
    panels = Object.fromEntries(settings.panels.map((panel) => [panel.name, createRankPanel(ctx, panel, boxes[panel.name])]));
  const bar = element('div', 'nbp-rank-bar', list),
    button = element('button', '', bar),
    sets = element('span', 'nbp-rank-sets', bar),
    hint = element('span', 'nbp-hint', bar),
    table = element('table', '', element('div', 'nbp-rank-scroll', list));
  button.addEventListener('click', () => open(store.get().rank));
  for (const [label, why, ranks] of settings.groups) {
    const set = element('button', '', sets);
    set.textContent = label;
    set.title = why;
    set.addEventListener('click', () => store.set({rank: ranks}, 'groups'));
  }
  // a report holds the timelines of some ranks, or of none; a kernel reads those of all
  const inFile = settings.timelines,
    timelines = !inFile || inFile.ranks.length > 0,
    canOpen = (rank) => !inFile || inFile.ranks.includes(rank);
  button.hidden = !timelines;
  if (inFile?.note) element('div', 'nbp-notice', list).textContent = inFile.note;
  hint.textContent = `click or drag in any figure: select · Ctrl adds${timelines ? ' · double click: open the timeline' : ''}`;

  function drawBar() {
    const chosen = store.get().rank,
      held = chosen?.filter(canOpen),
      ranks = held?.length ? held : null;
    button.textContent = ranks ? `Open ${ranks.length === 1 ? 'the timeline' : 'timelines'} of rank ${formatNumbers(ranks)}` : 'Open timelines';
    button.disabled = !ranks || ranks.length > 32;
    button.title = ranks ? 'stack them on one aligned axis' : chosen ? 'the timeline is not in this file' : 'select ranks first';
    for (const row of table.querySelectorAll('tr[data-rank]'))
      row.setAttribute('aria-selected', String((chosen ?? []).includes(Number(row.dataset.rank))));
  }
  function drawTable({heads, ranks, rows, more}) {
    const line = document.createElement('tr');
    for (const text of ['rank', ...heads]) element('th', '', line).textContent = text;
    const lines = ranks.map((rank, i) => {
      const row = document.createElement('tr');
      row.dataset.rank = rank;
      row.tabIndex = 0;
      for (const text of [String(rank), ...rows[i]]) element('td', '', row).textContent = text;
      const pick = (extend) => {
        const now = store.get().rank ?? [],
          next = now.includes(rank) ? now.filter((r) => r !== rank) : extend ? [...now, rank].sort((a, b) => a - b) : [rank];
        store.set({rank: next.length ? next : null}, 'rank table');
      };
      row.addEventListener('click', (event) => pick(event.ctrlKey || event.metaKey || event.shiftKey));
      row.addEventListener('dblclick', () => open([rank]));
      row.addEventListener('keydown', (event) => {
        if (event.key !== 'Enter' && event.key !== ' ') return;
        event.preventDefault();
        if (event.key === 'Enter') open([rank]);
        else pick(event.ctrlKey || event.shiftKey);
      });
      return row;
    });
    const held = table.contains(document.activeElement) ? document.activeElement.dataset.rank : null;
    table.replaceChildren(line, ...lines);
    if (more > 0) element('td', '', element('tr', '', table)).textContent = `and ${formatCount(more)} more`;
    if (held != null) table.querySelector(`tr[data-rank="${held}"]`)?.focus({preventScroll: true});
    drawBar();
  }

  let draws = 0;
  const channel = asker.channel(
    () => ({t: 'ranks'}),
    (answer) => {
      if (disposed) return;
      if (answer.failed) {
        say(`The ranks could not be drawn: ${answer.failed}`);
        return;
      }
      for (const [name, drawn] of Object.entries(answer.panels)) panels[name]?.draw(drawn);
      drawTable(answer.table);
      draws++;
      el.nbpRanks.draws = draws;
    },
    (error) => say(`The ranks could not be drawn: ${error.message}`),
  );

  async function open(ranks) {
    if (!ranks?.length || !timelines) return;
    below.textContent = `reading rank ${formatNumbers(ranks)} …`;
    below.scrollIntoView?.({block: 'nearest'});
    // not through the asker: reading takes as long as it takes, and must not be asked for twice
    const {content} = await transport.request({t: 'open', ranks});
    if (disposed) return;
    closeTimeline?.();
    closeTimeline = null;
    below.replaceChildren();
    if (content.failed) {
      say(`The timelines could not be opened: ${content.failed}`);
      return;
    }
    say('');
    if (content.select) store.set({rank: content.select}, 'open'); // tables are of what is shown
    const inner = element('div', 'nbp-host', below),
      line = {...transport, request: (message) => transport.request({...message, of: content.of})};
    closeTimeline = await mount({Bokeh, el: inner, document: JSON.parse(content.document), settings: content.settings, transport: line, store});
    el.nbpRanks.timeline = inner.nbp;
  }

  const theme = () => {
    ctx.theme = readTheme(root);
    paintFigures(host.doc, ctx.theme);
  };
  undo.push(watchTheme(theme));
  undo.push(
    store.subscribe((patch) => {
      header.draw();
      drawBar();
      for (const panel of Object.values(panels)) panel.frameWindow();
      if (Object.keys(patch).some((key) => ['rank', 'step', 'window', 'group'].includes(key))) channel.run();
    }),
  );
  const keys = (event) => {
    if (event.key === 'Escape' && !below.contains(event.target)) store.clear('escape');
  };
  root.addEventListener('keydown', keys);
  undo.push(() => root.removeEventListener('keydown', keys));
  for (const panel of Object.values(panels)) undo.push(panel.close);
  el.nbpRanks = {store, panels, transport, open, draws, doc: host.doc};
  theme();
  channel.run();
  return dispose;
}
