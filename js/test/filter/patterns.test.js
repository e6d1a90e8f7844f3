import {expect, test} from 'vitest';

import {Pattern} from '../../src/filter/patterns.js';

test.each([
  ['conv', 'aten::CONV2d', true],
  ['^aten::(add|mm)$', 'aten::mm', true],
  ['^aten::(add|mm)$', 'aten::mm_', false],
  ['a{2,3}b', 'xaab', true],
  ['[^a-z_]', 'abc_', false],
  ['\\bmm\\b', 'aten::mm', true],
  ['x$', 'x\ny', true],
  ['(?P<n>a)b', 'ab', true],
])('%s in %s: %s', (source, text, found) => expect(new Pattern(source).test(text)).toBe(found));

test.each(['(', 'a)', '[a', '*a', 'a**', '(?=a)', '\\1', 'a{2000}', '[z-a]', '\\'])('%s is refused', (source) => {
  expect(() => new Pattern(source)).toThrow();
});

test.each(['(a+)+$', '(a|a)*b', '(a|aa)+$', '(.*a){20}', '(?:a?){40}a{40}', '(([a-z])+.)+[A-Z]([a-z])+$'])(
  '%s takes time in proportion to the text',
  (source) => {
    const pattern = new Pattern(source);
    for (let k = 0; k < 100; k++) pattern.test(`${'a'.repeat(41)}!`);
  },
  10_000,
);
