// Which lanes have their names in the page: of very many only those in sight, and some on both sides of them.

import {activeElement} from '../shared/elements.js';

export const MOST_LANES_WITH_NAMES = 300; // up to here all are there, for the page's own search and for readers
export const LANES_BESIDE = 60; // rows that keys can go on to

/**
 * Places of the lanes whose names are rows of the page, ascending: where a track, a counter or a group begins.
 * @param {readonly import('./lanes.js').Lane[]} all
 * @param {number} stuck lanes of pinned tracks, which do not scroll and are left out
 * @param {number} top lanes that have been scrolled away
 * @param {number} shown lanes in sight, without the pinned ones
 * @returns {number[]}
 */
export function placesWithNames(all, stuck, top, shown) {
  const begins = (/** @type {number} */ place) => all[place].first !== false,
    few = all.length - stuck <= MOST_LANES_WITH_NAMES;
  let first = few ? stuck : Math.min(all.length, Math.max(stuck, stuck + Math.floor(top) - LANES_BESIDE));
  const last = few ? all.length : Math.min(all.length, stuck + Math.ceil(top + shown) + LANES_BESIDE);
  while (first > stuck && first < all.length && !begins(first)) first--; // a track that reaches into sight
  const places = [];
  for (let place = first; place < last; place++) if (begins(place)) places.push(place);
  return places;
}

/** The names that scroll: those in sight have rows of the page, and so have those around the one with the focus. */
export class RowsInSight {
  inner = document.createElement('div');
  /** @type {Map<number, HTMLElement>} by the place of their lane */
  rows = new Map();
  /** Lanes that were scrolled away when the rows were made. */
  filledAt = 0;

  /**
   * @param {HTMLElement} box that scrolls
   * @param {import('./lanes.js').Lanes} lanes
   * @param {number} lane height, px
   * @param {(lane: import('./lanes.js').Lane, y: number) => HTMLElement} make
   */
  constructor(box, lanes, lane, make) {
    this.box = box;
    this.lanes = lanes;
    this.lane = lane;
    this.make = make;
  }

  /** Make all rows anew. */
  renew() {
    const {box, lanes} = this,
      inner = (this.inner = document.createElement('div'));
    inner.className = 'nbp-gutter-inner';
    inner.setAttribute('role', 'tree');
    inner.setAttribute('aria-label', 'tracks');
    inner.setAttribute('aria-multiselectable', 'true');
    inner.style.height = `${(lanes.count() - lanes.stuck()) * this.lane}px`;
    box.replaceChildren(inner);
    this.rows.clear();
    this.fill();
  }

  /** The box has been scrolled; gives whether there are other rows now. */
  scrolled() {
    const near = Math.abs(this.box.scrollTop / this.lane - this.filledAt) < LANES_BESIDE / 2;
    if (!near) this.fill();
    return !near;
  }

  /**
   * Make the rows in sight that are not there yet, and take those far away out. Where the focus is, rows stay: keys go on.
   * @param {string | null} key of a track that has to have a row wherever it is
   */
  fill(key = null) {
    const {lanes, rows} = this,
      all = lanes.all(),
      stuck = lanes.stuck(),
      focused = activeElement();
    this.filledAt = this.box.scrollTop / this.lane;
    const places = new Set(placesWithNames(all, stuck, this.filledAt, lanes.room() - stuck)),
      held = [...rows].flatMap(([place, row]) => (row.contains(focused) ? [place] : [])),
      named = key === null ? -1 : lanes.placeOfKey(Number(key));
    for (const place of [...held, named])
      if (place >= stuck) for (const near of placesWithNames(all, stuck, place - stuck, 1)) places.add(near);
    for (const [place, row] of rows) {
      if (places.has(place)) continue;
      row.remove();
      rows.delete(place);
    }
    /** @type {HTMLElement | null} */
    let below = null;
    for (const place of [...places].sort((p, q) => q - p)) {
      const row = rows.get(place) ?? this.make(all[place], place - stuck);
      if (!rows.has(place)) this.inner.insertBefore(row, below);
      rows.set(place, row);
      below = row;
    }
  }
}
