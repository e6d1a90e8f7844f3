import {describe, expect, test} from 'vitest';

import {correspondingFacts} from '../../src/compare/detail.js';
import {runText} from '../../src/compare/skeleton.js';
import {deltaText} from '../../src/compare/totals.js';

const NAMES = ['before', 'after'];
const calls = (/** @type {object} */ some) => ({count: 1, total_ns: 5000, self_ns: 4000, slices: 1, place: null, slice: null, ...some});
const slice = (/** @type {number} */ dur) => ({id: 7, ts: 100, dur, row: 2});
const texts = (/** @type {any} */ found) => correspondingFacts(found, NAMES).map(({label, text}) => `${label} ${text}`);

describe('what a slice corresponds to', () => {
  test('as many on both sides are matched by their order; the difference is always b less a', () => {
    const a = calls({count: 12, total_ns: 60_000, slices: 12, place: 2, slice: slice(5000)}),
      b = calls({count: 12, total_ns: 48_000, slices: 12, place: 2, slice: slice(4000)});
    expect(texts({side: 0, dur: 5000, steps: [4, 3], calls: [a, b]})).toEqual([
      'corresponds to number 3 of 12 in after, step 3: 4 µs (Δ −1 µs)',
      'before, step 4: 12 × in 60 µs',
      'after, step 3: 12 × in 48 µs',
      'Δ −12 µs',
    ]);
    expect(texts({side: 1, dur: 4000, steps: [4, 3], calls: [a, b]})[0]).toBe('corresponds to number 3 of 12 in before, step 4: 5 µs (Δ −1 µs)');
  });

  test('which of another number it was is not guessed', () => {
    const found = {side: 0, dur: 5000, steps: [4, 3], calls: [calls({place: 0, slice: slice(5000)}), calls({count: 2, slices: 2, place: 0, slice: slice(9)})]},
      [first] = correspondingFacts(/** @type {any} */ (found), /** @type {[string, string]} */ (NAMES));
    expect(`${first.label} ${first.text}`).toBe('corresponds to one of 2 in after, step 3');
    expect(first.title).toBe('1 of this name in step 4 of before, 2 in step 3 of after: which is which is not known');
  });

  test('nothing, and no steps', () => {
    const none = calls({count: 0, total_ns: 0, self_ns: 0, slices: 0}),
      found = {side: 1, dur: 5000, steps: [null, null], calls: [none, calls({place: 0, slice: slice(5000)})]};
    expect(texts(found)).toEqual([
      'nothing of this name in before, the whole recording',
      'before, the whole recording: none',
      'after, the whole recording: 1 × in 5 µs',
      'Δ +5 µs',
    ]);
    const same = {side: 0, dur: 5000, steps: [1, 1], calls: [calls({slice: slice(5000)}), calls({slice: slice(5000)})]};
    expect(texts(same)[0]).toBe('corresponds to the only one in after, step 1: 5 µs (Δ ±0)');
    expect(texts(same)[3]).toBe('Δ ±0');
  });
});

test('the difference of a mean step is pale where one of its parts may be noise', () => {
  expect(deltaText([3000, -1000], [true, true], 'Δ a step')).toBe('Δ +2.00 µs a step');
  expect(deltaText([3000, -1000], [true, false], 'Δ a step')).toBe('Δ ≈ +2.00 µs a step');
  expect(deltaText([3000], [true], 'Δ')).toBe('Δ +3.00 µs');
  expect(deltaText([], [], 'Δ')).toBe('');
});

test('of several recordings the page says which it shows', () => {
  expect(runText(1, 4)).toBe('run 1 (of 4, counted from 0)');
  expect(runText(0, 1)).toBe('');
});
