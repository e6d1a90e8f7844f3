import {expect, test} from 'vitest';

import {badgeTexts} from '../../src/editor/badges.js';

const cell = {id: 'one', number: 7, wall_ns: 2.34e9, kept_bytes: 5 * 2 ** 30, source: 'a = 1', name: 'In[7] a = 1', stale: ''};

test('a badge has the time, and memory that is worth it', () => {
  expect(badgeTexts(cell, 'a = 1', true)).toEqual({
    text: '2.34 s · +5 GiB',
    stale: '',
    title: 'In[7] took 2.34 s.\nThe process holds 5 GiB more since.\nClick to select it in the view.',
  });
  expect(badgeTexts({...cell, kept_bytes: 2 ** 20}, 'a = 1', false).text).toBe('2.34 s');
});

test('a result is stale by an edit here, or by a cell above', () => {
  expect(badgeTexts(cell, 'a = 2', true).stale).toBe('edited since it ran');
  expect(badgeTexts({...cell, stale: 'b changed in In[9]'}, 'a = 1', true).title).toContain('Its result is stale: b changed in In[9].');
});
