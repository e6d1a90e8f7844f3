import {expect, test} from 'vitest';

import {createHistory} from '../../src/shared/history.js';
import {createStore} from '../../src/shared/store.js';

test('undo and redo walk what was selected, by whomever', () => {
  const store = createStore({name: null, step: [1], focus: null, revision: 1}, () => new Promise(() => {})),
    history = createHistory(store);
  store.set({name: ['mm'], step: null}, 'table');
  store.set({focus: 7}, 'timeline');
  store.adopt({name: ['mm'], step: null, focus: 7, window: [0, 5], revision: 2}); // Python
  expect(history.go(-1)).toBe(true);
  expect(store.get()).toMatchObject({name: ['mm'], window: null, focus: 7});
  history.go(-1);
  expect(store.get()).toMatchObject({name: null, step: [1]});
  expect(history.go(-1)).toBe(false);
  store.set({name: ['mm'], step: null}, 'python'); // redone by someone else
  expect(history.go(1)).toBe(true);
  expect(store.get().window).toEqual([0, 5]);
  expect(history.go(1)).toBe(false);
  history.go(-1);
  store.set({phase: ['forward']}, 'phases');
  expect(history.go(1)).toBe(false);
});
