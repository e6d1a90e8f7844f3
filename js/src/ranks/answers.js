// The answers of the ranks' page in a report: sums of all ranks, added up under the selection.
// Python's twins are views/rank_page/under.py and columns.py; tests/browser/test_rank_report.py holds them together.
function createLocalRanks(given, store, timelines) {
  const {limits, parts} = given,
    rising = (a, b) => (a < b ? -1 : a > b ? 1 : 0),
    rowsOf = (table) => [...Object.values(table)[0].keys()],
    extent = (values) => [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), -Infinity)],
    keyOf = (rank, step) => `${rank},${step}`,
    alphaOf = (values, wanted) => values.map((v) => (!wanted || wanted.includes(v) ? 1 : limits.faded));

  // rows summed by the values of some columns, in their order
  function summed(table, rows, keys, values) {
    const groups = new Map();
    for (const i of rows) {
      const key = JSON.stringify(keys.map((name) => table[name][i]));
      let group = groups.get(key);
      if (!group) {
        group = Object.fromEntries([...keys.map((name) => [name, table[name][i]]), ...values.map((name) => [name, 0])]);
        groups.set(key, Object.assign(group, {rows: 0}));
      }
      group.rows++;
      for (const name of values) group[name] += table[name][i];
    }
    return [...groups.values()].sort((a, b) => keys.map((name) => rising(a[name], b[name])).find((order) => order) ?? 0);
  }
  function medians(rows, names) {
    const byRank = new Map();
    for (const i of rows) {
      const rank = given.steps.rank[i];
      byRank.set(rank, [...(byRank.get(rank) ?? []), i]);
    }
    const middle = (values) => {
      values.sort((a, b) => a - b);
      const half = values.length >> 1;
      return values.length % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
    };
    return [...byRank]
      .map(([rank, own]) => Object.fromEntries([['rank', rank], ...names.map((name) => [name, middle(own.map((i) => given.steps[name][i]))])]))
      .sort((a, b) => a.rank - b.rank);
  }

  function wantedRanks({rank, group}) {
    if (!group) return rank ?? null;
    const {talk} = given,
      members = new Set(rowsOf(talk).filter((i) => group.includes(talk.group[i])).map((i) => talk.rank[i]));
    return [...members].filter((r) => !rank || rank.includes(r)).sort((a, b) => a - b);
  }
  function scopeOf(state) {
    const {rank, step, start_ns: start, end_ns: end} = given.steps,
      {window: chosen} = state;
    const kept = rank.map(
      (_, i) =>
        (!state.step || state.step.includes(step[i])) && (!chosen || (start[i] !== null && start[i] < chosen[1] && end[i] > chosen[0])),
    );
    const pairs = kept.every(Boolean) ? null : new Set(rowsOf(given.steps).filter((i) => kept[i]).map((i) => keyOf(rank[i], step[i])));
    const ofGroup = (table) => (i) => !state.group || state.group.includes(table.group[i]);
    const inside = (table) => rowsOf(table).filter((i) => !pairs || pairs.has(keyOf(table.rank[i], table.step[i])));
    return {state, kept, pairs, ofGroup, inside, wanted: wantedRanks(state), rows: rowsOf(given.steps).filter((i) => kept[i])};
  }

  const told = (table, names) => table.map((row) => names.map(([name, label]) => `${label} ${formatTime(row[name])}`).join('\n'));
  function stacked(table, names, [from, to]) {
    const columns = {},
      sums = table.map(() => 0);
    for (const [name] of names) {
      columns[`${name}_${from}`] = [...sums];
      table.forEach((row, i) => (sums[i] += row[name]));
      columns[`${name}_${to}`] = [...sums];
    }
    return [columns, table.length ? extent(sums)[1] : 1];
  }
  const around = (values) => {
    const [low, high] = values.length ? extent(values) : [0, 0];
    return [low - 0.5, high + 0.5];
  };
  function ofRanks(panel, table, names, wanted) {
    const rank = table.map((row) => row.rank),
      [columns, most] = stacked(table, names, ['bottom', 'top']),
      texts = told(table, names);
    return {
      sources: {[`${panel}_data`]: {...columns, rank, alpha: alphaOf(rank, wanted)}},
      x: around(rank),
      y: [0, limits.room * Math.max(most, 1)],
      tips: rank.map((r, i) => `rank ${r}\n${texts[i]}`),
      rank,
    };
  }
  function scale(values, write) {
    const [low, high] = values.length ? extent(values) : [0, 1];
    return {colours: high > low ? [low, high] : [low - 1, low + 1], scale: high > low ? [write(low), write(high)] : [`all ${write(low)}`]};
  }

  function lateRows({inside, ofGroup}) {
    const {late, before} = given,
      most = new Map();
    for (const row of summed(before, inside(before).filter(ofGroup(before)), ['rank', 'before'], ['before_ns']))
      if (!(most.get(row.rank)?.before_ns > row.before_ns)) most.set(row.rank, row);
    return summed(late, inside(late).filter(ofGroup(late)), ['rank'], ['collectives', 'late_ns', 'last_count'])
      .map((row) => ({
        rank: row.rank,
        late_ns: row.late_ns / row.collectives,
        comes_last_share: row.last_count / row.collectives,
        before: most.get(row.rank)?.before,
      }))
      .sort((a, b) => b.late_ns - a.late_ns || a.rank - b.rank);
  }
  function latePanel(table, wanted) {
    const rank = table.map((row) => row.rank),
      top = table.map((row) => row.late_ns),
      at = [...table.keys()];
    const tips = table.map(({rank: r, late_ns: late, comes_last_share: share, before}) => {
      const text = `rank ${r}\nlate by ${formatTime(late)}\ncomes last in ${formatShare(share)}`;
      return before !== undefined && share ? `${text}\nbefore that: ${before}` : text;
    });
    const most = Math.max(...extent([0, ...top]), 1000);
    return {
      sources: {late_data: {at, top, alpha: alphaOf(rank, wanted)}},
      x: around(at),
      y: [0, limits.room * most],
      tips,
      rank,
      labels: rank.map(String),
      ...(rank.length && !top.some(Boolean) ? {note: given.notes.together} : {}),
    };
  }
  function heatPanel({state, kept, wanted, ofGroup}) {
    const {steps, talk} = given,
      spent = new Map();
    if (state.group)
      for (const i of rowsOf(talk).filter(ofGroup(talk))) {
        const key = keyOf(talk.rank[i], talk.step[i]);
        spent.set(key, parts.talk.reduce((sum, [name]) => sum + talk[name][i], spent.get(key) ?? 0));
      }
    const rows = rowsOf(steps)
      .filter((i) => !state.group || spent.has(keyOf(steps.rank[i], steps.step[i])))
      .slice(0, limits.cells);
    const x = rows.map((i) => steps.step[i]),
      y = rows.map((i) => steps.rank[i]),
      value = rows.map((i) => Math.round(state.group ? spent.get(keyOf(steps.rank[i], steps.step[i])) : steps.step_ns[i])),
      pale = alphaOf(y, wanted);
    const alpha = rows.map((i, k) => Math.min(pale[k], kept[i] ? 1 : limits.faded)),
      title = state.group ? {title: `Time in process group ${state.group.join(', ')} by rank and step`} : {};
    return {sources: {heat_data: {x, y, value, alpha}}, x: around(x), y: around(y), ...title, ...scale(value, (v) => formatTime(v))};
  }
  function mareyPanel({state, kept, wanted}) {
    const {rank, step, start_ns: start, end_ns: end} = given.steps;
    const rows = rowsOf(given.steps)
      .filter((i) => start[i] !== null)
      .sort((a, b) => step[a] - step[b] || rank[a] - rank[b])
      .slice(0, limits.cells);
    const pick = (values) => rows.map((i) => values[i]),
      pale = alphaOf(pick(rank), wanted),
      lines = {xs: [], ys: [], alpha: []};
    const alpha = rows.map((i, k) => Math.round(450 * Math.min(pale[k], kept[i] ? 1 : limits.faded)) / 1000);
    let last = null;
    for (const i of rows) {
      if (step[i] !== last) {
        if (lines.xs.length === limits.lines) break;
        lines.xs.push([]);
        lines.ys.push([]);
        lines.alpha.push(alphaOf([step[i]], state.step)[0]);
        last = step[i];
      }
      lines.xs[lines.xs.length - 1].push(start[i]);
      lines.ys[lines.ys.length - 1].push(rank[i]);
    }
    const x = rows.length ? [extent(pick(start))[0], extent(pick(end))[1]] : [0, 1],
      spans = {y: pick(rank), step: pick(step), left: pick(start), right: pick(end), alpha};
    return {sources: {marey_data: spans, marey_lines: lines}, x, y: around(pick(rank))};
  }
  const allOf = new Map();
  for (const row of summed(given.talk, rowsOf(given.talk), ['operation', 'group', 'rank'], [])) {
    const key = JSON.stringify([row.operation, row.group]);
    allOf.set(key, [...(allOf.get(key) ?? []), row.rank]);
  }
  function talkPanel({state, inside, wanted}) {
    const {talk} = given,
      names = parts.talk.map(([name]) => name),
      total = (row) => names.reduce((sum, name) => sum + row[name], 0);
    const table = summed(talk, inside(talk).filter((i) => !wanted || wanted.includes(talk.rank[i])), ['operation', 'group'], ['count', ...names])
      .map((row) => ({...row, chosen: !state.group || state.group.includes(row.group), members: allOf.get(JSON.stringify([row.operation, row.group]))}))
      .sort((a, b) => b.chosen - a.chosen || total(b) - total(a))
      .slice(0, limits.talk);
    const [columns, most] = stacked(table, parts.talk, ['left', 'right']),
      texts = told(table, parts.talk),
      at = [...table.keys()],
      labels = table.map(({operation, group}) => operation.replaceAll('_', ' ').slice(0, 22) + (group ? ` · ${group}` : ''));
    const on = (ranks) => (ranks.length === 1 ? `rank ${ranks[0]}` : `ranks ${ranks.slice(0, 6).join(', ')}${ranks.length > 6 ? ` and ${ranks.length - 6} more` : ''}`);
    return {
      sources: {talk_data: {...columns, at, alpha: table.map((row) => (row.chosen ? 1 : limits.faded))}},
      x: [0, limits.room * Math.max(most, 1)],
      y: around(at).reverse(),
      tips: table.map((row, i) => `${labels[i]}\n${formatCount(row.count)} on ${on(row.members)}\n${texts[i]}\n${given.click}`),
      members: table.map((row) => row.members),
      groups: table.map((row) => row.group),
      labels,
    };
  }
  function linksPanel({pairs, ofGroup, wanted}) {
    const {links} = given,
      known = {...links, told: links.bytes.map((size) => Number(size !== null))};
    const rows = rowsOf(links)
      .filter((i) => !pairs || pairs.has(keyOf(links.src[i], links.step[i])) || pairs.has(keyOf(links.dst[i], links.step[i])))
      .filter(ofGroup(links));
    const table = summed(known, rows, ['src', 'dst'], ['count', 'bytes', 'told', 'transfer_ns']),
      value = table.map((row) => (row.told ? row.bytes : row.count)),
      [x, y] = [table.map((row) => row.dst), table.map((row) => row.src)],
      [to, from] = [alphaOf(x, wanted), alphaOf(y, wanted)],
      sized = table.length > 0 && table.every((row) => row.told);
    return {
      sources: {links_data: {x, y, value, alpha: to.map((a, i) => Math.max(a, from[i]))}},
      x: around([...x, ...y]),
      y: around([...x, ...y]),
      tips: table.map(
        (row) =>
          `from rank ${row.src} to rank ${row.dst}\n${formatCount(row.count)} messages` +
          (row.told ? `, ${formatBytes(row.bytes)}` : '') +
          `\n${formatTime(row.transfer_ns)} of transfer`,
      ),
      members: table.map((row) => [row.src, row.dst]),
      ...scale(value, sized ? (v) => formatBytes(v) : (v) => formatCount(v)),
    };
  }
  function bubblesPanel({inside, wanted}) {
    const names = parts.bubbles.map(([name]) => name);
    const table = summed(given.bubbles, inside(given.bubbles), ['rank', 'stage'], names).map((row) => ({
      ...row,
      ...Object.fromEntries(names.map((name) => [name, row[name] / row.rows])),
    }));
    const drawn = ofRanks('bubbles', table, parts.bubbles, wanted);
    return {...drawn, tips: drawn.tips.map((tip, i) => `stage ${table[i].stage} · ${tip}`)};
  }

  const columns = [...limits.middle, 'late_ns', 'comes_last_share', ...Object.keys(given.ranks).filter((name) => name !== 'rank')];
  const head = (name) => (name === 'flops_per_s' ? 'FLOP/s' : name.slice(0, name.lastIndexOf('_')).replaceAll('_', ' '));
  function cell(name, value) {
    if (value === null || value === undefined) return '–';
    if (name.endsWith('_share')) return formatShare(value);
    if (name.endsWith('_bytes')) return formatBytes(value);
    if (name.endsWith('flops_per_s')) return `${(value / 1e9).toLocaleString('en-US', {minimumFractionDigits: 2, maximumFractionDigits: 2})} G/s`;
    return formatTime(value);
  }
  function rankTable({rows}, late) {
    const index = (found) => new Map(found.map((row) => [row.rank, row])),
      [middle, behind] = [index(medians(rows, limits.middle)), index(late)];
    const table = rowsOf(given.ranks).map((i) => {
      const own = Object.fromEntries(Object.entries(given.ranks).map(([name, values]) => [name, values[i]]));
      return {...own, ...middle.get(own.rank), ...behind.get(own.rank)};
    });
    table.sort((a, b) => (b.late_ns ?? -Infinity) - (a.late_ns ?? -Infinity) || a.rank - b.rank);
    const shown = table.slice(0, limits.rows);
    return {
      heads: columns.map(head),
      ranks: shown.map((row) => row.rank),
      rows: shown.map((row) => columns.map((name) => cell(name, row[name]))),
      more: table.length - shown.length,
    };
  }

  function drawn(state) {
    const scope = scopeOf(state),
      late = lateRows(scope);
    const make = {
      bars: () => ofRanks('bars', medians(scope.rows, parts.bars.map(([name]) => name)), parts.bars, scope.wanted),
      late: () => latePanel(late, scope.wanted),
      heat: () => heatPanel(scope),
      marey: () => mareyPanel(scope),
      talk: () => talkPanel(scope),
      links: () => linksPanel(scope),
      bubbles: () => bubblesPanel(scope),
    };
    const panels = Object.fromEntries(given.panels.map((name) => [name, make[name]()]));
    for (const [name, panel] of Object.entries(panels))
      if (given.notes[name] && !panel.sources[`${name}_data`].alpha.length) panel.note = given.notes[name];
    return {panels, table: rankTable(scope, late), columns: []};
  }
  return {
    async request(message) {
      if (message.of !== undefined) return timelines.ask(message);
      let content;
      const began = performance.now();
      try {
        content = message.t === 'open' ? await timelines.open(message) : drawn(store.get());
      } catch (error) {
        content = {failed: String(error), columns: []};
      }
      return {content: {...content, seq: message.seq, ms: performance.now() - began}, buffers: []};
    },
  };
}
