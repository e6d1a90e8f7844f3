import {expect, test} from 'vitest';

import {editorLines} from '../../src/editor/line_events.js';
import {barOf, heatOf} from '../../src/tabs/source.js';

const part = /** @type {any} */ ({
  columns: {line: [1, 2, 4], total_ns: [0, 2e6, 1e6], self_ns: [0, 2e6, 1e6], device_ns: [0, 0, 500], count: [NaN, 3, NaN]},
  select: [null, {line: ['cell:2']}, {line: ['cell:4']}],
});

test('lines of the editor are those that ran, behind the empty lines on top', () => {
  const lines = editorLines(part, 2, undefined, {});
  expect(lines.map(({line, host, device}) => [line, host, device])).toEqual([
    [4, 1, 0],
    [6, 0.5, 1],
  ]);
  expect(lines[0].label).toBe('2 ms, 100.0 % of the hottest line\nself 2 ms\nran 3 ×');
  expect(lines[1].label).toContain('device 500 ns\nsampled');
});

test('a line outside of the recorded steps has its bar, although nothing of it can be selected', () => {
  const outside = {...part, columns: {...part.columns, unrecorded_ns: [0, 2e6, 0]}, select: [null, null, {line: ['cell:4']}]},
    [first] = editorLines(outside, 0, undefined, {});
  expect([first.line, first.host]).toEqual([2, 1]);
  expect(first.label).toContain('2 ms of it outside of the recorded steps');
});

test('a line that calls no other has a mark where the run before ended, as long as all of the recording is shown', () => {
  const own = {...part, columns: {...part.columns, self_ns: [0, 2e6, 5e5]}},
    before = {steps: [5], lines: /** @type {any} */ ({'cell:2': [3e6, 4e6], 'cell:4': [1, 2]})},
    of = (state) => editorLines(own, 0, before, state);
  expect(of({line: ['cell:2']}).map((one) => one.before)).toEqual([0.75, undefined]);
  expect(of({})[0].label).toContain('self 2 ms: the run before 3 ms, now 4 ms a step');
  expect(of({})[1].label).toContain('the run before');
  expect(of({step: [3]}).map(({before: mark, label}) => [mark, label.includes('the run before')])).toEqual([
    [undefined, false],
    [undefined, false],
  ]);
});

test('a line that took nothing has no tint', () => {
  expect([heatOf(0, 5), heatOf(5, 0), heatOf(5, 5)]).toEqual([0, 0, 1]);
  expect(heatOf(0.05, 5)).toBeGreaterThan(0.05);
});

test('a trend is drawn in characters', () => {
  expect([0.01, 0.5, 1].map(barOf).join('')).toBe('▁▅█');
  expect(barOf(0).trim()).toBe('');
});
