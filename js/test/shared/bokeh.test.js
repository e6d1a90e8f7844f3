import {beforeEach, expect, test} from 'vitest';

import {loadBokeh} from '../../src/widget/bokeh.js';

const VERSION = '3.9.9',
  never = new Promise(() => {});

/** A transport that keeps what it is asked, and answers when it is told to. */
function transport() {
  const asked = [];
  return {asked, request: (question) => new Promise((answer) => asked.push({question, answer}))};
}

const come = (line) => {
  globalThis.window.Bokeh = {version: VERSION};
  line.asked.at(-1).answer({content: {}, buffers: []});
};

beforeEach(() => {
  globalThis.window = {};
});

test('displays of a page load BokehJS once', async () => {
  const [one, two] = [transport(), transport()],
    both = Promise.all([loadBokeh(one, VERSION, never), loadBokeh(two, VERSION, never)]);
  await null;
  come(one);
  expect(await both).toEqual([window.Bokeh, window.Bokeh]);
  expect([one.asked.length, two.asked.length]).toEqual([1, 0]);
});

test('where the display that loads it is closed, one that waits goes on', async () => {
  const [one, two, three] = [transport(), transport(), transport()];
  let close;
  const first = loadBokeh(one, VERSION, new Promise((resolve) => (close = resolve))),
    others = Promise.all([loadBokeh(two, VERSION, never), loadBokeh(three, VERSION, never)]);
  close();
  await expect(first).rejects.toThrow('closed');
  await expect.poll(() => two.asked.length).toBe(1);
  come(two);
  expect(await others).toEqual([window.Bokeh, window.Bokeh]);
  expect(three.asked.length).toBe(0);
});

test('a display that is closed later disturbs nobody', async () => {
  const one = transport();
  let close;
  const loaded = loadBokeh(one, VERSION, new Promise((resolve) => (close = resolve)));
  await null;
  come(one);
  expect(await loaded).toBe(window.Bokeh);
  close();
  expect(await loadBokeh(transport(), VERSION, never)).toBe(window.Bokeh);
});
