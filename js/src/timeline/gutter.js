// Names of tracks beside the timeline. A native scroll container: its scroll position is the timeline's.
// Threads of a pool differ at the end of their names: the middle is left out.
const LONGEST_TRACK = 19;
const shortened = (name) => (name.length <= LONGEST_TRACK ? name : `${name.slice(0, 9)}…${name.slice(-(LONGEST_TRACK - 10))}`);

function createGutter(ctx, lanes, onChange) {
  const {settings, store} = ctx,
    box = document.createElement('div'),
    top = document.createElement('div');
  box.className = 'nbp-gutter';
  box.style.width = `${settings.gutter}px`;
  box.style.top = `${settings.axis}px`;
  box.tabIndex = 0;
  box.setAttribute('aria-label', 'tracks');
  top.className = 'nbp-gutter-top';
  top.style.width = `${settings.gutter - 44}px`; // the first label of the axis reaches over its edge
  const filter = document.createElement('input'),
    all = document.createElement('button');
  filter.type = 'search';
  filter.placeholder = 'tracks';
  filter.setAttribute('aria-label', 'filter tracks by name');
  filter.addEventListener('input', () => {
    lanes.setFilter(filter.value);
    changed();
  });
  all.className = 'nbp-show-all';
  all.addEventListener('click', () => {
    filter.value = '';
    lanes.showAll();
    changed();
  });
  top.append(filter, all);

  function changed(focused) {
    render();
    onChange('layout');
    if (focused) box.querySelector(`[data-key="${focused}"]`)?.focus({preventScroll: true});
  }
  function button(text, title, act) {
    const made = document.createElement('button');
    made.className = 'nbp-fold';
    made.textContent = text;
    made.title = title;
    made.setAttribute('aria-label', title);
    made.tabIndex = -1;
    made.addEventListener('click', (event) => {
      event.stopPropagation();
      act();
    });
    return made;
  }
  function span(className, text) {
    const made = document.createElement('span');
    made.className = className;
    made.textContent = text;
    return made;
  }
  function trackRow(row, {track}) {
    const key = String(track.track),
      chosen = (store.get().track ?? []).includes(track.track);
    row.dataset.key = key;
    row.tabIndex = 0;
    row.setAttribute('role', 'button');
    row.setAttribute('aria-pressed', String(chosen));
    row.setAttribute('aria-label', `track ${track.name}, busy ${formatShare(track.busy)}`);
    row.title = `${track.name}\n${track.group}\nbusy ${formatShare(track.busy)} of the recording\nclick: select · Enter: fold · Alt+↑ ↓: move · H: hide`;
    if (track.depths > 1) {
      const fold = button(
        lanes.isFolded(track) ? '▸' : '▾',
        lanes.isFolded(track) ? `show all ${track.depths} levels` : 'show the outermost level only',
        () => act.fold(),
      );
      fold.tabIndex = 0;
      fold.setAttribute('aria-expanded', String(!lanes.isFolded(track)));
      row.append(fold);
    }
    const tools = document.createElement('span');
    tools.className = 'nbp-track-tools';
    const act = {
      fold() {
        lanes.fold(track);
        changed(key);
      },
      up() {
        lanes.move(track, -1);
        changed(key);
      },
      down() {
        lanes.move(track, 1);
        changed(key);
      },
      hide() {
        const next = row.nextElementSibling?.dataset.key;
        lanes.hide(track.track);
        changed(next);
      },
      choose(extend) {
        const now = store.get().track ?? [],
          next = now.includes(track.track)
            ? now.filter((k) => k !== track.track)
            : extend
              ? [...now, track.track]
              : [track.track];
        store.set({track: next.length ? next : null}, 'tracks');
      },
    };
    tools.append(button('▴', 'move up', act.up), button('▾', 'move down', act.down), button('×', 'hide this track', act.hide));
    row.append(
      span('nbp-track-name', shortened(track.name)),
      tools,
      span('nbp-track-busy', `${Math.round(100 * track.busy)} %`),
    );
    row.addEventListener('click', (event) => act.choose(event.ctrlKey || event.metaKey || event.shiftKey));
    row.addEventListener('keydown', (event) => {
      if (event.target !== row) return;
      const wanted = event.altKey
        ? {ArrowUp: act.up, ArrowDown: act.down}[event.key]
        : {Enter: track.depths > 1 ? act.fold : act.choose, ' ': act.choose, h: act.hide, Delete: act.hide}[event.key];
      if (!wanted) return;
      event.preventDefault();
      event.stopPropagation();
      wanted();
    });
  }
  function groupRow(row, lane) {
    const open = button(lane.open ? '▾' : '▸', lane.open ? 'close this group' : 'open this group', () => {
      lanes.close(lane.text);
      changed();
    });
    open.tabIndex = 0;
    open.setAttribute('aria-expanded', String(lane.open));
    row.append(open, span('nbp-track-name', lane.text), span('nbp-track-busy', String(lane.tracks)));
  }
  function counterRow(row, {counter}) {
    const [bottom, top] = scaleOf(counter),
      text = `${formatQuantity(bottom, counter.unit)} – ${formatQuantity(top, counter.unit)}`;
    row.title = `${counter.name}\n${counter.group}\nfrom ${formatQuantity(counter.low, counter.unit)} to ${formatQuantity(counter.high, counter.unit)}`;
    row.append(span('nbp-track-name', shortened(counter.name)), span('nbp-counter-range', text));
  }
  function render() {
    const held = box.contains(document.activeElement) ? document.activeElement.closest('[data-key]')?.dataset.key : null;
    const inner = document.createElement('div');
    inner.className = 'nbp-gutter-inner';
    inner.style.height = `${lanes.count() * settings.lane}px`;
    lanes.all().forEach((lane, i) => {
      if ((lane.kind === 'lane' || lane.kind === 'counter') && !lane.first) return;
      const row = document.createElement('div');
      row.className = `nbp-track nbp-track-${lane.kind}`;
      row.style.top = `${i * settings.lane}px`;
      row.style.height = `${(lane.depths ?? 1) * settings.lane}px`;
      if (lane.kind === 'lane') trackRow(row, lane);
      else if (lane.kind === 'group') groupRow(row, lane);
      else if (lane.kind === 'counter') counterRow(row, lane);
      else row.append(span('nbp-track-name', 'steps'));
      inner.append(row);
    });
    box.replaceChildren(inner);
    if (held) box.querySelector(`[data-key="${held}"]`)?.focus({preventScroll: true});
    const count = lanes.hiddenCount();
    all.hidden = !count;
    all.textContent = `${count} hidden`;
    all.title = 'show all tracks';
  }
  box.addEventListener('scroll', () => onChange('scroll'));
  render();
  return {box, top, render};
}
