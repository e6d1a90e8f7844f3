import {expect, test} from 'vitest';

import {troubleText} from '../../src/page/mount.js';

test('a file that is slow does not speak of a kernel', () => {
  for (const state of /** @type {const} */ (['waiting', 'lost'])) expect(troubleText(state, {})).toBe('Still working: what you see is from before.');
  expect(troubleText(null, {})).toBe('');
});

test('a live view says what its kernel does', () => {
  const whenLost = () => () => {};
  expect(troubleText('waiting', {whenLost})).toContain('kernel is busy');
  expect(troubleText('gone', {whenLost})).toContain('Run this cell again');
  expect(troubleText('gone', {whenLost, alone: true})).toContain('The views go on');
});
