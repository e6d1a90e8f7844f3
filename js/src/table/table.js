// The operator table: plain HTML (a grid that screen readers know), sorted and filtered where the data are.
const FIRST_ROWS = 60,
  MORE_ROWS = 200,
  PAGE_ROWS = 1000; // as many as the page holds at once; the kernel has the rest
const COLUMNS = [
  {key: 'label', text: 'name', numeric: false},
  {key: 'count', text: 'count', numeric: true, format: formatCount},
  {key: 'total_ns', text: 'total', numeric: true, format: formatTimeCell, title: 'time from start to end, children included'},
  {key: 'self_ns', text: 'self', numeric: true, format: formatTimeCell, title: 'time not spent in slices inside it'},
  {key: 'device_ns', text: 'device', numeric: true, format: formatTimeCell, title: 'device time that it launched'},
  {key: 'share', text: 'self share', numeric: true, format: formatShare, title: 'of the self time of all rows'},
];
const GROUP_TEXTS = {name: 'name', shapes: 'name and shapes', module: 'module', category: 'category'};
const NO_NAME = 0xffffffff,
  TAIL = 16, // characters of a long name's end
  LONGEST_SHOWN = 500; // characters: more than any cell has room for

function doubtMark(codes) {
  const mark = document.createElement('span');
  mark.className = 'nbp-doubt';
  mark.textContent = ' ⚠';
  mark.title = `times of this row are in doubt: ${codes} (p.trust says what to do)`;
  mark.style.cssText = 'cursor: help; color: #b26a00';
  mark.setAttribute('role', 'img');
  mark.setAttribute('aria-label', `in doubt: ${codes}`);
  return mark;
}

function createTable(ctx, section) {
  const {meta, store} = ctx;
  const state = {by: 'name', scope: meta.device ? 'all' : 'all', filter: '', sort: 'self_ns', descending: true, start: 0, top: FIRST_ROWS};
  const columns = COLUMNS.filter((column) => column.key !== 'device_ns' || meta.device);
  let last = null,
    typing = 0;

  const head = document.createElement('div');
  head.className = 'nbp-panel-head';
  const title = document.createElement('strong');
  title.textContent = ctx.settings.tabs?.find((tab) => tab.name === 'operators')?.title ?? 'Operators';
  const by = select(
    'group by',
    meta.groupings.map((key) => [key, `by ${GROUP_TEXTS[key]}`]),
    (value) => {
      state.by = value;
      state.top = FIRST_ROWS;
      state.start = 0;
      channel.run();
    },
  );
  head.append(title, by);
  if (meta.device)
    head.append(
      select(
        'where',
        [
          ['all', 'host and device'],
          ['host', 'host'],
          ['device', 'device'],
        ],
        (value) => {
          state.scope = value;
          channel.run();
        },
      ),
    );
  const filter = document.createElement('input');
  filter.type = 'search';
  filter.placeholder = 'filter: conv, /mm|conv/, self>1ms, step=3:7';
  filter.setAttribute('aria-label', 'filter rows');
  filter.addEventListener('input', () => {
    clearTimeout(typing);
    typing = setTimeout(() => {
      state.filter = filter.value;
      state.top = FIRST_ROWS;
      state.start = 0;
      channel.run();
    }, 120);
  });
  head.append(filter);
  const problem = document.createElement('div');
  problem.className = 'nbp-problem';
  problem.setAttribute('role', 'alert');
  const scroll = document.createElement('div');
  scroll.className = 'nbp-table-scroll';
  const grid = document.createElement('table');
  grid.setAttribute('role', 'grid');
  grid.setAttribute('aria-label', title.textContent.toLowerCase());
  grid.setAttribute('aria-multiselectable', 'true');
  const headRow = document.createElement('tr'),
    body = document.createElement('tbody');
  const theadEl = document.createElement('thead');
  theadEl.append(headRow);
  grid.append(theadEl, body);
  scroll.append(grid);
  const foot = document.createElement('div');
  foot.className = 'nbp-table-foot';
  section.append(head, problem, scroll, foot);

  function select(label, choices, changed) {
    const box = document.createElement('select');
    box.setAttribute('aria-label', label);
    for (const [value, text] of choices) box.add(new Option(text, value));
    box.addEventListener('change', () => changed(box.value));
    return box;
  }
  let headed = '';
  function heads() {
    const key = [state.by, state.sort, state.descending].join();
    if (key === headed) return;
    headed = key;
    headRow.replaceChildren(
      ...columns.map((column) => {
        const cell = document.createElement('th'),
          button = document.createElement('button');
        const key = column.key === 'share' ? 'self_ns' : column.key,
          active = state.sort === key && column.key !== 'share';
        cell.scope = 'col';
        cell.className = column.numeric ? `nbp-number nbp-col-${column.key}` : '';
        cell.setAttribute('aria-sort', active ? (state.descending ? 'descending' : 'ascending') : 'none');
        button.textContent = `${column.key === 'label' ? GROUP_TEXTS[state.by] : column.text}${active ? (state.descending ? ' ▾' : ' ▴') : ''}`;
        if (column.title) button.title = column.title;
        button.dataset.sort = key;
        button.addEventListener('click', () => {
          state.start = 0;
          if (state.sort === key) state.descending = !state.descending;
          else {
            state.sort = key;
            state.descending = column.numeric;
          }
          channel.run();
        });
        cell.append(button);
        return cell;
      }),
    );
  }
  const channel = ctx.asker.channel(
    () => ({t: 'table', ...state}),
    (answer) => {
      last = answer;
      draw();
      ctx.count('table');
      ctx.totals(answer);
    },
    (error) => ctx.trouble(error),
    DIMENSIONS,
    ctx.host.frames.turn,
  );

  function clauseOf(row) {
    // what a click on a row selects
    if (last.by === 'category') return {dimension: 'category', value: last.label[row]};
    return last.data.name[row] === NO_NAME ? null : {dimension: 'name', value: last.label[row]};
  }
  const isChosen = (row) => {
    const c = clauseOf(row);
    return c !== null && (store.get()[c.dimension] ?? []).includes(c.value);
  };
  // what is chosen shows at once, before the kernel has answered
  function mark(row, i) {
    const chosen = isChosen(i),
      any = ['name', 'category'].some((d) => store.get()[d]);
    if (row.getAttribute('aria-selected') !== String(chosen)) row.setAttribute('aria-selected', String(chosen));
    row.classList.toggle('nbp-unchosen', any && !chosen && last.by !== 'module');
  }
  // swatch, name, marks; of a long name the end stays, by which kernels differ
  function nameLine(i) {
    const line = document.createElement('div'),
      {data, label, detail} = last,
      text = label[i].length > LONGEST_SHOWN ? `${label[i].slice(0, LONGEST_SHOWN)}…${label[i].slice(-TAIL)}` : label[i];
    const add = (tag, className, content) => {
      const part = document.createElement(tag);
      part.className = className;
      part.textContent = content;
      line.append(part);
      return part;
    };
    add('i', '', '').style.background = swatchColour(i);
    const cut = text.length > 3 * TAIL ? text.length - TAIL : text.length;
    add('span', 'nbp-name', text.slice(0, cut) || '(none)');
    if (cut < text.length) add('span', 'nbp-name-end', text.slice(cut));
    const doubt = meta.doubts?.[data.side[i] ? 'device' : 'host']?.[label[i]];
    if (doubt && ['name', 'shapes'].includes(last.by)) line.append(doubtMark(doubt));
    if (data.side[i]) add('span', 'nbp-side', 'GPU');
    if (detail[i]) add('span', 'nbp-shapes', detail[i]);
    return line;
  }
  // Rows stay and only what has changed in them is written: a table made anew costs the page 15 ms of styles and layout.
  const records = [];
  function record() {
    const row = document.createElement('tr'),
      cells = columns.map((column) => {
        const cell = document.createElement('td');
        cell.className = column.key === 'label' ? 'nbp-name-cell' : column.key === 'share' ? 'nbp-number nbp-share-cell' : 'nbp-number';
        row.append(cell);
        return cell;
      });
    return {row, cells, shown: []};
  }
  function put(one, k, text, write) {
    if (one.shown[k] === text) return;
    one.shown[k] = text;
    write(text);
  }
  function fill(one, i, most) {
    const {data, label, detail} = last;
    put(one, 'name', [last.by, label[i], detail[i], data.side[i], data.name[i], Boolean(meta.doubts)].join('\n'), () => {
      one.row.dataset.name = label[i];
      one.cells[0].title = `${label[i].slice(0, 4 * LONGEST_SHOWN)}${detail[i] ? `\n${detail[i]}` : ''}`;
      one.cells[0].replaceChildren(nameLine(i));
    });
    columns.forEach((column, k) => {
      if (column.key === 'label') return;
      const value = data[column.key][i],
        cell = one.cells[k];
      put(one, k, value || column.key !== 'device_ns' ? column.format(value) : '', (text) => (cell.textContent = text));
      if (column.key === 'share')
        put(one, 'share', `${((100 * value) / most).toFixed(1)}%`, (text) => cell.style.setProperty('--nbp-share', text));
    });
    mark(one.row, i);
  }
  function draw() {
    heads();
    const {data, label} = last,
      most = Math.max(1e-9, ...data.share);
    const focused = body.contains(document.activeElement) ? document.activeElement.dataset.name : null;
    while (records.length < label.length) {
      records.push(record());
      body.append(records.at(-1).row);
    }
    for (const {row} of records.splice(label.length)) row.remove();
    records.forEach((one, i) => fill(one, i, most));
    let reached = 0;
    if (focused !== null) {
      // who walks the rows by keyboard must not be thrown out by fresh data
      reached = Math.max(0, label.indexOf(focused));
      const again = records[reached]?.row;
      if (again && again !== document.activeElement) again.focus({preventScroll: true});
    }
    records.forEach(({row}, i) => {
      if (row.tabIndex !== (i === reached ? 0 : -1)) row.tabIndex = i === reached ? 0 : -1;
    });
    problem.textContent = last.error;
    problem.hidden = !last.error;
    footer();
  }
  let footed = '';
  function footer() {
    const {label} = last,
      key = [last.rows, last.start, label.length, state.filter, state.top, Boolean(last.estimate)].join('\n');
    if (key === footed) return;
    footed = key;
    const hidden = last.rows - last.start - label.length;
    foot.replaceChildren(
      last.rows
        ? `${formatCount(last.rows)} ${last.rows === 1 ? 'row' : 'rows'}`
        : state.filter
          ? 'no row passes the filter'
          : 'nothing is selected by the other views',
    );
    if (last.estimate) foot.append(' · ≈ estimates: many slices are in this file as sums only');
    const turn = (text, change) => {
      const button = document.createElement('button');
      button.textContent = text;
      button.addEventListener('click', () => {
        const from = state.start;
        change();
        channel.run();
        if (state.start !== from) scroll.scrollTop = 0;
      });
      foot.append(button);
    };
    if (last.start || label.length >= PAGE_ROWS) foot.append(` · ${formatCount(last.start + 1)} – ${formatCount(last.start + label.length)}`);
    if (last.start) turn('‹ before', () => (state.start = Math.max(0, state.start - PAGE_ROWS)));
    if (hidden > 0 && state.top < PAGE_ROWS) turn(`show ${Math.min(hidden, MORE_ROWS)} more`, () => (state.top = Math.min(PAGE_ROWS, state.top + MORE_ROWS)));
    else if (hidden > 0) turn('after ›', () => (state.start += PAGE_ROWS));
  }
  function swatchColour(i) {
    const code = last.data.name[i];
    if (code !== NO_NAME) return ctx.palettes.css(ctx.palettes.colour('name', ctx.colourOfName(code)));
    if (last.by === 'category') return meta.colours.categories[meta.categories.indexOf(last.label[i])] ?? 'transparent';
    return 'transparent';
  }
  function choose(row, extend) {
    const clause = clauseOf(row);
    if (!clause) {
      ctx.hint('modules are shown, not selected: click the names inside');
      return;
    }
    const now = store.get()[clause.dimension] ?? [];
    const next = now.includes(clause.value)
      ? now.filter((v) => v !== clause.value)
      : extend
        ? [...now, clause.value]
        : [clause.value];
    store.set({[clause.dimension]: next.length ? next : null}, 'table');
  }
  const rowOf = (event) => {
    const row = event.target.closest('tbody tr');
    return row ? [...body.children].indexOf(row) : -1;
  };
  body.addEventListener('click', (event) => {
    const i = rowOf(event);
    if (i >= 0) choose(i, event.ctrlKey || event.metaKey || event.shiftKey);
  });
  body.addEventListener('keydown', (event) => {
    const i = rowOf(event),
      step = {ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9}[event.key];
    if (i < 0) return;
    if (step) {
      const next = body.children[Math.max(0, Math.min(body.children.length - 1, i + step))];
      body.children[i].tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    } else if (event.key === 'Enter' || event.key === ' ') choose(i, event.ctrlKey || event.shiftKey);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  return {
    refresh: () => channel.run(),
    redraw: () => {
      if (last) [...body.children].forEach(mark);
    },
    doubted: () => {
      if (last) draw();
    },
    close: () => {
      clearTimeout(typing);
      channel.close();
    },
    focusFilter: () => filter.focus(),
    reveal() {
      // in the table's own box: the page stays where it is, with the timeline in sight
      const row = body.querySelector('[aria-selected=true]'),
        head = theadEl.offsetHeight;
      if (!row) return;
      if (row.offsetTop - head < scroll.scrollTop) scroll.scrollTop = row.offsetTop - head;
      else if (row.offsetTop + row.offsetHeight > scroll.scrollTop + scroll.clientHeight)
        scroll.scrollTop = row.offsetTop + row.offsetHeight - scroll.clientHeight;
    },
    snapshot: () => ({
      by: last?.by,
      rows: last?.rows ?? 0,
      labels: last?.label ?? [],
      count: last ? Array.from(last.data.count) : [],
      total: last ? Array.from(last.data.total_ns) : [],
      self: last ? Array.from(last.data.self_ns) : [],
      chosen: [...body.querySelectorAll('[aria-selected=true]')].map((r) => r.dataset.name),
    }),
  };
}
