import {expect, test} from 'vitest';

import {Lanes, lanesFor} from '../../src/timeline/lanes.js';
import {LANES_BESIDE, MOST_LANES_WITH_NAMES, placesWithNames} from '../../src/timeline/rows_in_sight.js';

const track = (number, more = {}) => ({track: number, name: `worker ${number}`, group: 'host', kind: 'thread', row: 3 * number, depths: 1, outer_rows: 0, folded: 0, quiet: false, rank: 0, busy: 0, ...more});
const lanesOf = (count, more) => new Lanes({tracks: Array.from({length: count}, (_, k) => track(k, more)), counters: [], stepColumns: {step: [], ts: [], dur: []}});

test('few lanes all have their names, at the first lane of each track', () => {
  const lanes = lanesOf(3, {depths: 2});
  expect(placesWithNames(lanes.all(), 0, 0, 2)).toEqual([0, 2, 4]);
  lanes.pin([2]);
  expect(placesWithNames(lanes.all(), lanes.stuck(), 0, 2)).toEqual([2, 4]);
  expect(placesWithNames([], 0, 0, 3)).toEqual([]);
  expect(lanesOf(MOST_LANES_WITH_NAMES).all().length).toBe(placesWithNames(lanesOf(MOST_LANES_WITH_NAMES).all(), 0, 0, 9).length);
});

test('of ten thousand tracks those in sight have names, and as many on both sides as keys need', () => {
  const all = lanesOf(10_000).all();
  expect(placesWithNames(all, 0, 0, 13)).toEqual(Array.from({length: 13 + LANES_BESIDE}, (_, k) => k));
  const middle = placesWithNames(all, 0, 5000.5, 13);
  expect([middle[0], middle.at(-1)]).toEqual([5000 - LANES_BESIDE, 5013 + LANES_BESIDE]);
  expect(placesWithNames(all, 0, 9987, 13).at(-1)).toBe(9999);
  expect(placesWithNames(all, 0, 20_000, 13)).toEqual([]);
});

test('a track whose first lane is far above, but which reaches into sight, has its name', () => {
  const lanes = lanesOf(20, {depths: 400}),
    places = placesWithNames(lanes.all(), 0, 1000, 13);
  expect(places).toEqual([800]);
  expect(lanes.placeOfKey(2)).toBe(800);
  expect(lanes.placeOfKey(77)).toBe(-1);
});

test('low windows begin with fewer lanes', () => {
  expect([1450, 964, 946, 940, 900, 300].map(lanesFor)).toEqual([27, 13, 13, 12, 10, 9]);
});
