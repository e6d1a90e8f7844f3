// A report without a browser: its blocks, and the answers that its page would give.
import {readFileSync} from 'node:fs';

import {createAnswers, fileAnswers} from '../../src/report/answers.js';
import {unpackGiven} from '../../src/report/file/unpack.js';

/** The JSON blocks of an HTML file by id. */
export function blocksOf(path) {
  const blocks = /<script type="application\/json" id="([^"]+)">(.*?)<\/script>/gs,
    found = [...readFileSync(path, 'utf8').matchAll(blocks)];
  return Object.fromEntries(found.map(([, id, text]) => [id, JSON.parse(text)]));
}

/** Gives `ask(request, state)` of the report of a profile. */
export async function openReport(path) {
  const blocks = blocksOf(path),
    {given, columns} = await unpackGiven(blocks['nbp-given'], blocks['nbp-panels']),
    answers = {...createAnswers(columns, given), ...fileAnswers(given)};
  return async (request, state) => answers[request.t](request, state);
}

/** The columns of an answer as arrays of numbers; `buffers` are views or base64. */
export function columnsOf({content, buffers}) {
  const kinds = {f8: Float64Array, f4: Float32Array, i4: Int32Array, u4: Uint32Array, u2: Uint16Array, u1: Uint8Array};
  return Object.fromEntries(
    content.columns.map(([name, kind], i) => {
      const part = typeof buffers[i] === 'string' ? Buffer.from(buffers[i], 'base64') : buffers[i],
        bytes = Uint8Array.from(new Uint8Array(part.buffer, part.byteOffset, part.byteLength));
      return [name, Array.from(new kinds[kind](bytes.buffer))];
    }),
  );
}
