import {afterEach, expect, test, vi} from 'vitest';

import {Asker} from '../../src/shared/asker.js';
import {createStore, DIMENSIONS} from '../../src/shared/store.js';

const answerTo = (message, more = {}) => ({content: {columns: [], seq: message.seq, ms: 1, ...more}, buffers: []});

afterEach(() => vi.useRealTimers());

test('what is still summed up is told until the answer', async () => {
  const told = [];
  let left = 3;
  const request = async (message) => answerTo(message, message.t === 'table' && left-- > 0 ? {pending: true} : {}),
    asker = new Asker({request}, () => {}, (...news) => told.push(news));
  await asker.ask({t: 'timeline'});
  await asker.ask({t: 'table'});
  told.push('answered');
  left = 2;
  await asker.ask({t: 'table'}, () => left > 0).catch(() => told.push('given up'));
  const once = [
    ['table', true],
    ['table', false],
  ];
  expect(told).toEqual([...once, 'answered', ...once, 'given up']);
});

test('a question asked ahead that a view then asks is wanted until its answer', async () => {
  let left = 2;
  const request = vi.fn(async (message) => answerTo(message, left-- > 0 ? {pending: true} : {rows: 3})),
    asker = new Asker({request}, () => {});
  const ahead = asker.foresee({t: 'phases'}, () => false);
  expect((await asker.ask({t: 'phases'})).rows).toBe(3);
  expect((await ahead).rows).toBe(3);
  expect(request).toHaveBeenCalledTimes(3);
  left = 2;
  await expect(asker.foresee({t: 'phases'}, () => false)).rejects.toThrow('nobody waits');
});

test('a question without an answer is asked again, and given up after three', async () => {
  vi.useFakeTimers();
  const troubles = [],
    request = vi.fn(() => new Promise(() => {})),
    asker = new Asker({request}, (state) => troubles.push(state)),
    failed = asker.ask({t: 'table'}).catch((error) => error.message);
  await vi.advanceTimersByTimeAsync(50_000);
  expect(await failed).toBe('no answer to table');
  expect(request).toHaveBeenCalledTimes(3);
  expect(troubles).toEqual(['waiting', 'lost']);
});

test('a kernel that has gone is told for good', async () => {
  const troubles = [];
  let die;
  const asker = new Asker({request: async (m) => answerTo(m), whenLost: (tell) => ((die = tell), () => {})}, (state) => troubles.push(state));
  die();
  await asker.ask({t: 'timeline'});
  expect(troubles).toEqual(['gone']);
});

test('a failed answer is an error, and columns are unpacked', async () => {
  const buffers = [new Uint8Array(new Float64Array([1.5, 2]).buffer)],
    request = async ({t}) => (t === 'table' ? {content: {failed: 'no such row', columns: []}, buffers: []} : {content: {columns: [['x', 'f8']], ms: 2}, buffers}),
    asker = new Asker({request}, () => {});
  await expect(asker.ask({t: 'table'})).rejects.toThrow('no such row');
  expect([...(await asker.ask({t: 'memory'})).data.x]).toEqual([1.5, 2]);
  expect(asker.log).toMatchObject({asked: 2, answered: 2, bytes: 16, largest: 16});
});

test('a channel has one question in flight, and the newest wins', async () => {
  const replies = [],
    used = [],
    asker = new Asker({request: (message) => new Promise((done) => replies.push(() => done(answerTo(message, {number: message.number}))))}, () => {});
  let number = 0;
  const channel = asker.channel(
    () => ({t: 'timeline', number: ++number}),
    (answer, _, stale) => used.push([answer.number, stale]),
    () => {},
  );
  channel.run();
  channel.run();
  channel.run();
  expect(replies).toHaveLength(1);
  replies[0]();
  await vi.waitFor(() => expect(replies).toHaveLength(2));
  replies[1]();
  await vi.waitFor(() => expect(used).toHaveLength(2));
  expect(used).toEqual([
    [1, true],
    [2, false],
  ]);
});

// A kernel that handles every message after a wait of its own (so that they overtake one another), answers after another,
// loses some, and whose Python writes too. The page clicks, and takes back what it has clicked.
async function disorder(seed, loss) {
  let s = seed;
  const random = () => (s = (s * 1103515245 + 12345) % 2147483648) / 2147483648,
    wait = (ms) => new Promise((done) => setTimeout(done, ms * random())),
    lost = () => random() < loss,
    truth = {name: null, step: null, focus: null, revision: 0};
  const write = (patch) => {
    const changed = Object.keys(patch).some((k) => JSON.stringify(patch[k]) !== JSON.stringify(truth[k]));
    if (!changed) return;
    Object.assign(truth, patch, {revision: truth.revision + 1});
    const state = {...truth};
    wait(12).then(() => store.adopt(state));
  };
  const send = (patch) =>
    new Promise((reply) => {
      const deliver = async () => {
        if (lost()) return void setTimeout(deliver, 60);
        await wait(12);
        write(patch);
        const state = {...truth};
        if (lost()) return void setTimeout(deliver, 60);
        await wait(12);
        reply({state});
      };
      deliver();
    });
  const request = (message) =>
    new Promise((reply) => {
      (async () => {
        if (lost()) return;
        await wait(12);
        const answer = {content: {...message, columns: [], saw: {...truth}, revision: truth.revision, ms: 0}, buffers: []};
        if (lost()) return;
        await wait(12);
        reply(answer);
      })();
    });
  const store = createStore({...truth}, send),
    asker = new Asker({request}, () => {}, () => {}, loss ? 50 : 15_000);
  store.whenConfirmed((revision, changed) => asker.confirm(revision, changed));
  const shown = {},
    failures = [];
  const channels = ['timeline', 'table', 'phases'].map((t) =>
    asker.channel(
      () => ({t}),
      (answer) => (shown[t] = answer.saw),
      (error) => failures.push(String(error)),
      DIMENSIONS,
    ),
  );
  const askAll = () => channels.forEach((one) => one.run());
  store.subscribe((patch) => Object.keys(patch).some((k) => k !== 'focus') && askAll());
  askAll();
  for (let k = 0; k < 30; k++) {
    const dimension = random() < 0.5 ? 'name' : 'step',
      value = [Math.floor(4 * random())];
    if (random() < 0.3) write({[dimension]: value});
    else {
      store.set({focus: k}, 'timeline');
      store.set({[dimension]: String(store.get()[dimension]) === String(value) ? null : value}, 'timeline');
      if (random() < 0.3) store.set({[dimension]: null}, 'timeline');
    }
    await wait(25);
  }
  const pick = ({name, step}) => JSON.stringify([name ?? null, step ?? null]);
  await vi.waitFor(() => expect([store.get(), shown.timeline, shown.table, shown.phases].map(pick)).toEqual(Array(4).fill(pick(truth))), {timeout: 20_000, interval: 10});
  return failures;
}

test.each([1, 2, 3, 4])(
  'every view ends with what is selected, in whatever order messages come: %d',
  async (seed) => expect(await disorder(7919 * seed, 0)).toEqual([]),
  30_000,
);

test.each([1, 2, 3, 4])('every view ends with what is selected where messages are lost: %d', (seed) => disorder(7919 * seed, 0.1), 30_000);

test('an answer of other rows is not used: with all frames shown, the question is made anew', async () => {
  const asked = [],
    used = [];
  /** @type {() => void} */
  let answer = () => {};
  const request = (message) => {
      asked.push(message);
      return new Promise((done) => (answer = () => done(answerTo(message))));
    },
    asker = new Asker({request}, () => {}),
    channel = asker.channel(
      () => ({t: 'timeline', rows: [asker.unfolded ? 7 : 3]}),
      (_, {rows}) => used.push(rows),
      () => {},
    );
  channel.run();
  await vi.waitFor(() => expect(asked.length).toBe(1));
  asker.unfolded = true;
  answer();
  await vi.waitFor(() => expect(asked.length).toBe(2));
  answer();
  await vi.waitFor(() => expect(used).toEqual([[7]]));
  expect(asked.map(({unfolded}) => unfolded)).toEqual([undefined, true]);
});
