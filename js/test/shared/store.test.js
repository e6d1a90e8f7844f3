import {expect, test} from 'vitest';

import {createStore, filters, isPicked, nothingSelected} from '../../src/shared/store.js';

const later = (ms = 0) => new Promise((done) => setTimeout(done, ms));

test('a click taken back at once stays taken back', () => {
  const sent = [],
    store = createStore({name: null, revision: 4}, (...told) => {
      sent.push(told);
      return new Promise(() => {});
    });
  store.set({name: ['mm']}, 'table');
  store.set({name: null}, 'table');
  // the second of two quick changes says nothing of the revision that it is made on
  expect(sent).toEqual([
    [{name: ['mm']}, 'table'],
    [{name: null}, 'table'],
  ]);
  expect(store.get().name).toBeNull();
});

test('late news ends what it confirms', async () => {
  let reply;
  const store = createStore({name: null, revision: 4}, () => new Promise((done) => (reply = done)));
  store.set({name: ['mm']}, 'table');
  store.adopt({name: ['conv'], revision: 6}); // Python has replaced it before the page hears that its click has arrived
  expect(store.get().name).toEqual(['mm']);
  reply({state: {name: ['mm'], revision: 5}});
  await later();
  expect(store.get().name).toEqual(['conv']);
});

test('what is there already is not sent', () => {
  const sent = [],
    store = createStore({step: [1, 2]}, (patch) => void sent.push(patch));
  store.set({step: [1, 2], phase: null}, 'phases');
  expect(sent).toEqual([]);
});

test('a change that cannot be sent is taken back', async () => {
  const store = createStore({name: null}, () => Promise.reject(new Error('gone')));
  store.set({name: ['mm']}, 'table');
  expect(store.get().name).toEqual(['mm']);
  await later();
  expect(store.get().name).toBeNull();
});

test('subscribers are told what has changed and by whom; listeners what is confirmed', () => {
  const told = [],
    confirmed = [],
    store = createStore({name: null, focus: 3, revision: 1}, () => new Promise(() => {}));
  const stop = store.subscribe((patch, origin) => told.push([patch, origin]));
  store.whenConfirmed((revision, changed) => confirmed.push([revision, changed]));
  store.adopt({name: ['mm'], focus: 4, revision: 2});
  stop();
  store.set({focus: null}, 'timeline');
  expect(told).toEqual([[{name: ['mm'], focus: 4}, 'python']]);
  expect(confirmed).toEqual([[2, ['name']]]);
});

test('clearing takes all clauses back; focus is no clause', () => {
  const store = createStore({name: ['mm'], window: [0, 5], focus: 2}, () => new Promise(() => {}));
  expect(store.isEmpty()).toBe(false);
  store.clear('escape');
  expect(store.isEmpty()).toBe(true);
  expect(Object.values(nothingSelected()).every((value) => value === null)).toBe(true);
});

test('a patch is picked where the state has all of it', () => {
  expect(isPicked({name: ['mm'], step: null}, {name: ['mm'], step: null})).toBe(true);
  expect(isPicked({name: ['mm'], step: [1]}, {name: ['mm'], step: null})).toBe(false);
  expect(isPicked({name: null}, {name: null})).toBe(false);
});

test('pinned tracks are told to every view, filter nothing, and stay when the selection is cleared', () => {
  const store = createStore({name: ['mm'], pinned: [3], revision: 1}, () => new Promise(() => {})),
    told = [],
    confirmed = [];
  store.subscribe((patch, origin) => told.push([patch, origin]));
  store.whenConfirmed((...news) => confirmed.push(news));
  store.set({pinned: [3, 0]}, 'tracks');
  store.clear('escape');
  expect(store.get().pinned).toEqual([3, 0]);
  expect(store.isEmpty()).toBe(true);
  store.adopt({name: ['mm'], pinned: [7], revision: 2});
  expect(confirmed).toEqual([]); // no answer is out of date
  expect(told.map(([patch]) => Object.keys(patch))).toEqual([['pinned'], ['name']]);
  expect([filters({pinned: [1], focus: 3}), filters({pinned: [1], name: null}), filters({window: [0, 1]}, 'window')]).toEqual([false, true, false]);
});
