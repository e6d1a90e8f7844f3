import {expect, test} from 'vitest';

import {isDark} from '../../src/page/darkness.js';

const clear = {rgb: 0, alpha: 0},
  white = {rgb: 0xffffff, alpha: 1},
  black = {rgb: 0x111111, alpha: 1},
  grey = {rgb: 0xcccccc, alpha: 1};

test('the innermost ground that is not see-through tells whether a page is dark', () => {
  expect(isDark([clear, black, white], black)).toBe(true);
  expect(isDark([clear, white, black], white)).toBe(false);
  expect(isDark([{rgb: 0xffffff, alpha: 0.1}, black], white)).toBe(true);
});

test('where all grounds are see-through, as in a frame of VS Code, the text tells', () => {
  expect(isDark([clear, clear], grey)).toBe(true);
  expect(isDark([clear], black)).toBe(false);
  expect(isDark([], black)).toBe(false);
});
