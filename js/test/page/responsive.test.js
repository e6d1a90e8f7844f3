import {expect, test} from 'vitest';

import {ticksFor} from '../../src/page/responsive.js';

test('ticks thin out with the width, and never exceed what the figure was made with', () => {
  expect([150, 340, 600, 2000].map((width) => ticksFor(width, 6))).toEqual([2, 4, 6, 6]);
});
