import {expect, test} from 'vitest';

import {createStore} from '../../src/shared/store.js';
import {PageAnswers} from '../../src/widget/page_answers.js';

/** The answers of a page that has its recording, and what Python was asked. */
function answersOfPage() {
  const asked = [],
    line = {
      store: createStore({}, async () => null),
      lost: false,
      request: async (message) => {
        asked.push(message);
        const under = message.name === 'kernels' ? {under: ['window', 'step']} : {};
        return {content: {seq: message.seq, name: message.name, title: `number ${asked.length}`, ...under}, buffers: []};
      },
    },
    page = new PageAnswers(/** @type {any} */ (line));
  page.local = /** @type {any} */ ({answers: () => false});
  let seq = 0;
  const tab = async (name, own = []) => (await page.request({t: 'panel', name, own, choices: {}, seq: ++seq})).content;
  return {line, asked, tab, page};
}

test('Python is asked for a tab once for each selection', async () => {
  const {line, asked, tab} = answersOfPage();
  expect((await tab('steps')).title).toBe('number 1');
  expect(await tab('steps')).toMatchObject({title: 'number 1', seq: 2});
  line.store.set({name: ['mm']}, 'test');
  expect((await tab('steps')).title).toBe('number 2');
  expect((await tab('steps', ['name'])).title).toBe('number 1');
  line.store.set({name: null}, 'test');
  expect((await tab('steps')).title).toBe('number 1');
  expect(asked.length).toBe(2);
});

test('Python is not asked where only dimensions have changed that a tab does not follow', async () => {
  const {line, asked, tab} = answersOfPage();
  expect((await tab('kernels')).title).toBe('number 1');
  line.store.set({name: ['mm'], focus: 3, phase: ['forward']}, 'test');
  expect((await tab('kernels')).title).toBe('number 1');
  line.store.set({step: [5]}, 'test');
  expect((await tab('kernels')).title).toBe('number 2');
  line.store.set({step: null, name: null}, 'test');
  expect((await tab('kernels')).title).toBe('number 1');
  expect(asked.length).toBe(2);
});

test('without Python a tab is that of the whole recording, and says so', async () => {
  const {line, tab} = answersOfPage();
  await tab('steps');
  line.store.set({name: ['mm']}, 'test');
  line.lost = true;
  expect(await tab('steps')).toMatchObject({title: 'number 1', whole: true});
  expect((await tab('memory')).absent).toContain('whose kernel has ended');
});

test('a tab that was asked before the recording came is there without Python', async () => {
  const {line, tab, page} = answersOfPage();
  const local = page.local;
  page.local = null;
  await tab('source', ['line']);
  page.local = local;
  line.lost = true;
  line.store.set({line: ['cell:3']}, 'test');
  expect(await tab('source')).toMatchObject({title: 'number 1', whole: true});
  expect((await tab('source', ['line'])).title).toBe('number 1');
});

test('an answer is not kept if the selection changed while Python worked', async () => {
  const {line, asked, tab} = answersOfPage();
  const first = tab('steps');
  line.store.set({name: ['mm']}, 'test');
  await first;
  line.store.set({name: null}, 'test');
  await tab('steps');
  expect(asked.length).toBe(2);
});
