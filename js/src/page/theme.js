// Colours of canvas parts from the page's CSS variables; DOM parts take the same variables in dashboard.css.
import {coloured, markDark, watchDarkness} from './darkness.js';

const COLOURS = ['background', 'text', 'muted', 'grid', 'dim', 'accent'];

/**
 * @param {Element} el
 * @returns {Theme}
 */
export function readTheme(el) {
  markDark(el);
  // One probe per colour, all inserted before the first is read. During a CSS transition, a probe whose colour is set
  // again still returns the first one. This also happened in JupyterLab, after a reload on a busy machine.
  const probes = document.createElement('span');
  for (const name of COLOURS) {
    const probe = document.createElement('span');
    probe.style.setProperty('forced-color-adjust', 'none'); // where the system chooses the colours, all would be that of texts
    probe.style.color = `var(--nbp-${name})`;
    probes.append(probe);
  }
  el.append(probes);
  const theme = Object.fromEntries(COLOURS.map((name, i) => [name, realColour(getComputedStyle(probes.children[i]).color)]));
  probes.remove();
  return /** @type {Theme} */ (theme);
}

/**
 * Convert what a custom property may hold, such as oklch() or color-mix(), to a notation that Bokeh can read.
 * @param {string} computed
 */
function realColour(computed) {
  if (computed.startsWith('rgb')) return computed;
  const {rgb, alpha} = coloured(computed);
  return `rgba(${rgb >> 16}, ${(rgb >> 8) & 255}, ${rgb & 255}, ${alpha})`;
}

/**
 * @param {BokehObject} doc
 * @param {Theme} theme
 */
export function paintFigures(doc, theme) {
  for (const model of doc._all_models.values()) {
    const name = model.name ?? '';
    if (/Axis$/.test(model.type))
      model.setv({
        axis_line_color: theme.muted,
        major_tick_line_color: theme.muted,
        major_label_text_color: theme.muted,
        axis_label_text_color: theme.muted,
      });
    else if (model.type === 'Grid') model.setv({grid_line_color: theme.grid});
    else if (model.type === 'Label' || model.type === 'Title') model.setv({text_color: theme.text});
    else if (/^themed|_text$/.test(name) && model.glyph) model.glyph.setv({text_color: theme.text});
    else if (/veil|unseen/.test(name)) model.setv({fill_color: theme.background});
    else if (model.type === 'BoxAnnotation')
      model.setv({fill_color: theme.accent, line_color: name === 'seen' ? theme.muted : theme.accent});
    else if (name === 'rules_glyph') model.glyph.setv({line_color: theme.grid});
    else if (name === 'focus_glyph' || name === 'chosen_glyph') model.glyph.setv({line_color: theme.text});
  }
}

/**
 * Calls back when JupyterLab (or the system, or another page, outside it) changes its theme.
 * @param {Element} el
 * @param {() => void} changed
 */
export function watchTheme(el, changed) {
  const later = () => setTimeout(changed, 60); // JupyterLab swaps the stylesheet after the attribute
  const observer = new MutationObserver(later);
  observer.observe(document.body, {attributes: true, attributeFilter: ['data-jp-theme-light', 'data-jp-theme-name']});
  const media = ['(prefers-color-scheme: dark)', '(forced-colors: active)'].map((query) => window.matchMedia(query));
  for (const query of media) query.addEventListener('change', later);
  const unwatch = watchDarkness(el, changed);
  return () => {
    unwatch();
    observer.disconnect();
    for (const query of media) query.removeEventListener('change', later);
  };
}
