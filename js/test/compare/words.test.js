import {describe, expect, test} from 'vitest';

import {countFrom, SharedAxis} from '../../src/compare/axis.js';
import {createSideStore, startOf} from '../../src/compare/side_store.js';
import {Counterparts} from '../../src/compare/words.js';
import {createStore} from '../../src/shared/store.js';

/** @type {CounterpartWords} */
const WORDS = {
  name: [{Net: ['Net at 0x1', 'Net at 0x2']}, {Net: ['Net at 0x9']}],
  line: [{}, {'cell:2': ['cell:3'], 'cell:2 of b': ['cell:2'], 'cell:3': ['cell:3 of a']}],
};

/** A selection of a comparison in a file: nobody else writes it. */
function shared(starts = [100, 7000]) {
  let revision = 0;
  const store = createStore({starts, revision}, async (patch) => ({state: {...store.get(), ...patch, revision: ++revision}}));
  return store;
}

const settled = () => new Promise((done) => setTimeout(done, 0));

describe('what belongs together', () => {
  test('a name and a line are other words on each side, the window lies as far from the aligned start', () => {
    const words = new Counterparts(WORDS),
      state = {name: ['Net'], line: ['cell:2'], phase: ['forward'], window: [5, 9]};
    expect(words.ofSide(state, 0, 100)).toEqual({
      name: ['Net at 0x1', 'Net at 0x2'], line: ['cell:2'], phase: ['forward'], window: [105, 109], category: null,
    });
    expect(words.ofSide(state, 1, 7000)).toEqual({
      name: ['Net at 0x9'], line: ['cell:3'], phase: ['forward'], window: [7005, 7009], category: null,
    });
    expect(words.ofSide({line: ['cell:3']}, 1, 0).line).toEqual(['cell:3 of a']); // b's own line 3 is another one
  });

  test('a change on one side is told in words of the comparison; what only it has stays', () => {
    const words = new Counterparts(WORDS),
      {linked, own} = words.ofComparison({name: ['Net at 0x9'], line: ['cell:3'], window: [7001, 7002], track: [4], phase: null}, 1, 7000);
    expect(linked).toEqual({name: ['Net'], line: ['cell:2'], window: [1, 2], phase: null});
    expect(own).toEqual({track: [4]});
  });
});

describe('the selection of a side', () => {
  test('what is selected on a is selected on b at once, and once', async () => {
    const store = shared(),
      words = new Counterparts(WORDS),
      [a, b] = [0, 1].map((i) => createSideStore(store, i, words, async () => null).store),
      told = [];
    b.subscribe((patch, origin) => told.push([patch, origin]));
    a.set({name: ['Net at 0x2']}, 'timeline');
    expect(store.get().name).toEqual(['Net']);
    expect(b.get().name).toEqual(['Net at 0x9']);
    await settled();
    expect(a.get().name).toEqual(['Net at 0x1', 'Net at 0x2']);
    expect(told).toEqual([[{name: ['Net at 0x9']}, 'timeline']]);
    b.set({name: null}, 'chip');
    await settled();
    expect([store.get().name, a.get().name, b.get().name]).toEqual([null, null, null]);
  });

  test('other aligned steps move the window of a side', async () => {
    const store = shared(),
      {store: b, close} = createSideStore(store, 1, new Counterparts(WORDS), async () => null);
    store.set({window: [10, 30]}, 'test');
    await settled();
    expect(b.get().window).toEqual([7010, 7030]);
    store.adopt({...store.get(), starts: [100, 9000]});
    expect(startOf(store, 1)).toBe(9000);
    expect(b.get().window).toEqual([9010, 9030]);
    close();
    store.adopt({...store.get(), starts: [100, 0]});
    expect(b.get().window).toEqual([9010, 9030]);
  });

  test('a track is of one side alone, and its kernel is told', async () => {
    const sent = [],
      store = shared(),
      made = createSideStore(store, 0, new Counterparts(WORDS), async (...message) => {
        sent.push(message);
        return {state: {...made.store.get(), track: [3], revision: 1}};
      });
    made.store.set({track: [3]}, 'tracks');
    await settled();
    expect(sent).toEqual([['a', {track: [3]}, 'tracks']]);
    expect(made.store.get().track).toEqual([3]);
    expect(store.get().track).toBeUndefined();
  });
});

describe('the selection of a side in a file', () => {
  test('what nobody else has stays as it was set', async () => {
    const {store} = createSideStore(shared(), 0, new Counterparts(WORDS), async () => null);
    store.set({focus: 5}, 'timeline');
    store.set({pinned: [2]}, 'tracks');
    await settled();
    expect([store.get().focus, store.get().pinned]).toEqual([5, [2]]);
  });
});

describe('the axis', () => {
  const range = () => ({start: 0, end: 1, setv(/** @type {object} */ values) {Object.assign(this, values);}});

  test('both recordings show the same time from their aligned starts', () => {
    const axis = new SharedAxis(),
      [a, b] = [range(), range()];
    axis.sides = [{range: a, span: [0, 1000], start: () => 100}, {range: b, span: [0, 9000], start: () => 7000}];
    expect(axis.whole()).toEqual([-7000, 2000]);
    axis.show(-10, 90);
    expect([a.start, a.end, b.start, b.end]).toEqual([90, 190, 6990, 7090]);
    axis.zoom(0.5, 0);
    expect([axis.start, axis.end, b.start]).toEqual([-5, 45, 6995]);
    axis.show(1e9, 2e9);
    expect(axis.end).toBeLessThanOrEqual(2000 + 0.1 * 1.2 * 9000);
  });

  test('ticks stand at whole numbers from the aligned start', () => {
    const ticker = {get_ticks: (/** @type {number} */ low, /** @type {number} */ high) => ({major: [0, 50, 100].filter((t) => t >= low && t <= high), minor: [25]})};
    countFrom(ticker, () => 7003);
    expect(ticker.get_ticks(7003, 7100)).toEqual({major: [7003, 7053], minor: [7028]});
  });
});
