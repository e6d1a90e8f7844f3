// The page before its figures are there: as high as with them, so that nothing below moves.
import {element, textElement} from '../shared/elements.js';
import {headlineOf} from './headline.js';

const ROOMY = 970; // pixels of a window in which JupyterLab has room for the phases in full height
const LEAST_PHASES_PX = 150;
const TABLE_PX = 296; // twelve rows

/**
 * How high the figure of the phases is in a window: all four views are in sight at once.
 * @param {number} full
 * @param {number} height of the window
 */
export const phasesHeight = (full, height) => Math.max(LEAST_PHASES_PX, Math.min(full, full - (ROOMY - height)));

/**
 * The maximum height of a table. It and the timeline share the extra height of high windows.
 * @param {number} height of the window
 */
export const tableHeight = (height) => TABLE_PX + Math.max(0, Math.floor((height - ROOMY) / 2));

/**
 * Make the elements of the page.
 * @param {HTMLElement} el
 * @param {Settings} settings
 * @param {DocumentJson} json
 */
export function skeleton(el, settings, json) {
  const root = element('div', 'nbp nbp-loading', el);
  root.tabIndex = 0;
  root.setAttribute('role', 'region');
  root.setAttribute('aria-label', 'profile: timeline, memory, step phases and tabs of tables and figures');
  const head = element('div', 'nbp-head', root),
    trouble = element('div', 'nbp-trouble', root),
    bar = element('div', 'nbp-bar', root),
    account = textElement('div', 'nbp-account', '');
  head.classList.toggle('nbp-late', Boolean(settings.late));
  head.append(...headlineOf(settings.verdict || '', settings.headline), account);
  trouble.hidden = true;
  if (settings.notice) element('div', 'nbp-notice', root).textContent = settings.notice;
  trouble.setAttribute('role', 'alert');
  const overview = element('div', 'nbp-figure nbp-overview', root),
    timeline = element('div', 'nbp-figure nbp-timeline', root);
  timeline.dataset.loading = 'drawing the timeline …';
  const memory = element('div', 'nbp-figure nbp-memory', root),
    detail = element('div', 'nbp-detail', root),
    row = element('div', 'nbp-row', root);
  const parts = {root, head, trouble, bar, account, overview, timeline, detail, memory, row, ...phasesIn(row), ...tabsIn(row)};
  reserve(parts, settings, json);
  return parts;
}

/** @param {HTMLElement} row */
function phasesIn(row) {
  const panel = element('section', 'nbp-panel', row),
    head = element('div', 'nbp-panel-head', panel);
  return {
    phaseTitle: element('strong', '', head),
    legend: element('div', 'nbp-legend', panel),
    phases: element('div', 'nbp-figure nbp-phases', panel),
  };
}

/** @param {HTMLElement} row */
function tabsIn(row) {
  const tabs = element('section', 'nbp-tabs', row),
    rail = element('div', 'nbp-rail', tabs),
    table = element('div', 'nbp-panel nbp-table', tabs),
    panel = element('div', 'nbp-panel nbp-tab', tabs);
  panel.hidden = true;
  return {tabs, rail, table, panel};
}

/**
 * Keep room for the figures, and say why a view is empty.
 * @param {Record<string, HTMLElement>} parts
 * @param {Settings} settings
 * @param {DocumentJson} json
 */
function reserve(parts, settings, json) {
  const high = globalThis.innerHeight ?? ROOMY;
  parts.root.style.setProperty('--nbp-table', `${tableHeight(high)}px`);
  settings.figures.forEach((name, i) => {
    const {attributes} = json.roots[i];
    if (name === 'phases') {
      settings.phases = attributes.height;
      attributes.height = phasesHeight(attributes.height, high);
    }
    parts[name].style.minHeight = `${json.roots[i].attributes.height}px`;
  });
  for (const [view, reason] of Object.entries(settings.empty)) {
    parts[view].hidden = true;
    if (view === 'phases') parts.row.classList.add('nbp-no-phases');
    if (view !== 'timeline') continue; // the tab of the same name says why
    const note = document.createElement('p');
    note.className = 'nbp-empty';
    note.textContent = reason;
    parts[view].after(note);
  }
}
