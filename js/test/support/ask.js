// `node ask.js questions.json answers.json`: asks a report, for tests in Python.
import {readFileSync, writeFileSync} from 'node:fs';
import process from 'node:process';

import {openReport} from './report_file.js';

const [, , from, to] = process.argv,
  {file, questions} = JSON.parse(readFileSync(from, 'utf8')),
  ask = await openReport(file),
  out = [];
for (const [state, request] of questions) {
  const {content, buffers} = await ask(request, state);
  out.push([content, buffers.map((part) => Buffer.from(part.buffer, part.byteOffset, part.byteLength).toString('base64'))]);
}
writeFileSync(to, JSON.stringify(out));
