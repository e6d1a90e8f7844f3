// Badges at the cells of a watched notebook: what the cell took when it ran last, and whether its result is stale.
import {formatBytes, formatTime} from '../shared/units.js';
import {isOfNotebook} from './gutter.js';

const PROTOCOL = 1;
const KEPT_BYTES = 32 * 2 ** 20; // less is what a process takes and gives back by the way
const LOOK = `
.nbp-badge {
  position: absolute; right: 8px; bottom: -4px; z-index: 1; height: 15px; padding: 0 7px;
  border: 1px solid var(--jp-border-color2, #bdbdbd); border-radius: 8px;
  font: 11px/13px var(--jp-ui-font-family, sans-serif); font-variant-numeric: tabular-nums;
  color: var(--jp-ui-font-color2, #616161); background: var(--jp-layout-color1, #fff); cursor: pointer;
}
.nbp-badge:hover, .nbp-badge:focus-visible { color: var(--jp-ui-font-color1, #212121); border-color: var(--jp-border-color0, #757575); }
.nbp-badge[aria-pressed='true'] { border-color: var(--jp-brand-color1, #1976d2); box-shadow: 0 0 0 1px var(--jp-brand-color1, #1976d2); }
.nbp-badge-stale { font-weight: 600; color: var(--jp-warn-color0, #b45309); }
.jp-mod-dark .nbp-badge-stale, [data-jp-theme-light='false'] .nbp-badge-stale { color: #ffb74d; }
@media print { .nbp-badge { display: none } }
`;

/**
 * What is written on a badge, and what more there is to say of the cell.
 * @param {EditorCell} cell
 * @param {string} source what the cell contains now
 * @param {boolean} shown whether there is a view of the session
 */
export function badgeTexts(cell, source, shown) {
  const kept = Math.abs(cell.kept_bytes) > KEPT_BYTES ? `${cell.kept_bytes > 0 ? '+' : ''}${formatBytes(cell.kept_bytes)}` : '',
    stale = source === cell.source ? cell.stale : 'edited since it ran';
  return {
    text: [formatTime(cell.wall_ns), kept].filter(Boolean).join(' · '),
    stale,
    title: [
      `In[${cell.number}] took ${formatTime(cell.wall_ns)}.`,
      kept ? `The process holds ${formatBytes(Math.abs(cell.kept_bytes))} ${cell.kept_bytes > 0 ? 'more' : 'less'} since.` : '',
      stale ? `Its result is stale: ${stale}.` : '',
      shown ? 'Click to select it in the view.' : '%profile_notebook show opens the view.',
    ]
      .filter(Boolean)
      .join('\n'),
  };
}

/**
 * Make the extension of an editor out of CodeMirror's modules.
 * @param {any} viewModule `@codemirror/view`
 * @returns {(model: any) => unknown} of the model of a cell
 */
export function createBadges({ViewPlugin}) {
  /** @type {Map<symbol, EditorCells>} */
  const entries = new Map(),
    /** @type {Set<Badge>} */ badges = new Set(),
    style = document.createElement('style');
  style.textContent = LOOK;
  document.head.append(style);
  document.addEventListener('notebook-prof:cells', (event) => {
    /** @type {EditorCells} */
    const detail = /** @type {CustomEvent} */ (event).detail;
    if (detail?.protocol !== PROTOCOL) return;
    if (detail.cells) entries.set(detail.widget, detail);
    else entries.delete(detail.widget);
    for (const badge of badges) badge.later();
  });
  document.dispatchEvent(new CustomEvent('notebook-prof:gutter'));
  return (model) => ViewPlugin.define((/** @type {any} */ view) => new Badge(view, model, entries, badges));
}

/** The badge of an editor's cell. */
class Badge {
  due = 0;
  button = document.createElement('button');

  /**
   * @param {any} view
   * @param {any} model
   * @param {Map<symbol, EditorCells>} entries
   * @param {Set<Badge>} badges
   */
  constructor(view, model, entries, badges) {
    this.view = view;
    this.model = model;
    this.entries = entries;
    this.badges = badges;
    this.button.className = 'nbp-badge';
    this.button.type = 'button';
    this.button.addEventListener('click', () => this.click());
    badges.add(this);
    this.later();
  }

  /** @param {{docChanged: boolean, geometryChanged: boolean}} change */
  update({docChanged, geometryChanged}) {
    if (docChanged || (geometryChanged && !this.button.isConnected)) this.later();
  }

  destroy() {
    cancelAnimationFrame(this.due);
    this.button.remove();
    this.badges.delete(this);
  }

  later() {
    cancelAnimationFrame(this.due);
    this.due = requestAnimationFrame(() => this.draw());
  }

  /** What is told of this cell, the newest first. */
  told() {
    const {model, view} = this;
    return [...this.entries.values()].reverse().filter((entry) => entry.cells?.has(model.id) && isOfNotebook(entry, model, view.dom));
  }

  draw() {
    const {button, model, view} = this,
      told = this.told(),
      // the kernel knows more than what was displayed before
      cell = (told.find(({select}) => !select) ?? told[0])?.cells?.get(model.id),
      place = view.dom.closest('.jp-Cell-inputWrapper');
    if (!cell || !place) {
      button.remove();
      return;
    }
    const {text, stale, title} = badgeTexts(cell, view.state.doc.toString(), told.some(({select}) => select));
    button.textContent = text;
    if (stale) {
      const mark = document.createElement('span');
      mark.className = 'nbp-badge-stale';
      mark.textContent = ' · stale';
      button.append(mark);
    }
    button.title = title;
    button.setAttribute('aria-pressed', String(told.some(({chosen}) => chosen(model.id))));
    if (button.parentElement === place) return;
    place.style.position = 'relative';
    place.append(button);
  }

  click() {
    for (const {select} of this.told()) select?.(this.model.id);
  }
}
