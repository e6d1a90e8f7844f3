import {expect, test} from 'vitest';

import {pictureOf} from '../../src/timeline/path.js';

const segments = (...rows) => ({track: rows.map(([track]) => track), start: rows.map(([, start]) => start), end: rows.map(([, , end]) => end)});
const x = (t) => t; // a pixel a nanosecond
const WHOLE = {start: 0, end: 100};

test('bars where the path stays, arrows where it goes on elsewhere', () => {
  const {bars, arrows} = pictureOf(segments([1, 0, 40], [7, 40, 90], [1, 90, 100]), WHOLE, x);
  expect(bars).toEqual([
    {track: 1, from: 0, to: 40},
    {track: 7, from: 40, to: 90},
    {track: 1, from: 90, to: 100},
  ]);
  expect(arrows).toEqual([
    {x: 40, from: 1, to: 7},
    {x: 90, from: 7, to: 1},
  ]);
});

test('what is out of the time in view is not drawn, and what leaves it ends there', () => {
  const {bars, arrows} = pictureOf(segments([1, 0, 40], [7, 40, 90], [1, 90, 100]), {start: 50, end: 80}, x);
  expect(bars).toEqual([{track: 7, from: 50, to: 80}]);
  expect(arrows).toEqual([]);
});

test('bars of a track never overlap: what is paled by even and odd stays so', () => {
  const rows = Array.from({length: 500}, (_, k) => [k % 3, k / 5, (k + 1) / 5]),
    {bars} = pictureOf(segments(...rows), WHOLE, x);
  for (const track of [0, 1, 2]) {
    const own = bars.filter((bar) => bar.track === track);
    for (let k = 1; k < own.length; k++) expect(own[k].from).toBeGreaterThan(own[k - 1].to);
  }
  expect(bars.length).toBeLessThan(10);
});

test('arrows that would be a hatching are left out, and none joins segments between which one is missing', () => {
  const rows = Array.from({length: 50}, (_, k) => [k % 2, 2 * k, 2 * k + 2]);
  expect(pictureOf(segments(...rows), WHOLE, x).arrows).toEqual([]);
  expect(pictureOf(segments([1, 0, 40], [7, 60, 100]), WHOLE, x).arrows).toEqual([]);
});

test('nothing is drawn of a path that ends before the view', () => {
  expect(pictureOf(segments([1, 0, 40]), {start: 50, end: 80}, x).bars).toEqual([]);
});
