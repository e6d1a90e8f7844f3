import {expect, test} from 'vitest';

import {Line} from '../../src/widget/line.js';

globalThis.location ??= {hostname: 'example.org', pathname: '/'};

/** A widget model that keeps what is sent. */
function modelOf() {
  const listeners = {},
    sent = [];
  return {
    sent,
    tell: (content, buffers) => listeners['msg:custom'](content, buffers),
    on: (event, listener) => (listeners[event] = listener),
    off: () => {},
    get: () => ({}),
    send: (message) => sent.push(message),
  };
}

test('an answer whose buffers were dropped is asked for again, as text', async () => {
  const model = modelOf(),
    line = new Line(model),
    answer = line.request({t: 'names'});
  await null; // the batch goes out
  expect(model.sent[0]).toMatchObject({t: 'names'});
  expect(model.sent[0].base64).toBeUndefined();
  model.tell({rid: model.sent[0].rid, buffers: 1, names: ['mm']}, []);
  await null;
  expect(model.sent[1]).toMatchObject({t: 'names', rid: model.sent[0].rid, base64: true});
  model.tell({rid: model.sent[1].rid, buffers: 1, names: ['mm'], base64: [btoa('\x01\x02')]}, undefined);
  const {content, buffers} = await answer;
  expect(content.names).toEqual(['mm']);
  expect([...new Uint8Array(buffers[0].buffer)]).toEqual([1, 2]);
});

test('several answers share the buffers of a message', async () => {
  const model = modelOf(),
    line = new Line(model),
    both = Promise.all([line.request({t: 'a'}), line.request({t: 'b'})]);
  await null;
  const [first, second] = model.sent[0].messages,
    parts = [new DataView(new ArrayBuffer(1)), new DataView(new ArrayBuffer(2)), new DataView(new ArrayBuffer(3))];
  model.tell({several: [{rid: first.rid, buffers: 1}, {rid: second.rid, buffers: 2}]}, parts);
  expect((await both).map(({buffers}) => buffers.map((one) => one.byteLength))).toEqual([[1], [2, 3]]);
});

test('a question to a kernel that was shut down says that it has gone', async () => {
  const send = () => {
      throw new Error('Cannot send');
    },
    line = new Line({...modelOf(), send}),
    said = [];
  line.whenLost(() => said.push('gone'));
  line.request({t: 'names'});
  await null;
  expect(said).toEqual(['gone']);
  await expect(line.request({t: 'names'})).rejects.toThrow('its kernel has gone');
});
