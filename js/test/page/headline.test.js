import {expect, test} from 'vitest';

import {becauseIn} from '../../src/page/headline.js';

test('what the headline tells of a line goes below it', () => {
  const of = {name: ['cell:8  f.result()']},
    first = [['Line 8 takes ', null], ['97.8 %', of], [': `f.result()`; it waits, while ', null], ['line 4', {name: ['cell:4  g()']}], ['.', null]];
  expect(becauseIn([first])).toEqual({line: 'cell:8', pieces: [['it waits, while ', null], ...first.slice(3)]});
  for (const none of [undefined, [], [[['Sync-bound: `x`; y', null]]], [[['Line 8 takes ', null], ['97.8 %', of], [': `f.result()`.', null]]]])
    expect(becauseIn(none)).toBeNull();
});
