// Bundles every file of src/entries into notebook_prof/views/page, where the Python package reads it, and the extension of the
// editor into labextension/static. What several entries need is in page/chunks once: views/bundle.py puts them together.
// `node build.js [folder]` writes elsewhere: so a test compares what is committed with what the sources build to.
import {readdirSync, rmSync} from 'node:fs';
import {dirname, join} from 'node:path';
import process from 'node:process';
import {fileURLToPath} from 'node:url';

import {build} from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url)),
  entries = join(here, 'src', 'entries'),
  page = process.argv[2] ?? join(here, '..', 'notebook_prof', 'views', 'page');

const options = {
  absWorkingDir: here,
  bundle: true,
  target: 'es2022',
  charset: 'utf8',
  minify: true, // a report carries the script: names of functions tell nothing at run time
  legalComments: 'none',
  logLevel: 'warning',
};
rmSync(join(page, 'chunks'), {recursive: true, force: true}); // their names are hashes of what is in them
await build({
  ...options,
  entryPoints: readdirSync(entries).map((name) => join('src', 'entries', name)),
  outdir: page,
  format: 'esm',
  splitting: true,
  chunkNames: 'chunks/[hash]',
});
// an extension of JupyterLab is a plain script
await build({
  ...options,
  entryPoints: [{in: join('src', 'editor', 'extension.js'), out: 'remoteEntry'}],
  outdir: process.argv[2] ? join(process.argv[2], 'labextension') : join(here, 'labextension', 'static'),
  format: 'iife',
});
