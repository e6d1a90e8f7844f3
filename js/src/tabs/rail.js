// The rail of tabs beside the step phases. The operator table is one of them; every other is asked for when it is
// looked at, and again when the selection changes while it is.
const OPERATORS = 'operators';
const LATE_MS = 150; // after which a word says that something is being worked out
const SELECTED = {window: 'time', name: 'name', category: 'category', track: 'track', step: 'step', phase: 'phase', rank: 'rank'};

function railSkeleton(row) {
  const tabs = element('section', 'nbp-tabs', row),
    rail = element('div', 'nbp-rail', tabs),
    table = element('div', 'nbp-panel nbp-table', tabs),
    panel = element('div', 'nbp-panel nbp-tab', tabs);
  rail.setAttribute('role', 'tablist');
  rail.setAttribute('aria-label', 'views of the profile');
  rail.setAttribute('aria-orientation', 'vertical');
  panel.hidden = true;
  return {tabs, rail, table, panel};
}

function createPanels(ctx, row, {rail, table, panel}) {
  const {settings, store} = ctx,
    known = new Map((settings.tabs ?? []).map((tab) => [tab.name, tab])),
    buttons = new Map(),
    serial = `nbp-${Math.random().toString(36).slice(2, 8)}`,
    own = new Set(); // dimensions that the open tab has set itself: they do not filter it
  let open = known.has(settings.open) ? settings.open : OPERATORS,
    turn = 0,
    late = 0,
    shown = null,
    state = 'none',
    closed = false;

  for (const [name, tab] of known) {
    const button = document.createElement('button');
    button.id = `${serial}-${name}`;
    button.dataset.tab = name;
    button.setAttribute('role', 'tab');
    button.textContent = tab.title;
    button.addEventListener('click', () => show(name));
    rail.append(button);
    buttons.set(name, button);
  }
  for (const [el, id] of [
    [table, 'table'],
    [panel, 'panel'],
  ]) {
    el.id = `${serial}-${id}-view`;
    el.setAttribute('role', 'tabpanel');
  }
  const head = element('div', 'nbp-panel-head', panel),
    title = element('strong', '', head),
    scope = element('span', 'nbp-tab-scope', head),
    body = element('div', 'nbp-tab-body', panel);
  head.append(widen());
  body.tabIndex = 0;
  body.setAttribute('aria-live', 'off');
  rail.addEventListener('keydown', (event) => {
    const names = [...buttons.keys()],
      at = names.indexOf(event.target.dataset?.tab),
      by = {ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, Home: -names.length, End: names.length}[event.key];
    if (at < 0 || by === undefined) return;
    const to = Math.abs(by) > 1 ? Math.max(0, Math.min(names.length - 1, at + by)) : (at + by + names.length) % names.length;
    reach(names[to]);
    buttons.get(names[to]).focus();
    event.preventDefault();
    event.stopPropagation();
  });

  // the table too may take the whole width: one button serves both
  function widen() {
    const button = document.createElement('button');
    button.className = 'nbp-widen';
    const write = () => {
      const wide = row.classList.contains('nbp-wide');
      button.textContent = wide ? '⤡ narrow' : '⤢ wide';
      button.title = wide ? 'put the step phases beside it again' : 'take the whole width; the step phases go below';
      button.setAttribute('aria-pressed', String(wide));
    };
    button.addEventListener('click', () => {
      row.classList.toggle('nbp-wide');
      write();
    });
    write();
    return button;
  }
  function reach(name) {
    for (const [other, button] of buttons) button.tabIndex = other === name ? 0 : -1;
  }
  function marks() {
    for (const [name, button] of buttons) {
      const {missing} = known.get(name);
      button.setAttribute('aria-selected', String(name === open));
      button.setAttribute('aria-controls', name === OPERATORS ? table.id : panel.id);
      button.classList.toggle('nbp-missing', Boolean(missing));
      button.title = missing ?? '';
    }
    reach(open);
    table.setAttribute('aria-labelledby', `${serial}-${OPERATORS}`);
    panel.setAttribute('aria-labelledby', `${serial}-${open}`);
  }
  function show(name) {
    if (!known.has(name) || name === open) return;
    open = name;
    own.clear();
    showOpen();
  }
  function showOpen() {
    const name = open;
    marks();
    table.hidden = name !== OPERATORS;
    panel.hidden = name === OPERATORS;
    clear();
    if (name === OPERATORS) return;
    title.textContent = known.get(name).title;
    scope.textContent = '';
    ask();
  }
  function clear() {
    turn++;
    clearTimeout(late);
    shown?.dispose();
    shown = null;
    state = 'none';
    body.replaceChildren();
    body.removeAttribute('aria-busy');
    body.classList.remove('nbp-stale');
  }
  function sentence(text, kind) {
    const p = document.createElement('p');
    p.className = kind;
    p.textContent = text;
    return p;
  }
  async function ask() {
    const mine = ++turn,
      name = open,
      {missing} = known.get(name);
    clearTimeout(late);
    if (missing) {
      state = 'absent';
      body.replaceChildren(sentence(missing, 'nbp-empty'));
      return;
    }
    state = 'asked';
    body.setAttribute('aria-busy', 'true');
    late = setTimeout(() => {
      if (shown) body.classList.add('nbp-stale');
      else body.replaceChildren(sentence('Working it out …', 'nbp-empty nbp-working'));
    }, LATE_MS);
    try {
      const answer = await ctx.asker.ask({t: 'panel', name, own: [...own]}, () => mine === turn);
      if (mine !== turn || closed) return;
      const next = await createParts(ctx, answer, pick);
      if (mine !== turn || closed) {
        next.dispose();
        return;
      }
      const top = body.scrollTop;
      shown?.dispose();
      shown = next;
      body.replaceChildren(...next.elements);
      await next.mount();
      body.scrollTop = top;
      state = answer.absent ? 'absent' : 'shown';
      title.textContent = answer.title ?? known.get(name).title;
      scope.textContent = answer.absent ? '' : scopeOf(answer);
      ctx.count(`panel ${name}`);
    } catch (error) {
      if (mine !== turn || closed) return;
      state = 'failed';
      shown?.dispose();
      shown = null;
      const again = document.createElement('button');
      again.textContent = 'Try again';
      again.addEventListener('click', ask);
      const problem = sentence(`This tab could not be worked out: ${error.message} `, 'nbp-problem');
      problem.setAttribute('role', 'alert');
      problem.append(again);
      body.replaceChildren(problem);
    } finally {
      if (mine === turn) {
        clearTimeout(late);
        body.removeAttribute('aria-busy');
        body.classList.remove('nbp-stale');
      }
    }
  }
  // in words: which clauses of the selection this tab follows, and which it does not
  function scopeOf({under, whole}) {
    const chosen = Object.keys(SELECTED).filter((d) => store.get()[d] != null && !own.has(d)),
      words = (dimensions) => dimensions.map((d) => SELECTED[d]).join(', ');
    if (!chosen.length) return '';
    if (whole) return 'of the whole recording: this file cannot work it out for the selection';
    const followed = chosen.filter((d) => under.includes(d)),
      rest = chosen.filter((d) => !under.includes(d));
    return [followed.length ? `of the selected ${words(followed)}` : '', rest.length ? `whatever the selected ${words(rest)}` : '']
      .filter(Boolean)
      .join(' · ');
  }
  // a click on a row, card or mark: the same again takes it away
  function pick(patch) {
    if (!patch) return;
    const taken = isPicked(store.get(), patch);
    for (const key of Object.keys(patch)) own.add(key);
    store.set(taken ? Object.fromEntries(Object.keys(patch).map((key) => [key, null])) : patch, `tab ${open}`);
    if (!taken && patch.focus != null) ctx.reveal(patch.focus);
  }
  showOpen();
  return {
    show,
    changed(patch, origin) {
      if (open === OPERATORS) return;
      if (origin === `tab ${open}`) {
        shown?.redraw();
        return;
      }
      for (const key of Object.keys(patch)) own.delete(key);
      shown?.redraw();
      if (Object.keys(patch).some((key) => key !== 'focus')) ask();
    },
    theme: () => shown?.theme(),
    close() {
      closed = true;
      clear();
    },
    snapshot: () => ({
      open,
      state,
      title: title.textContent,
      scope: scope.textContent,
      text: body.innerText,
      parts: shown?.kinds ?? [],
      asked: ctx.asker.log.of.panel ?? 0,
      missing: [...known.values()].filter((tab) => tab.missing).map((tab) => tab.name),
      pictures: shown?.snapshot() ?? [],
    }),
    locate: (part, index) => shown?.locate(part, index) ?? null,
  };
}

const isPicked = (state, patch) => {
  const keys = Object.keys(patch).filter((key) => patch[key] != null);
  return keys.length > 0 && Object.keys(patch).every((key) => JSON.stringify(state[key] ?? null) === JSON.stringify(patch[key] ?? null));
};
