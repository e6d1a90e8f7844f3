// Which rows of the store stand where: steps on top, devices, threads, counters at the end. Tracks fold to one row, hide,
// move within their group, and can be filtered by name. Pinned ones stand above everything and stay there while others scroll. Frames around everything are hidden; quiet threads begin folded, and
// many of them under a heading of their own.

import {recall} from '../page/remembered.js';
import {hiddenFrames} from './all_frames.js';

/** Lanes of a counter. */
export const COUNTER_LANES = 2;
export const FEWEST_LANES = 3;
const LANES_SHOWN = 13; // with the headline, the memory curve and ten rows of the table on a screen
const FEWEST_SHOWN = 9;
const TALL = 946; // pixels of a window in which JupyterLab has room for all that
const HALF = 0.5; // of the rest: the timeline gets one half, the table the other
const PIXELS_A_LANE = 18;
const MOST_QUIET = 2; // quiet threads of a process that need no heading of their own

/**
 * @typedef {{kind: 'steps', first?: undefined, depths?: undefined}} StepsLane
 * @typedef {{kind: 'group', text: string, tracks: number, open: boolean, first?: undefined, depths?: undefined}} GroupLane
 * @typedef {{kind: 'lane', row: number, track: Track, first: boolean, depths: number}} TrackLane
 * @typedef {{kind: 'counter', counter: Counter, first: boolean, depths: number}} CounterLane
 * @typedef {StepsLane | GroupLane | TrackLane | CounterLane} Lane
 *
 * @typedef {'group' | 'track' | 'hidden'} Hiding why a row has no lane: its group or its track is folded, or its track is hidden
 */

/**
 * What tells whether a picture is of these lanes.
 * @param {{rows: number[], places: number[]}} lanes
 */
export const laneKeyOf = ({rows, places}) => `${rows.join()} at ${places.join()}`;

/**
 * How many lanes are shown until the edge is dragged: fewer in low windows, more in high ones by half of their extra height.
 * @param {number} height of the window
 */
export const lanesFor = (height) =>
  Math.max(FEWEST_SHOWN, LANES_SHOWN - Math.ceil(((TALL - height) / PIXELS_A_LANE) * (height < TALL ? 1 : HALF)));

/**
 * The track of every row.
 * @param {Track[]} tracks
 * @returns {Map<number, Track>}
 */
const tracksOfRows = (tracks) => new Map(tracks.flatMap((t) => Array.from({length: t.depths}, (_, d) => [t.row + d, t])));

/** The lanes of a timeline, from top to bottom. */
export class Lanes {
  /** @type {Set<number>} */ folded = new Set();
  /** @type {Set<number>} */ hidden = new Set();
  /** @type {Set<string>} */ closed = new Set();
  /** Whether frames of libraries and around everything are shown. */ allFrames = false;
  /** @type {Map<number, string>} */ quietGroups = new Map();
  filter = '';
  /**
   * Tracks and counters above everything, in this order.
   * @type {number[]}
   */
  pinned = [];
  pinnedLanes = 0;
  lanesShown = lanesFor(globalThis.innerHeight ?? TALL);
  /** @type {Lane[]} */ list = [];

  /** @param {Pick<Meta, 'tracks' | 'unfolded' | 'hidden' | 'counters' | 'stepColumns'>} meta */
  constructor(meta) {
    this.meta = meta;
    this.order = [...meta.tracks];
    this.tracks = tracksOfRows(this.order);
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
    const {meta} = this,
      quiet = this.order.filter((t) => t.quiet);
    for (const t of quiet) {
      if (t.depths - hiddenFrames(meta, t) > 1) this.folded.add(t.track);
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
    return this.order.filter((t) => this.groupOf(t) === group && this.isShown(t));
  }

  /**
   * Whether a track stands in its group.
   * @param {Track} track
   */
  isShown(track) {
    return !this.hidden.has(track.track) && !this.isPinned(track) && this.passes(track);
  }

  layout() {
    const {several, closed} = this;
    this.list = [];
    this.layoutPinned();
    if (this.meta.stepColumns.step.length) this.list.push({kind: 'steps'});
    /** @type {Map<string, Track[]>} */
    const groups = new Map(this.groups().map((group) => [group, []]));
    for (const track of this.order) if (this.isShown(track)) groups.get(this.groupOf(track))?.push(track);
    for (const [group, tracks] of groups) {
      if (!tracks.length) continue;
      if (several) this.list.push({kind: 'group', text: group, tracks: tracks.length, open: !closed.has(group)});
      if (!several || !closed.has(group)) for (const track of tracks) this.addTrack(track);
    }
    const counters = (this.meta.counters ?? []).filter((c) => !this.hidden.has(c.track) && !this.isPinned(c) && this.passes(c));
    if (!counters.length) return;
    this.list.push({kind: 'group', text: 'counters', tracks: counters.length, open: !closed.has('counters')});
    if (!closed.has('counters')) for (const counter of counters) this.addCounter(counter);
  }

  layoutPinned() {
    const {pinned} = this;
    if (pinned.length) {
      const tracks = new Map(this.order.map((t) => [t.track, t])),
        counters = new Map((this.meta.counters ?? []).map((c) => [c.track, c]));
      for (const key of pinned) {
        const track = tracks.get(key),
          counter = counters.get(key);
        if (track) this.addTrack(track);
        else if (counter) this.addCounter(counter);
      }
    }
    this.pinnedLanes = this.list.length;
  }

  /** @param {Track} track */
  addTrack(track) {
    const folded = this.folded.has(track.track),
      from = folded && track.marks < track.depths ? Math.max(track.outer_rows, track.marks) : this.allFrames ? 0 : track.outer_rows,
      depths = folded ? 1 : track.depths - from - track.folded;
    for (let d = 0; d < depths; d++) this.list.push({kind: 'lane', row: track.row + from + d, track, first: d === 0, depths});
  }

  /** @param {Counter} counter */
  addCounter(counter) {
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

  /** How many lanes have room. */
  room() {
    return Math.max(FEWEST_LANES, Math.min(this.count(), Number(recall('lanes')) || this.lanesShown));
  }

  /** How many lanes of pinned tracks stay in sight; others have room beside them, and further ones scroll. */
  stuck() {
    return Math.min(this.pinnedLanes, Math.max(1, this.room() - FEWEST_LANES));
  }

  /**
   * Where a lane stands when the timeline has been scrolled by so many lanes.
   * @param {number} place
   * @param {number} scrolled
   */
  yOf(place, scrolled) {
    return place < this.stuck() ? place + scrolled : place;
  }

  /**
   * Places of the lanes in sight, and of some beside them.
   * @param {number} top lanes that have been scrolled away
   * @param {number} bottom
   * @param {number} more lanes on each side
   */
  placesInSight(top, bottom, more = 0) {
    const stuck = this.stuck(),
      first = Math.max(stuck, Math.floor(top + stuck) - more),
      last = Math.min(this.count(), Math.ceil(bottom) + more);
    return [...Array(stuck).keys(), ...Array.from({length: Math.max(0, last - first)}, (_, k) => first + k)];
  }

  /**
   * @param {number} y as `yOf` gives it
   * @param {number} scrolled
   * @returns {Lane | undefined}
   */
  at(y, scrolled) {
    const place = y - scrolled < this.stuck() ? y - scrolled : y;
    return this.list[Math.floor(place)];
  }

  placeOfSteps() {
    return this.list.findIndex((lane) => lane.kind === 'steps');
  }

  /** Places by row, of the rows that have a lane. */
  placesOfRows() {
    /** @type {Map<number, number>} */
    const places = new Map();
    this.list.forEach((lane, place) => {
      if (lane.kind === 'lane') places.set(lane.row, place);
    });
    return places;
  }

  /**
   * The track of a row.
   * @param {number} row
   */
  trackOf(row) {
    return this.tracks.get(row);
  }

  /**
   * Why a row of a track that has no lane has none.
   * @param {Track} track
   * @returns {Hiding}
   */
  hidingOf(track) {
    if (this.isPinned(track)) return 'track';
    if (!this.isShown(track)) return 'hidden';
    return this.several && this.closed.has(this.groupOf(track)) ? 'group' : 'track';
  }

  /** @param {number} row */
  placeOfRow(row) {
    return this.list.findIndex((lane) => lane.kind === 'lane' && lane.row === row);
  }

  /** The first place of each track that has lanes. */
  placesOfTracks() {
    /** @type {Map<number, number>} */
    const places = new Map();
    this.list.forEach((lane, place) => {
      if (lane.kind === 'lane' && lane.first) places.set(lane.track.track, place);
    });
    return places;
  }

  /**
   * Where the lanes of a track or a counter begin; -1 where it has none.
   * @param {number} key
   */
  placeOfKey(key) {
    return this.list.findIndex((lane) => lane.first && (lane.kind === 'lane' ? lane.track : lane.counter).track === key);
  }

  /** @param {number} track */
  placeOfCounter(track) {
    return this.list.findIndex((lane) => lane.kind === 'counter' && lane.counter.track === track);
  }

  /** @param {{track: number}} one */
  isPinned(one) {
    return this.pinned.includes(one.track);
  }

  /** @param {readonly number[]} keys */
  pin(keys) {
    this.pinned = [...keys];
    this.layout();
  }

  /**
   * The pinned tracks with one more, or without it.
   * @param {number} key
   */
  pinnedWith(key) {
    return this.pinned.includes(key) ? this.pinned.filter((other) => other !== key) : [...this.pinned, key];
  }

  /**
   * The pinned tracks with one of them one place up (-1) or down (1).
   * @param {number} key
   * @param {1 | -1} by
   */
  pinnedMoved(key, by) {
    const keys = this.pinned.filter((other) => other !== key),
      at = this.pinned.indexOf(key) + by;
    return at < 0 || at > keys.length ? this.pinned : [...keys.slice(0, at), key, ...keys.slice(at)];
  }

  /** @param {Track} track */
  isFolded(track) {
    return this.folded.has(track.track);
  }

  /** @param {Track} track */
  fold(track) {
    this.toggle(this.folded, track.track);
  }

  /**
   * Show all frames, or hide those of libraries and around everything.
   * @param {boolean} all
   */
  showAllFrames(all) {
    const {meta} = this,
      tracks = new Map((all && meta.unfolded.length ? meta.unfolded : meta.tracks).map((t) => [t.track, t]));
    this.allFrames = all;
    this.order = this.order.map((t) => tracks.get(t.track) ?? t);
    this.tracks = tracksOfRows(this.order);
    this.layout();
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
    const track = this.trackOf(row);
    if (!track || this.placeOfRow(row) >= 0) return false;
    this.folded.delete(track.track);
    this.hidden.delete(track.track);
    this.closed.delete(this.groupOf(track));
    if (!this.passes(track)) this.filter = '';
    this.layout();
    return true;
  }
}
