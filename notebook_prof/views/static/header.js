// On top: the verdict, below it what cannot be trusted, and in words what is selected, each clause with its own ×.
function foldable(first, rest) {
  const box = document.createElement(rest.length ? 'details' : 'div');
  box.className = 'nbp-verdict';
  const head = document.createElement(rest.length ? 'summary' : 'span');
  head.textContent = first;
  box.append(head);
  for (const line of rest) {
    const p = document.createElement('div');
    p.textContent = line;
    box.append(p);
  }
  return box;
}

// the verdict, and what cannot be trusted: the lines of Profile.headline
function headlineOf(text) {
  const [first, ...rest] = text.split('\n').filter(Boolean),
    trust = rest.findIndex((line) => /^[!✗] Trust/.test(line)),
    parts = [];
  if (first) parts.push(foldable(first, trust < 0 ? rest : rest.slice(0, trust)));
  if (trust >= 0) {
    const warning = foldable(rest[trust], rest.slice(trust + 1));
    warning.classList.add('nbp-trust');
    parts.push(warning);
  }
  return parts;
}

function createHeader(ctx, box) {
  const {settings, store} = ctx;
  const headline = document.createElement('div');
  headline.className = 'nbp-headline';
  headline.replaceChildren(...headlineOf(settings.verdict || ''));
  box.append(headline);
  let close = () => {};
  if (settings.late) {
    const working = document.createElement('div');
    working.className = 'nbp-verdict nbp-working';
    working.textContent = 'working out the verdict …';
    headline.setAttribute('role', 'status');
    headline.append(working);
    close = ctx.whenTold?.((text) => headline.replaceChildren(...headlineOf(text))) ?? close;
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
  function draw() {
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
