// The parts of a tab: notes, facts, cards, tables. All text is text: names come from strangers' files.
const CELLS = {
  ns: formatTimeCell,
  instant: (ns) => formatInstant(ns, Math.max(Math.abs(ns) / 1e4, 1)),
  bytes: (n) => formatBytes(n),
  share: formatShare,
  count: formatCount,
  number: (x) => significant(x, 4),
  flops: (x) => formatScaled(x, 'FLOP'),
  'flops/s': (x) => formatScaled(x, 'FLOP/s'),
  'bytes/s': (x) => `${formatBytes(x)}/s`,
};
const cellText = (value, unit) => (Number.isFinite(value) ? CELLS[unit](value) : '–');

function formatScaled(value, unit) {
  const names = ['', 'k', 'M', 'G', 'T', 'P'],
    k = value ? Math.max(0, Math.min(names.length - 1, Math.floor(Math.log10(Math.abs(value)) / 3))) : 0;
  return `${significant(value / 1000 ** k, 3)} ${names[k]}${unit}`;
}

async function createParts(ctx, answer, pick) {
  const parts = answer.absent
    ? [{kind: 'absent', text: answer.absent}]
    : answer.parts.map((part, i) => ({...part, columns: columnsOf(answer.data, i)}));
  const make = {absent: absentPart, note: notePart, facts: factsPart, cards: cardsPart, table: tablePart, picture: picturePart};
  const made = parts.map((part) => make[part.kind](ctx, part, pick));
  return {
    kinds: parts.map((part) => part.kind),
    elements: made.map((part) => part.element),
    mount: () => Promise.all(made.map((part) => part.mount?.())),
    redraw: () => made.forEach((part) => part.redraw?.()),
    theme: () => made.forEach((part) => part.theme?.()),
    dispose: () => made.forEach((part) => part.dispose?.()),
    snapshot: () => made.filter((part) => part.snapshot).map((part) => part.snapshot()),
    locate: (part, index) => made.filter((one) => one.locate)[part]?.locate(index) ?? null,
  };
}

function columnsOf(data, place) {
  const start = `${place}.`;
  return Object.fromEntries(
    Object.entries(data ?? {})
      .filter(([key]) => key.startsWith(start))
      .map(([key, values]) => [key.slice(start.length), values]),
  );
}

function textElement(tag, className, text) {
  const el = document.createElement(tag);
  el.className = className;
  el.textContent = text;
  return el;
}

const absentPart = (ctx, {text}) => ({element: textElement('p', 'nbp-empty', text)});
const notePart = (ctx, {text, warns}) => ({element: textElement('p', warns ? 'nbp-part-note nbp-warns' : 'nbp-part-note', text)});

function factsPart(ctx, {facts}) {
  const list = textElement('div', 'nbp-facts', '');
  list.setAttribute('role', 'list');
  for (const {label, value, note} of facts) {
    const one = textElement('div', 'nbp-one-fact', '');
    one.setAttribute('role', 'listitem');
    one.append(textElement('div', 'nbp-fact-label', label), textElement('div', 'nbp-fact-value', value));
    if (note) one.append(textElement('div', 'nbp-fact-label', note));
    list.append(one);
  }
  return {element: list};
}

// A list whose items are walked with the arrows and chosen with Enter.
function walked(list, items, pick) {
  items.forEach((item, i) => {
    item.el.tabIndex = i ? -1 : 0;
    item.el.addEventListener('click', () => {
      if (!String(getSelection())) pick(item.select);
    });
  });
  list.addEventListener('keydown', (event) => {
    const at = items.findIndex((item) => item.el === event.target),
      by = {ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9}[event.key];
    if (at < 0) return;
    if (by) {
      const next = items[Math.max(0, Math.min(items.length - 1, at + by))].el;
      items[at].el.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    } else if (event.key === 'Enter' || event.key === ' ') pick(items[at].select);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
}

function cardsPart(ctx, {cards}, pick) {
  const list = textElement('div', 'nbp-cards', '');
  list.setAttribute('role', 'listbox');
  const items = cards.map((card) => {
    const el = textElement('article', 'nbp-card', ''),
      head = textElement('div', 'nbp-card-head', '');
    el.setAttribute('role', 'option');
    head.append(textElement('strong', '', card.title), textElement('span', 'nbp-badge', card.badge));
    if (card.select) head.append(textElement('span', 'nbp-card-action', ''));
    el.append(head, ...card.lines.map((line) => textElement('p', '', line)));
    el.classList.toggle('nbp-pickable', Boolean(card.select));
    list.append(el);
    return {el, select: card.select};
  });
  const redraw = () => {
    for (const {el, select} of items) {
      const taken = Boolean(select) && isPicked(ctx.store.get(), select),
        action = el.querySelector('.nbp-card-action');
      el.setAttribute('aria-selected', String(taken));
      if (action) action.textContent = taken ? 'selected' : 'show evidence';
    }
  };
  walked(list, items, pick);
  redraw();
  return {element: list, redraw};
}

function tablePart(ctx, part, pick) {
  const {heads, texts, columns, bars = [], size, rows, select, title, call} = part,
    box = textElement('div', 'nbp-part-table', ''),
    scroll = textElement('div', 'nbp-part-scroll', ''),
    grid = document.createElement('table'),
    body = document.createElement('tbody'),
    headRow = document.createElement('tr'),
    thead = document.createElement('thead');
  box.classList.toggle('nbp-barred', bars.length > 0);
  if (title) box.append(textElement('div', 'nbp-part-title', title));
  grid.setAttribute('role', 'grid');
  grid.setAttribute('aria-label', title || 'table');
  thead.append(headRow);
  grid.append(thead, body);
  scroll.append(grid);
  box.append(scroll);
  const numeric = (unit) => unit !== 'text' && unit !== 'code',
    highest = (keys) => keys.reduce((most, key) => columns[key].reduce((p, x) => Math.max(p, x || 0), most), 1e-9),
    barred = bars.filter((key) => columns[key]), // on one scale
    largest = Object.fromEntries([
      ...heads.filter(([, , unit]) => unit === 'share').map(([key]) => [key, highest([key])]),
      ...barred.map((key) => [key, highest(barred)]),
    ]);
  let sort = null,
    descending = true;
  const items = Array.from({length: size}, (_, i) => {
    const el = document.createElement('tr');
    el.append(
      ...heads.map(([key, , unit]) => {
        const cell = document.createElement('td');
        cell.textContent = numeric(unit) ? cellText(columns[key][i], unit) : texts[key][i];
        cell.className = numeric(unit) ? 'nbp-number' : `nbp-${unit}`;
        if (!numeric(unit)) cell.title = texts[key][i];
        if (largest[key] && Number.isFinite(columns[key][i])) {
          cell.classList.add('nbp-share-cell');
          cell.style.setProperty('--nbp-share', `${(100 * columns[key][i]) / largest[key]}%`);
        }
        return cell;
      }),
    );
    el.classList.toggle('nbp-pickable', Boolean(select?.[i]));
    return {el, select: select?.[i] ?? null, i};
  });
  function order() {
    const found = items.slice(),
      values = sort && (columns[sort] ?? texts[sort]);
    if (sort)
      found.sort((p, q) => {
        const [a, b] = [values[p.i], values[q.i]],
          by = typeof a === 'string' ? a.localeCompare(b) : Number.isNaN(a) - Number.isNaN(b) || a - b;
        return (descending ? -by : by) || p.i - q.i;
      });
    body.replaceChildren(...found.map((item) => item.el));
    headRow.replaceChildren(...heads.map(headOf));
  }
  function headOf([key, text, unit]) {
    const cell = document.createElement('th'),
      button = document.createElement('button'),
      active = sort === key;
    cell.scope = 'col';
    cell.className = numeric(unit) ? 'nbp-number' : `nbp-${unit}`;
    cell.setAttribute('aria-sort', active ? (descending ? 'descending' : 'ascending') : 'none');
    button.textContent = `${text}${active ? (descending ? ' ▾' : ' ▴') : ''}`;
    button.addEventListener('click', () => {
      if (!active) [sort, descending] = [key, numeric(unit)];
      else if (descending === numeric(unit)) descending = !descending;
      else sort = null; // the third click gives back the order in which it came
      order();
    });
    cell.append(button);
    return cell;
  }
  const redraw = () => {
    for (const {el, select: patch} of items) el.setAttribute('aria-selected', String(Boolean(patch) && isPicked(ctx.store.get(), patch)));
  };
  const foot = textElement('div', 'nbp-part-foot', size < rows ? `the first ${formatCount(size)} of ${formatCount(rows)} rows` : '');
  if (!size) foot.textContent = 'no rows';
  if (call) {
    if (foot.textContent) foot.append(' · ');
    foot.append('in Python: ', textElement('code', '', call));
  }
  if (foot.textContent) box.append(foot);
  order();
  redraw();
  walked(body, items, pick);
  return {element: box, redraw};
}
