// Which rows of the store stand where: steps on top, devices, threads, counters at the end. Tracks fold to one row, hide,
// move within their group, and can be filtered by name. Frames around everything are hidden; quiet threads begin folded, and
// many of them under a heading of their own.

/** Lanes of a counter. */
export const COUNTER_LANES = 2;
const MOST_QUIET = 2; // quiet threads of a process that need no heading of their own

/**
 * @typedef {{kind: 'steps', first?: undefined, depths?: undefined}} StepsLane
 * @typedef {{kind: 'group', text: string, tracks: number, open: boolean, first?: undefined, depths?: undefined}} GroupLane
 * @typedef {{kind: 'lane', row: number, track: Track, first: boolean, depths: number}} TrackLane
 * @typedef {{kind: 'counter', counter: Counter, first: boolean, depths: number}} CounterLane
 * @typedef {StepsLane | GroupLane | TrackLane | CounterLane} Lane
 */

/** The lanes of a timeline, from top to bottom. */
export class Lanes {
  /** @type {Set<number>} */ folded = new Set();
  /** @type {Set<number>} */ hidden = new Set();
  /** @type {Set<string>} */ closed = new Set();
  /** @type {Set<number>} */ outerShown = new Set();
  /** @type {Map<number, string>} */ quietGroups = new Map();
  filter = '';
  /** @type {Lane[]} */ list = [];

  /** @param {Pick<Meta, 'tracks' | 'hidden' | 'counters' | 'stepColumns'>} meta */
  constructor(meta) {
    this.meta = meta;
    this.order = [...meta.tracks];
    for (const t of meta.tracks) if (meta.hidden?.includes(t.rank)) this.hidden.add(t.track);
    const ranks = new Set(meta.tracks.filter((t) => !this.hidden.has(t.track)).map((t) => t.rank));
    // ranks above one another: a line for each thread, so that all of them are in sight
    if (ranks.size > 1) for (const t of meta.tracks) if (t.depths > 3) this.folded.add(t.track);
    this.setQuietApart();
    this.several = this.groups().length > 1;
    this.layout();
  }

  /** Fold threads that wait; where they are many, under a heading. */
  setQuietApart() {
    const quiet = this.order.filter((t) => t.quiet);
    for (const t of quiet) {
      if (t.depths - t.outer_rows > 1) this.folded.add(t.track);
      const group = `${t.group} · quiet threads`;
      if (quiet.filter((other) => other.group === t.group).length <= MOST_QUIET) continue;
      this.quietGroups.set(t.track, group);
      this.closed.add(group);
    }
  }

  /** @param {Track} track */
  groupOf(track) {
    return this.quietGroups.get(track.track) ?? track.group;
  }

  groups() {
    return [...new Set(this.order.map((t) => this.groupOf(t)))];
  }

  /** @param {Track | Counter} one */
  passes(one) {
    return !this.filter || `${one.name} ${one.group}`.toLowerCase().includes(this.filter);
  }

  /** @param {string} group */
  shownOf(group) {
    return this.order.filter((t) => this.groupOf(t) === group && !this.hidden.has(t.track) && this.passes(t));
  }

  layout() {
    const {several, closed} = this;
    this.list = [];
    if (this.meta.stepColumns.step.length) this.list.push({kind: 'steps'});
    for (const group of this.groups()) {
      const tracks = this.shownOf(group);
      if (!tracks.length) continue;
      if (several) this.list.push({kind: 'group', text: group, tracks: tracks.length, open: !closed.has(group)});
      if (several && closed.has(group)) continue;
      for (const track of tracks) {
        const folded = this.folded.has(track.track),
          from = folded && track.marks < track.depths ? Math.max(track.outer_rows, track.marks) : this.outerShown.has(track.track) ? 0 : track.outer_rows,
          depths = folded ? 1 : track.depths - from;
        for (let d = 0; d < depths; d++) this.list.push({kind: 'lane', row: track.row + from + d, track, first: d === 0, depths});
      }
    }
    const counters = (this.meta.counters ?? []).filter((c) => !this.hidden.has(c.track) && this.passes(c));
    if (!counters.length) return;
    this.list.push({kind: 'group', text: 'counters', tracks: counters.length, open: !closed.has('counters')});
    if (closed.has('counters')) return;
    for (const counter of counters)
      for (let d = 0; d < COUNTER_LANES; d++) this.list.push({kind: 'counter', counter, first: d === 0, depths: COUNTER_LANES});
  }

  /**
   * @template Key
   * @param {Set<Key>} set
   * @param {Key} key
   */
  toggle(set, key) {
    if (!set.delete(key)) set.add(key);
    this.layout();
  }

  all() {
    return this.list;
  }

  count() {
    return this.list.length;
  }

  /**
   * @param {number} y
   * @returns {Lane | undefined}
   */
  at(y) {
    return this.list[Math.floor(y)];
  }

  /** @param {number} row */
  placeOfRow(row) {
    return this.list.findIndex((lane) => lane.kind === 'lane' && lane.row === row);
  }

  /** @param {number} track */
  placeOfCounter(track) {
    return this.list.findIndex((lane) => lane.kind === 'counter' && lane.counter.track === track);
  }

  /** @param {Track} track */
  isFolded(track) {
    return this.folded.has(track.track);
  }

  /** @param {Track} track */
  fold(track) {
    this.toggle(this.folded, track.track);
  }

  /** @param {Track} track */
  showsOuterRows(track) {
    return this.outerShown.has(track.track);
  }

  /**
   * Show or hide the frames around everything.
   * @param {Track} track
   */
  toggleOuterRows(track) {
    this.toggle(this.outerShown, track.track);
  }

  /** @param {string} group */
  close(group) {
    this.toggle(this.closed, group);
  }

  /** @param {number} key */
  hide(key) {
    this.hidden.add(key);
    this.layout();
  }

  showAll() {
    this.hidden.clear();
    this.filter = '';
    this.layout();
  }

  hiddenCount() {
    return this.hidden.size;
  }

  /** @param {string} text */
  setFilter(text) {
    this.filter = text.trim().toLowerCase();
    this.layout();
  }

  /**
   * Move a track one place up (-1) or down (1) among those of its group that are shown.
   * @param {Track} track
   * @param {1 | -1} by
   */
  move(track, by) {
    const peers = this.shownOf(this.groupOf(track)),
      other = peers[peers.indexOf(track) + by];
    if (!other) return;
    const [i, j] = [this.order.indexOf(track), this.order.indexOf(other)];
    this.order[i] = other;
    this.order[j] = track;
    this.layout();
  }

  /**
   * Make a row visible whatever hides it; true if that changed the layout.
   * @param {number} row
   */
  reveal(row) {
    const track = this.meta.tracks.find((t) => row >= t.row && row < t.row + t.depths);
    if (!track || this.placeOfRow(row) >= 0) return false;
    this.folded.delete(track.track);
    this.hidden.delete(track.track);
    this.closed.delete(this.groupOf(track));
    if (row < track.row + track.outer_rows) this.outerShown.add(track.track);
    if (!this.passes(track)) this.filter = '';
    this.layout();
    return true;
  }
}
