// Which rows of the store stand where: steps on top, tracks under their groups, counters at the end. Tracks fold to one
// row, hide, move within their group, and can be filtered by name.
function createLanes(meta) {
  const folded = new Set(),
    hidden = new Set(),
    closed = new Set();
  let order = [...meta.tracks],
    filter = '',
    list = [];
  for (const t of meta.tracks) if (meta.hidden?.includes(t.rank)) hidden.add(t.track);
  // ranks above one another: a line for each thread, so that all of them are in sight
  if (new Set(meta.tracks.filter((t) => !hidden.has(t.track)).map((t) => t.rank)).size > 1) for (const t of meta.tracks) if (t.depths > 3) folded.add(t.track);
  const groupsOf = () => [...new Set(order.map((t) => t.group))];
  const several = groupsOf().length > 1;
  const passes = (one) => !filter || `${one.name} ${one.group}`.toLowerCase().includes(filter);
  const trackOf = (row) => meta.tracks.find((t) => row >= t.row && row < t.row + t.depths);
  function layout() {
    list = [];
    if (meta.stepColumns.step.length) list.push({kind: 'steps'});
    for (const group of groupsOf()) {
      const tracks = order.filter((t) => t.group === group && !hidden.has(t.track) && passes(t));
      if (!tracks.length) continue;
      if (several) list.push({kind: 'group', text: group, tracks: tracks.length, open: !closed.has(group)});
      if (several && closed.has(group)) continue;
      for (const track of tracks) {
        const depths = folded.has(track.track) ? 1 : track.depths;
        for (let d = 0; d < depths; d++) list.push({kind: 'lane', row: track.row + d, track, first: d === 0, depths});
      }
    }
    const counters = (meta.counters ?? []).filter((c) => !hidden.has(c.track) && passes(c));
    if (!counters.length) return;
    list.push({kind: 'group', text: 'counters', tracks: counters.length, open: !closed.has('counters')});
    if (closed.has('counters')) return;
    for (const counter of counters)
      for (let d = 0; d < COUNTER_LANES; d++) list.push({kind: 'counter', counter, first: d === 0, depths: COUNTER_LANES});
  }
  const toggle = (set, key) => {
    if (!set.delete(key)) set.add(key);
    layout();
  };
  layout();
  return {
    all: () => list,
    count: () => list.length,
    at: (y) => list[Math.floor(y)],
    visible: () => list, // the timeline narrows it to what is on the screen
    placeOfRow: (row) => list.findIndex((lane) => lane.kind === 'lane' && lane.row === row),
    placeOfCounter: (track) => list.findIndex((lane) => lane.kind === 'counter' && lane.counter.track === track),
    isFolded: (track) => folded.has(track.track),
    fold: (track) => toggle(folded, track.track),
    close: (group) => toggle(closed, group),
    hide(key) {
      hidden.add(key);
      layout();
    },
    showAll() {
      hidden.clear();
      filter = '';
      layout();
    },
    hiddenCount: () => hidden.size,
    setFilter(text) {
      filter = text.trim().toLowerCase();
      layout();
    },
    // one place up (-1) or down (1) among the tracks of its group that are shown
    move(track, by) {
      const peers = order.filter((t) => t.group === track.group && !hidden.has(t.track) && passes(t)),
        other = peers[peers.indexOf(track) + by];
      if (!other) return;
      const [i, j] = [order.indexOf(track), order.indexOf(other)];
      order = order.with(i, other).with(j, track);
      layout();
    },
    // make a row visible whatever hides it; true if that changed the layout
    reveal(row) {
      const track = trackOf(row);
      if (!track || list.some((lane) => lane.kind === 'lane' && lane.row === row)) return false;
      folded.delete(track.track);
      hidden.delete(track.track);
      closed.delete(track.group);
      if (!passes(track)) filter = '';
      layout();
      return true;
    },
  };
}
