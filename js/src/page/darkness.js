// Dark pages that are not Jupyter's: where no variables of JupyterLab say what the ground is, it is measured.
import {luminance} from '../timeline/colours.js';

const DARK = 0.4; // luminance below which a ground is dark, and above which a text is light
const OPAQUE = 0.5;
const AFTER_MS = [60, 600]; // once the attribute has worked, and once a transition is over

/** @typedef {{rgb: number, alpha: number}} Colour */

/**
 * Whether a page is dark: by the first ground that is not see-through, else by its text.
 * @param {Colour[]} grounds from the inside out
 * @param {Colour} text
 */
export function isDark(grounds, text) {
  const ground = grounds.find(({alpha}) => alpha >= OPAQUE);
  return ground ? luminance(ground.rgb) < DARK : luminance(text.rgb) > DARK;
}

/** @type {CanvasRenderingContext2D | null | undefined} */
let dot;

/**
 * A computed colour in numbers; a canvas knows every notation.
 * @param {string} css
 * @returns {Colour}
 */
export function coloured(css) {
  dot ??= Object.assign(document.createElement('canvas'), {width: 1, height: 1}).getContext('2d', {willReadFrequently: true});
  if (!dot) return {rgb: 0, alpha: 0};
  dot.clearRect(0, 0, 1, 1);
  dot.fillStyle = css;
  dot.fillRect(0, 0, 1, 1);
  const [r, g, b, alpha] = dot.getImageData(0, 0, 1, 1).data;
  return {rgb: (r << 16) | (g << 8) | b, alpha: alpha / 255};
}

/**
 * What an element is drawn in, through slots and shadow roots.
 * @param {Element} el
 * @returns {Element | null}
 */
function outside(el) {
  const root = el.getRootNode();
  return el.assignedSlot ?? el.parentElement ?? (root instanceof ShadowRoot ? root.host : null);
}

/**
 * Mark a dashboard as dark where its page is and does not say so in JupyterLab's variables; whether that has changed.
 * @param {Element} el the dashboard, or something in it
 */
export function markDark(el) {
  const host = el.closest('.nbp-host') ?? el;
  let outermost = host; // a page of ranks has dashboards in it
  while (outermost.parentElement?.closest('.nbp-host')) outermost = /** @type {Element} */ (outermost.parentElement.closest('.nbp-host'));
  const around = outside(outermost);
  if (!around) return false;
  const style = getComputedStyle(around),
    grounds = [];
  if (!style.getPropertyValue('--jp-layout-color0'))
    for (let each = /** @type {Element | null} */ (around); each; each = outside(each)) grounds.push(coloured(getComputedStyle(each).backgroundColor));
  const dark = grounds.length > 0 && isDark(grounds, coloured(style.color)),
    changed = dark !== host.classList.contains('nbp-dark');
  host.classList.toggle('nbp-dark', dark);
  return changed;
}

/**
 * Calls back when the page around a dashboard becomes dark, or light again.
 * @param {Element} el
 * @param {() => void} changed
 */
export function watchDarkness(el, changed) {
  /** @type {ReturnType<typeof setTimeout>[]} */
  let timers = [];
  const stop = () => timers.forEach(clearTimeout);
  const observer = new MutationObserver(() => {
    stop();
    timers = AFTER_MS.map((delay) =>
      setTimeout(() => {
        if (markDark(el)) changed();
      }, delay),
    );
  });
  for (const page of [document.documentElement, document.body])
    observer.observe(page, {attributes: true, attributeFilter: ['class', 'style', 'data-theme', 'data-bs-theme', 'data-color-mode']});
  return () => {
    stop();
    observer.disconnect();
  };
}
