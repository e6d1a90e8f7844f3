// On top: the verdict, below it what cannot be trusted, and in words what is selected, each clause with its own ×.
function foldable(first, rest, pick) {
  const box = document.createElement(rest.length ? 'details' : 'div');
  box.className = 'nbp-verdict';
  const head = document.createElement(rest.length ? 'summary' : 'span');
  head.append(...piecesOf(first, pick));
  box.append(head);
  for (const line of rest) {
    const p = document.createElement('div');
    p.append(...piecesOf(line, pick));
    box.append(p);
  }
  return box;
}

// A line of the headline: texts, and links to the rows that prove a number. Text is text: names come from strangers' files.
function piecesOf(line, pick) {
  return line.map(([text, select]) => {
    if (!select || !pick) return document.createTextNode(text);
    const link = document.createElement('a');
    link.className = 'nbp-claim';
    link.textContent = text;
    link.title = 'show what this is of';
    link.tabIndex = 0;
    link.nbpSelect = select;
    link.setAttribute('role', 'button');
    link.setAttribute('aria-pressed', 'false');
    const act = (event) => {
      event.preventDefault(); // the line around it opens and closes by a click
      event.stopPropagation();
      pick(select);
    };
    link.addEventListener('click', act);
    link.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' || event.key === ' ') act(event);
    });
    return link;
  });
}

// the verdict, and what cannot be trusted: the lines of Profile.headline, in pieces as views/headline.py cuts them
function headlineOf(text, pieces, pick) {
  const lines = pieces ?? text.split('\n').filter(Boolean).map((line) => [[line, null]]),
    [first, ...rest] = lines,
    trust = rest.findIndex(([[line]]) => /^[!✗] Trust/.test(line)),
    parts = [];
  if (first) parts.push(foldable(first, trust < 0 ? rest : rest.slice(0, trust), pick));
  if (trust >= 0) {
    const warning = foldable(rest[trust], rest.slice(trust + 1), pick);
    warning.classList.add('nbp-trust');
    parts.push(warning);
  }
  return parts;
}

function createHeader(ctx, box, ...below) {
  const {settings, store} = ctx;
  const headline = document.createElement('div');
  headline.className = 'nbp-headline';
  const tell = (text, pieces) => {
    headline.replaceChildren(...headlineOf(text, pieces, pick));
    mark();
  };
  tell(settings.verdict || '', settings.headline);
  box.append(headline, ...below);
  let close = () => {};
  if (settings.late) {
    const working = document.createElement('div');
    working.className = 'nbp-verdict nbp-working';
    working.textContent = 'working out the verdict …';
    headline.setAttribute('role', 'status');
    headline.append(working);
    close = ctx.whenTold?.(tell) ?? close;
  }
  const line = document.createElement('div');
  line.className = 'nbp-selection';
  line.setAttribute('role', 'status');
  line.setAttribute('aria-live', 'polite');
  const what = document.createElement('span'),
    totals = document.createElement('span'),
    clear = document.createElement('button');
  what.className = 'nbp-chips';
  totals.className = 'nbp-totals';
  clear.className = 'nbp-clear';
  clear.textContent = 'Clear';
  clear.title = 'clear the selection (Esc)';
  clear.addEventListener('click', () => store.clear('clear'));
  line.append(what, totals, clear);
  box.append(line);

  const words = {
    window: ([a, b]) => `${formatInstant(a, (b - a) / 100, b)} – ${formatInstant(b, (b - a) / 100)} (${formatTime(b - a)})`,
    name: (names) => (names.length === 1 ? names[0] : `${names[0]} and ${names.length - 1} more`),
    step: (steps) => `step ${formatNumbers(steps)}`,
    track: (tracks) => `track ${tracks.map((k) => ctx.meta.tracks.find((t) => t.track === k)?.name ?? k).join(', ')}`,
    rank: (ranks) => `rank ${formatNumbers(ranks)}`,
    group: (groups) => `process group ${groups.join(', ')}`,
    category: (values) => `category ${values.join(', ')}`,
    phase: (values) => `phase ${values.join(', ')}`,
  };
  // what a link selects, and nothing else; the same again takes it away
  function whole(select) {
    return {...Object.fromEntries(DIMENSIONS.map((key) => [key, null])), ...select};
  }
  function pick(select) {
    if (isPicked(store.get(), {...whole(select), focus: store.get().focus})) {
      store.clear('headline');
      return;
    }
    store.set(whole(select), 'headline');
    ctx.showSelection?.();
  }
  function mark() {
    const state = store.get();
    for (const link of headline.querySelectorAll('.nbp-claim'))
      link.setAttribute('aria-pressed', String(isPicked(state, {...whole(link.nbpSelect), focus: state.focus})));
  }
  function draw() {
    mark();
    const state = store.get(),
      chips = [];
    for (const [dimension, write] of Object.entries(words)) {
      if (state[dimension] == null) continue;
      const chip = document.createElement('span'),
        text = document.createElement('span'),
        cross = document.createElement('button');
      chip.className = 'nbp-chip';
      chip.dataset.dimension = dimension;
      text.textContent = write(state[dimension]);
      text.title = [].concat(state[dimension]).slice(0, 30).join('\n');
      cross.textContent = '×';
      cross.setAttribute('aria-label', `remove ${dimension} from the selection`);
      cross.addEventListener('click', () => store.set({[dimension]: null}, 'chip'));
      chip.append(text, cross);
      chips.push(chip);
    }
    const label = document.createElement('span');
    label.className = 'nbp-selection-label';
    label.textContent = chips.length ? 'Selected' : 'Everything';
    what.replaceChildren(label, ...chips);
    clear.disabled = store.isEmpty() && state.focus == null;
  }
  draw();
  return {
    draw,
    close,
    totals: ({count, self_ns: self, estimate}) => {
      totals.textContent = `${estimate ? '≈ ' : ''}${formatCount(count)} ${count === 1 ? 'slice' : 'slices'} · ${formatTime(self)} self time`;
    },
  };
}
