import {expect, test} from 'vitest';

import {leftText, phaseShares, progressText, stateText, stepsText, timeText} from '../../src/live/texts.js';

const state = {
  seconds: 12.4,
  steps: 40,
  rate: 30.1,
  of: 400,
  step: 40,
  line: 5,
  left: 12,
  state: 'recording',
  reason: '',
  recorded: 37,
  last: [33000, 34000, 35000],
  median: 34000,
  window: null,
  lines: [],
  phases: {backward: 0.3, data: 0.1, other: 0.6},
  until: null,
};

test('how far it has come', () => {
  expect(progressText(state)).toBe('step 40 of 400 · 30.1 steps/s · about 12 s left');
  expect(progressText({...state, of: null, left: null, steps: 140})).toBe('step 140 · 30.1 steps/s');
  const third = {...state, of: 80, step: 29, steps: 189, left: 1.4};
  expect(progressText(third)).toBe('step 29 of 80 of the loop in line 5, 189 in all · 30.1 steps/s · about 1 s left of this loop');
  expect(progressText({...third, line: -1})).toMatch(/^step 29 of 80 of this loop, 189 in all/);
  expect(progressText({...state, steps: 0})).toBe('no step has ended yet · 12 s');
});

test('what the recording does', () => {
  expect(stateText(state)).toBe('Recording');
  expect(stateText({...state, state: 'before', window: [3, 14]})).toBe('Recording begins with step 3');
  expect(stateText({...state, state: 'after', window: [3, 14]})).toBe('The asked steps are recorded; the cell goes on');
  expect(stateText({...state, state: 'after', reason: 'asked'})).toBe('Recording stopped; the cell goes on');
  expect(stateText({...state, state: 'after', reason: 'known'})).toContain('The median is known');
  expect(stateText({...state, state: 'after', reason: 'size'})).toContain('its size limit');
});

test('how long steps take, and how well that is known', () => {
  expect(stepsText(state)).toBe('37 recorded · median of the last 3: 34 ms');
  expect(stepsText({...state, until: [0.02, 0.0345]})).toContain('known to ±3.5 %, ±2 % asked');
  expect(stepsText({...state, until: [0.02, null]})).toContain('not known yet, ±2 % asked');
  expect(stepsText({...state, median: null})).toBe('');
});

test('times and phases', () => {
  expect([timeText(3), timeText(1234), timeText(2_500_000)]).toEqual(['3 µs', '1.23 ms', '2.5 s']);
  expect([leftText(0.4), leftText(90), leftText(600)]).toEqual(['under 1 s left', 'about 90 s left', 'about 10 min left']);
  expect(phaseShares(state).map(({name}) => name)).toEqual(['data', 'other', 'backward']);
});
