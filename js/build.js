// Bundles every file of src/entries into notebook_prof/views/page, where the Python package reads it.
// `node build.js [folder]` writes elsewhere: so a test compares what is committed with what the sources build to.
import {readdirSync} from 'node:fs';
import {dirname, join} from 'node:path';
import process from 'node:process';
import {fileURLToPath} from 'node:url';

import {build} from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url)),
  entries = join(here, 'src', 'entries');

await build({
  absWorkingDir: here,
  entryPoints: readdirSync(entries).map((name) => join('src', 'entries', name)),
  outdir: process.argv[2] ?? join(here, '..', 'notebook_prof', 'views', 'page'),
  bundle: true,
  format: 'esm',
  target: 'es2022',
  charset: 'utf8',
  minify: true, // a report carries the script: names of functions tell nothing at run time
  legalComments: 'none',
  logLevel: 'warning',
});
