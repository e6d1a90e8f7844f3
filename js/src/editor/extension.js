// An extension of JupyterLab 4 and Notebook 7, loaded as a remote entry: what the lines of a profiled cell took, beside the
// cell, and what the cells of a watched notebook took. What it shows comes from displays of profiles, as events on the document, so the order of loading does not matter:
//   'notebook-prof:lines'   a display tells, or takes back (lines: null), what one cell's lines took
//   'notebook-prof:cells'   a display or the kernel tells, or takes back (cells: null), what the cells of a notebook took
//   'notebook-prof:gutter'  this extension asks all of them to tell again
import {createBadges} from './badges.js';
import {createGutter} from './gutter.js';

const NAME = 'notebook-prof-gutter';

/** @type {Record<string, Record<string, {get: () => Promise<() => any>, from?: string, loaded?: unknown}>>} */
let scope = {};

/**
 * A module of the front-end. Its own copy comes first: another extension may share a second one, and states of two copies do
 * not mix.
 * @param {string} name
 */
async function shared(name) {
  const versions = Object.values(scope[name] ?? {}),
    best = versions.find((one) => /CORE/.test(one.from ?? '')) ?? versions.find((one) => one.loaded) ?? versions[0];
  if (!best) throw new Error(`${name} is not shared here`);
  return (await best.get())();
}

async function plugin() {
  const [editors, view, state] = await Promise.all(['@jupyterlab/codemirror', '@codemirror/view', '@codemirror/state'].map(shared));
  return {
    id: `${NAME}:plugin`,
    description: 'Shows what profiled cells and their lines took.',
    autoStart: true,
    requires: [editors.IEditorExtensionRegistry],
    /**
     * @param {unknown} _app
     * @param {{addExtension: (extension: object) => void}} registry
     */
    activate(_app, registry) {
      // each is among the settings of CodeMirror, where it can be switched off
      const add = (/** @type {string} */ name, /** @type {object} */ texts, /** @type {(model: any) => unknown} */ extensionOf) =>
        registry.addExtension({
          name,
          default: true,
          schema: {type: 'boolean', ...texts},
          factory: (/** @type {{model: any}} */ options) =>
            editors.EditorExtensionRegistry.createConditionalExtension(extensionOf(options.model)),
        });
      add(
        NAME,
        {title: 'Heat of profiled lines', description: 'Whether a cell shows what its lines took.'},
        createGutter(view, state),
      );
      add(
        'notebook-prof-badges',
        {title: 'Badges of watched cells', description: 'Whether a cell shows what it took under %profile_notebook.'},
        createBadges(view),
      );
    },
  };
}

/** @type {any} */
const remotes = window;
remotes._JUPYTERLAB ??= {};
remotes._JUPYTERLAB[NAME] = {
  /** @param {typeof scope} given */
  init(given) {
    scope = given;
  },
  async get() {
    /** @type {object[]} */
    let plugins = [];
    try {
      plugins = [await plugin()];
    } catch (error) {
      console.debug(`${NAME}: ${/** @type {Error} */ (error).message}`); // Voilà loads extensions of JupyterLab, and has no editors
    }
    return () => ({__esModule: true, default: plugins});
  },
};
