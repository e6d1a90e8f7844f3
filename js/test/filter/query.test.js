import {expect, test} from 'vitest';

import {closest, parseQuery} from '../../src/filter/query.js';
import {holds, passing} from '../../src/filter/rows.js';

const plain = (text) => {
  const {words, patterns, conditions} = parseQuery(text);
  return {words, patterns: patterns.map((p) => p.source), conditions};
};

test.each([
  ['conv mm', {words: ['conv', 'mm'], patterns: [], conditions: []}],
  ['/mm|conv/ self>1ms', {words: [], patterns: ['mm|conv'], conditions: [['self', '>', 1e6]]}],
  ['self > 1 ms', {words: [], patterns: [], conditions: [['self', '>', 1e6]]}],
  ['step=3:7,9', {words: [], patterns: [], conditions: [['step', '=', [[3, 7], [9, 10]]]]}],
  ['share>5 bytes>1MiB', {words: [], patterns: [], conditions: [['share', '>', 0.05], ['bytes', '>', 2 ** 20]]}],
  ['name=conv,add', {words: [], patterns: [], conditions: [['name', '=', ['conv', 'add']]]}],
  ['"two words"', {words: ['two words'], patterns: [], conditions: []}],
])('%s', (text, query) => {
  expect(plain(text)).toEqual(query);
});

test.each([
  ['slef>1ms', /did you mean 'self'/],
  ['self>fast', /is not a duration/],
  ['count>many', /is not a number/],
  ['step=a:b', /is not a range/],
  ['phase>3', /compares text/],
  ['/(/', /is not a regular expression/],
])('%s is refused', (text, why) => expect(() => parseQuery(text)).toThrow(why));

test('rows pass by words, patterns and conditions', () => {
  const rows = [
    {name: 'aten::conv2d', self_ns: 5e6, count: 3},
    {name: 'aten::mm', self_ns: 2e5, count: 1},
    {name: 'aten::add_', self_ns: NaN, count: 9},
  ];
  const kept = (text) => passing(rows, (row) => row, ['name', 'self_ns', 'count'], parseQuery(text)).map((row) => row.name);
  expect(kept('CONV')).toEqual(['aten::conv2d']);
  expect(kept('/mm$|_$/')).toEqual(['aten::mm', 'aten::add_']);
  expect(kept('self<1ms')).toEqual(['aten::mm']); // what is missing passes no condition
  expect(kept('count>=3 aten')).toEqual(['aten::conv2d', 'aten::add_']);
  expect(() => kept('device>0')).toThrow(/cannot be filtered by 'device'/);
});

test('steps, words and what is missing', () => {
  expect(holds(['step', '=', [[3, 7]]], 6)).toBe(true);
  expect(holds(['step', '!=', [[3, null]]], 2)).toBe(true);
  expect(holds(['category', '=', ['kern']], 'kernel')).toBe(false); // a whole word
  expect(holds(['name', '=', ['kern']], 'kernel')).toBe(true);
  expect(holds(['self', '>', 1], null)).toBe(false);
});

test('the nearest names', () => expect(closest('phsae', ['phase', 'share', 'name'], 1, 0.6)).toEqual(['phase']));
