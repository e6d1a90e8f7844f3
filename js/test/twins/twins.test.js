// The page's answers against those that Python has written into the file NBP_CASES: tests/unit/test_page_twins.py runs this.
import {readFileSync} from 'node:fs';
import process from 'node:process';

import {describe, expect, test} from 'vitest';

import {Pattern} from '../../src/filter/patterns.js';
import {parseQuery} from '../../src/filter/query.js';
import {formatBytes, formatClock, formatCount, formatShare, formatTime} from '../../src/shared/units.js';
import {columnsOf, openReport} from '../support/report_file.js';

const path = process.env.NBP_CASES,
  cases = path ? JSON.parse(readFileSync(path, 'utf8')) : {};
// which of several equally long slices names a bin, and the order of equal values, are free; only a file says what is left out
const FREE = new Set(['ms', 'revision', 'seq', 'columns', 'picture', 'left']),
  ONE_BY_ONE = ['x0', 'dur', 'slot', 'name', 'tint', 'id', 'match'],
  OF_LONGEST = ['dname', 'dtint'];

const withoutFree = (content) => Object.fromEntries(Object.entries(content).filter(([key]) => !FREE.has(key)));
// why an expression is none is said in the words of each language's own engine
const sentence = (error) => error.replace(/(is not a regular expression:).*/s, '$1');

function close(theirs, ours, absolute, where) {
  expect(theirs.length, where).toBe(ours.length);
  const far = theirs.findIndex((value, i) => !(Math.abs(value - ours[i]) <= absolute + 1e-9 * Math.abs(ours[i])));
  expect(far < 0 ? '' : `${theirs[far]} at ${far} is not ${ours[far]}`, where).toBe('');
}

const sortedBy = (columns, key) => {
  const order = columns[key].map((_, i) => i).sort((p, q) => columns[key][p] - columns[key][q]);
  return Object.fromEntries(ONE_BY_ONE.map((name) => [name, order.map((i) => columns[name][i])]));
};

function same(ours, theirs, where) {
  expect(withoutFree(theirs.content), where).toEqual(withoutFree(ours.content));
  const [mine, other] = [columnsOf(ours), columnsOf(theirs)],
    quads = 'quads' in ours.content;
  expect(Object.keys(other).sort(), where).toEqual(Object.keys(mine).sort());
  if (quads) expect(sortedBy(other, 'id'), where).toEqual(sortedBy(mine, 'id'));
  for (const name of Object.keys(mine)) {
    if (OF_LONGEST.includes(name) || (quads && ONE_BY_ONE.includes(name))) continue;
    // edges of bins are whole ns in the kernel
    close(other[name], mine[name], ['busy', 'bright'].includes(name) ? 1.01 : 1e-6, `${where}: ${name}`);
  }
}

describe.skipIf(!path)('what Python has written', () => {
  test.each(cases.reports ?? [])('a report answers as the kernel: $name', async ({file, questions}) => {
    const ask = await openReport(file);
    for (const {state, request, content, buffers} of questions)
      same({content, buffers}, await ask(request, state), JSON.stringify([request, state]));
  });

  test.each(cases.filtered ?? [])('a report keeps the same rows: $name', async ({file, questions}) => {
    const ask = await openReport(file);
    for (const {state, request, content, buffers} of questions) {
      const theirs = await ask(request, state),
        where = JSON.stringify(request);
      expect(sentence(theirs.content.error), where).toBe(sentence(content.error));
      if (request.t === 'search') {
        expect([theirs.content.count, theirs.content.id], where).toEqual([content.count, content.id]);
        expect(columnsOf(theirs), where).toEqual(columnsOf({content, buffers}));
      } else {
        expect([...theirs.content.label].sort(), where).toEqual([...content.label].sort());
        for (const name of ['rows', 'count', 'self_ns']) expect(theirs.content[name], where).toEqual(content[name]);
      }
    }
  });

  test.each(cases.totals ?? [])('totals of a whole recording are exact: $name', async ({file, questions}) => {
    const ask = await openReport(file);
    for (const {state, request, content, buffers} of questions) {
      const theirs = await ask(request, state),
        rows = (answer) => {
          const {side, count, total_ns: total, self_ns: self, device_ns: device} = columnsOf(answer),
            {label, detail} = answer.content;
          return label.map((text, k) => JSON.stringify([text, detail[k], side[k], count[k], total[k], self[k], device[k]])).sort();
        };
      expect(rows(theirs), request.by).toEqual(rows({content, buffers}));
      expect(theirs.content.estimate).toBeUndefined();
      for (const name of ['count', 'self_ns']) expect(theirs.content[name]).toBe(content[name]);
    }
  });

  test('both parsers read the same filters', () => {
    for (const [text, ours] of cases.filters) {
      let theirs;
      try {
        const {words, patterns, conditions} = parseQuery(text);
        theirs = {words, patterns: patterns.map((p) => p.source.replaceAll('\\/', '/')), conditions};
      } catch (error) {
        theirs = sentence(error.message);
      }
      expect(theirs, text).toEqual(typeof ours === 'string' ? sentence(ours) : ours);
    }
  });

  test('patterns find what RE2 finds', () => {
    const {names, found, refused} = cases.patterns;
    for (const [source, ours] of found) {
      const pattern = new Pattern(source);
      expect(names.map((name) => Number(pattern.test(name))), source).toEqual(ours);
    }
    for (const source of refused) expect(() => new Pattern(source), source).toThrow();
  });

  test('numbers are written as Python writes them', () => {
    const write = {time: formatTime, bytes: formatBytes, share: formatShare, count: formatCount, clock: formatClock};
    for (const [kind, values, text] of cases.numbers)
      expect(write[kind](...values).replaceAll('−', '-'), `${kind} of ${values}`).toBe(text);
  });
});
