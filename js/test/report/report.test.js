import {expect, test} from 'vitest';

import {createIndex, createMatching, parentsOf} from '../../src/report/columns.js';
import {sampleCurve} from '../../src/report/curves.js';

// outer 0–100 on row 0 with two slices inside on row 1; another track on row 2
const columns = () => ({
  ts: Float64Array.of(0, 10, 40, 60),
  dur: Uint32Array.of(100, 20, 30, 10),
  row: Uint8Array.of(0, 1, 1, 2),
  name: Uint8Array.of(0, 1, 2, 1),
  category: Int8Array.of(-1, 0, 0, 0),
  phase: Int8Array.of(0, 0, 1, -1),
  step: Int32Array.of(-1, 3, 4, 3),
  straddling: new Uint8Array(),
  shorter: new Uint8Array(),
  inner: new Uint8Array(),
  around: new Uint8Array(),
});
const given = {
  trackOfRow: [7, 7, 8],
  names: ['step', 'mm', 'conv'],
  meta: {tracks: [{track: 7, rank: 0}, {track: 8, rank: 1}], categories: ['operator'], phases: ['forward', 'backward']},
};

test('time inside a slice is that of the row below', () => {
  const made = columns(),
    index = createIndex(made, given.trackOfRow);
  expect([...made.inside]).toEqual([50, 0, 0, 0]);
  expect(index.stretch(1, 15, 45)).toEqual([1, 3]);
  expect(index.stretch(1, 31, 39)).toEqual([2, 2]);
  expect(index.covered(1, 20, 50)).toBe(20);
  expect([...parentsOf(made, {trackOfRow: given.trackOfRow, index})]).toEqual([-1, 0, 0, -1]);
});

test('a selection leaves slices by names, codes, tracks and ranks', () => {
  const matching = createMatching(columns(), given),
    of = (state, without = []) => matching(state, without) && [...matching(state, without)];
  expect(of({})).toBeNull();
  expect(of({name: ['mm']})).toEqual([0, 1, 0, 1]);
  expect(of({name: ['mm'], step: [3], track: [7]})).toEqual([0, 1, 0, 0]);
  expect(of({name: ['mm'], rank: [1]}, ['name'])).toEqual([0, 0, 0, 1]);
  expect(of({phase: ['backward']})).toEqual([0, 0, 1, 0]);
  expect(of({category: ['no such']})).toEqual([0, 0, 0, 0]);
});

test('a curve with more changes than pixels keeps extremes and last of each pixel', () => {
  const ts = Float64Array.from({length: 100}, (_, i) => i),
    values = ts.map((t) => (t === 37 ? 500 : t % 5)),
    [x, y] = sampleCurve(ts, values, 0, 100, 5);
  expect(x).toHaveLength(16);
  expect(Math.max(...y)).toBe(500);
  expect(y[y.length - 1]).toBe(values[99]);
  expect(sampleCurve(ts, values, 10, 20, 50)[0]).toEqual(Float64Array.of(10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20));
  expect(sampleCurve(ts, values, -20, -10, 50)[0]).toHaveLength(0);
});
