import {expect, test} from 'vitest';

import {codeOfCell, codeOfLine, codeOfPart} from '../../src/page/copying.js';

test('a number of the table is a cell of p.operators', () => {
  const code = (/** @type {Grouping} */ by, /** @type {string} */ label, /** @type {string} */ column, state = {}, device = false) =>
    codeOfCell({by, label, values: [label]}, column, state, device);
  expect(code('name', 'aten::mm', 'self')).toBe('p.operators().set_index("name").at["aten::mm", "self_ns"]');
  expect(code('name', 'say "x"', 'share', {window: [0, 5], step: [1, 2], name: ['y']})).toBe(
    'p.operators(window=(0,5), step=[1,2]).set_index("name").at["say \\"x\\"", "share"]',
  );
  expect(code('category', 'python', 'total')).toBe('p.operators(by="category").set_index("category").at["python", "total_ns"]');
  expect(code('name', 'mm', 'mean')).toBe(
    'p.operators().set_index("name").pipe(lambda t: t["total_ns"] / t["count"]).at["mm"]',
  );
  expect(code('name', 'mm', 'min', {step: [4]})).toBe('p.event_log(step=[4], name=["mm"])["dur"].min()');
  expect(code('category', 'python', 'max', {}, true)).toBe(
    `p.event_log(category=["python"]).merge(p.trace.tracks[["track", "kind"]]).query("kind in ['thread', 'process']")["dur"].max()`,
  );
  for (const none of [code('module', 'net', 'self'), code('name', 'mm', 'label'), code('name', 'mm', 'self', {rank: [1]})]) expect(none).toBe('');
});

test('a number of a line is a cell of p.lines', () => {
  expect(codeOfLine('cell', 3, 'total_ns', {})).toBe('p.lines().set_index(["file", "line"]).at[("cell", 3), "total_ns"]');
  expect(codeOfLine('C:\\a.py', 3, 'share', {step: [4], line: ['cell:3']})).toBe(
    'p.lines(step=[4]).set_index(["file", "line"]).at[("C:\\\\a.py", 3), "share"]',
  );
  expect(codeOfLine('cell', 3, 'total_ns', {rank: [1]})).toBe('');
});

test('a number of a tab is a cell of what its call gives', () => {
  expect(codeOfPart({call: 'p.steps.trace(step=[4])', labels: null}, 2, 'total_ns')).toBe('p.steps.trace(step=[4]).at[2, "total_ns"]');
  expect(codeOfPart({call: 'p.device.idle()', labels: [7, 3]}, 1, 'dur')).toBe('p.device.idle().at[3, "dur"]');
  expect(codeOfPart({call: '', labels: null}, 0, 'dur')).toBe('');
});
