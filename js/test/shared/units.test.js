import {describe, expect, test} from 'vitest';

import {byteTicks, formatBytes, formatClock, formatInstant, formatNumbers, formatQuantity, formatRange, formatShare, formatTime, formatTimeCell} from '../../src/shared/units.js';

describe('units', () => {
  test.each([
    [0, '0 ns'],
    [7, '7 ns'],
    [1234, '1.23 µs'],
    [999_999, '1 ms'],
    [-45_600_000, '−45.6 ms'],
    [125e9, '2 min 5 s'],
    [3599.6e9, '1 h'],
    [36_300e9, '10 h 5 min'],
    [NaN, '–'],
  ])('a duration of %d ns is %s', (ns, text) => expect(formatTime(ns)).toBe(text));

  test('in a column all digits are kept', () => expect([95e6, 0].map(formatTimeCell)).toEqual(['95.0 ms', '0 ns']));

  test('the axis writes as many digits as the distance between ticks deserves', () => {
    expect(formatInstant(1_250_000, 50_000, 2e6)).toBe('1.25 ms');
    expect(formatInstant(3e6, 1e6, 5e6)).toBe('3 ms');
    expect(formatInstant(-1500, 100)).toBe('−1.5 µs');
  });

  test('minutes and hours are a clock', () => {
    expect(formatClock(600e9, 600e9)).toBe('10:00 min');
    expect(formatClock(5400e9, 60e9)).toBe('1:30 h');
    expect(formatClock(61.5e9, 1e8)).toBe('1:01.5 min');
  });

  test('bytes, shares and counters', () => {
    expect([0, 1023, 1024, 1023.6, 3 * 2 ** 20].map((n) => formatBytes(n))).toEqual(['0 B', '1023 B', '1 KiB', '1 KiB', '3 MiB']);
    expect(byteTicks([0, 2 ** 30, 3 * 2 ** 30, 2 ** 29])).toEqual(['0', '1 GiB', '3 GiB', '0.5 GiB']); // one unit an axis
    expect([0, 1e-6, 1].map(formatShare)).toEqual(['0.0 %', '<0.1 %', '100.0 %']);
    expect(formatQuantity(70, 'W')).toBe('70 W');
    expect(formatQuantity(0.5, '1')).toBe('50.0 %');
    expect(formatQuantity(2048, 'bytes')).toBe('2 KiB');
  });

  test('numbers that follow one another are a range', () => {
    expect(formatNumbers([8, 3, 4, 5])).toBe('3–5, 8');
    expect(formatNumbers([1, 3, 5, 7, 9])).toBe('1, 3, 5, 7 …');
  });
});

test('a range of a counter has one unit', () => {
  expect(formatRange(0, 2 ** 31, 'bytes')).toBe('0 – 2 GiB');
  expect(formatRange(2 ** 29, 2 ** 30, 'bytes')).toBe('0.5 – 1 GiB');
  expect(formatRange(70.456, 300, 'W')).toBe('70.5 – 300 W');
  expect(formatRange(0, 0.5, '1')).toBe('0.0 – 50.0 %');
  expect(formatRange(0, 76, '')).toBe('0 – 76');
  expect(formatRange(0, 9119334400, '')).toBe('0 – 9,119,334,400');
});
