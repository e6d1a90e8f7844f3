// What views that show a trace are given of it: figures, facts, the selection, colours and names.
import {createPalettes, NO_CODE} from '../timeline/colours.js';
import {readTheme} from './theme.js';
import {createTooltip} from './tooltip.js';

/**
 * Names and colours of a trace.
 * @param {Meta} meta
 * @param {HTMLElement} root
 */
export const namedTrace = (meta, root) => ({
  theme: readTheme(root),
  tint: /** @type {Tint} */ ('name'),
  searchText: '',
  palettes: createPalettes(meta.colours),
  nameOf: (/** @type {number} */ code) => meta.nameList[code] ?? '',
  labelOf: (/** @type {number} */ code) => meta.shortList[code] || (meta.nameList[code] ?? ''),
  colourOfName: (/** @type {number} */ code) => meta.nameColours[code] ?? NO_CODE,
});

/**
 * The part of a context that is of a trace, and not of the page around its views.
 * @param {Pick<Context, 'host' | 'settings' | 'meta' | 'store' | 'asker' | 'range'> & {root: HTMLElement}} shown
 */
export const shownTrace = ({host, settings, meta, store, asker, range, root}) => ({
  host,
  settings,
  meta,
  store,
  asker,
  range,
  tooltip: createTooltip(root),
  ...namedTrace(meta, root),
});
