import {expect, test} from 'vitest';

import {reply, unpack} from '../../src/shared/packing.js';
import {lowerBound} from '../../src/shared/search.js';

test('columns come back as they were packed', () => {
  const columns = {x: Float64Array.of(1.5, NaN), n: Uint32Array.of(4_000_000_000), code: Uint8Array.of(255, 0), step: Int32Array.of(-1)};
  const answer = reply({mode: 'all'}, columns);
  expect(answer.content).toEqual({mode: 'all', columns: [['x', 'f8'], ['n', 'u4'], ['code', 'u1'], ['step', 'i4']]});
  expect(unpack(answer)).toEqual(columns);
});

test('a buffer that is not aligned is copied', () => {
  const bytes = new Uint8Array(20);
  bytes.set(new Uint8Array(Float64Array.of(2, 3).buffer), 3);
  const {x} = unpack({content: {columns: [['x', 'f8']]}, buffers: [bytes.subarray(3, 19)]});
  expect([...x]).toEqual([2, 3]);
});

test('the first place that is not below', () => {
  const values = [1, 3, 3, 7];
  expect([0, 1, 2, 3, 8].map((x) => lowerBound(values, 0, 4, x))).toEqual([0, 0, 1, 1, 4]);
  expect(lowerBound(values, 2, 2, 0)).toBe(2);
});
