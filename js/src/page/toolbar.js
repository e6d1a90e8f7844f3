// Buttons above the timeline: what a drag does, zoom, colours, and a line for hints.
import {createFinder} from './finder.js';
import {element} from '../shared/elements.js';
import {Roving} from '../shared/roving.js';
import {Legend} from '../timeline/legend.js';

/**
 * @param {Context} ctx
 * @param {HTMLElement} box
 * @param {(mode: string) => void} setMode
 * @param {() => void} recolour
 */
export function toolbar(ctx, box, setMode, recolour) {
  const group = element('div', 'nbp-buttons', box);
  /** @type {Record<string, HTMLButtonElement>} */
  const buttons = {};
  for (const [mode, text, title] of [
    ['pan', '✥ pan', 'drag to pan (Shift+drag selects a time)'],
    ['select', '▭ select time', 'drag to select a window of time'],
  ]) {
    const button = element('button', '', group);
    button.textContent = text;
    button.title = title;
    button.dataset.mode = mode;
    button.setAttribute('aria-pressed', String(mode === 'pan'));
    button.addEventListener('click', () => {
      setMode(mode);
      for (const [name, b] of Object.entries(buttons)) b.setAttribute('aria-pressed', String(name === mode));
    });
    buttons[mode] = button;
  }
  const zooms = element('div', 'nbp-buttons', box),
    middle = () => (ctx.range.start + ctx.range.end) / 2;
  /** @type {[string, string, () => void][]} */
  const choices = [
    ['+', 'zoom in (W)', () => ctx.zoom(0.5, middle())],
    ['−', 'zoom out (S)', () => ctx.zoom(2, middle())],
    ['fit selection', 'bring what is selected into view (F)', () => ctx.fitSelection()],
    ['whole', 'show the whole recording (0)', () => ctx.setView(...ctx.meta.span)],
    ['?', 'keys and gestures', () => ctx.help()],
  ];
  choices.forEach(([text, title, act]) => pushButton(zooms, text, title, act));
  const path = pushButton(element('div', 'nbp-buttons', box), 'critical path', 'show the critical path: what decided how long it took (P)', () => ctx.path());
  path.setAttribute('aria-pressed', 'false');
  const colours = element('label', 'nbp-colours', box);
  colours.append('colour by ');
  const select = element('select', '', colours);
  for (const tint of ctx.meta.tints) select.add(new Option(tint, tint));
  select.addEventListener('change', () => {
    ctx.tint = /** @type {Tint} */ (select.value);
    legend.show(ctx.tint);
    recolour();
  });
  const finder = createFinder(ctx, box);
  const hint = element('span', 'nbp-hint', box);
  hint.setAttribute('aria-live', 'polite');
  const legend = new Legend(ctx, box);
  box.setAttribute('role', 'toolbar');
  box.setAttribute('aria-label', 'timeline: mode, zoom, colours, search');
  new Roving(box, 'button, select, input');
  return {hint, finder, legend, path};
}

/**
 * @param {HTMLElement} box
 * @param {string} text
 * @param {string} title
 * @param {() => void} act
 */
function pushButton(box, text, title, act) {
  const button = element('button', '', box);
  button.textContent = text;
  button.title = title;
  button.addEventListener('click', act);
  return button;
}
