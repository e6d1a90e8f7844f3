// Buttons above the timelines: which side is shown, which steps are aligned, and how near.
import {element, textElement} from '../shared/elements.js';
import {Roving} from '../shared/roving.js';
import {formatTime} from '../shared/units.js';
import {SIDES} from './side_store.js';

/**
 * @param {import('./page.js').ComparisonPage} page
 * @param {HTMLElement} box
 */
export function comparisonBar(page, box) {
  const {settings, axis} = page,
    views = element('div', 'nbp-buttons', box),
    /** @type {Record<string, HTMLButtonElement>} */
    buttons = {};
  for (const [view, text, title] of /** @type {const} */ ([
    ['both', 'both', 'both timelines above one another (B)'],
    ['a', settings.names[0], `${settings.names[0]} alone (F flips)`],
    ['b', settings.names[1], `${settings.names[1]} alone (F flips)`],
  ])) {
    const button = textElement('button', '', text);
    button.title = title;
    button.setAttribute('aria-pressed', String(view === 'both'));
    button.addEventListener('click', () => page.flip(view));
    views.append(button);
    buttons[view] = button;
  }
  const modes = element('div', 'nbp-buttons', box);
  for (const [mode, text, title] of [['pan', '✥ pan', 'drag to pan (Shift+drag selects a time)'], ['select', '▭ select time', 'drag to select a window of time on both sides']]) {
    const button = textElement('button', '', text);
    button.title = title;
    button.setAttribute('aria-pressed', String(mode === page.mode));
    button.addEventListener('click', () => {
      page.mode = mode;
      for (const one of modes.children) one.setAttribute('aria-pressed', String(one === button));
      for (const timeline of page.boxes.timelines) timeline.classList.toggle('nbp-select-mode', mode === 'select');
    });
    modes.append(button);
  }
  const zooms = element('div', 'nbp-buttons', box),
    middle = () => (axis.start + axis.end) / 2;
  /** @type {[string, string, () => void][]} */
  const acts = [
    ['+', 'zoom in (W)', () => axis.zoom(0.5, middle())],
    ['−', 'zoom out (S)', () => axis.zoom(2, middle())],
    ['step', 'show the aligned steps', () => page.showAligned()],
    ['all', 'show both recordings as a whole (0)', () => {
      const [a, b] = axis.whole();
      axis.show(a, b);
    }],
    ['?', 'keys and gestures', () => page.help.toggle()],
  ];
  for (const [text, title, act] of acts) {
    const button = textElement('button', '', text);
    button.title = title;
    button.addEventListener('click', act);
    zooms.append(button);
  }
  const selects = SIDES.map((side, i) => alignedSelect(page, box, side, i)),
    hint = element('span', 'nbp-hint', box);
  hint.setAttribute('aria-live', 'polite');
  box.setAttribute('role', 'toolbar');
  box.setAttribute('aria-label', 'timelines: side, mode, zoom, aligned steps');
  new Roving(box, 'button, select');
  /** @param {number[]} steps */
  function showSteps(steps) {
    selects.forEach((select, i) => (select.value = String(steps[i])));
  }
  showSteps(page.aligned());
  return {
    hint,
    showSteps,
    /** @param {string} view */
    showView(view) {
      for (const [name, button] of Object.entries(buttons)) button.setAttribute('aria-pressed', String(name === view));
    },
  };
}

/**
 * Which step of a side is aligned, and of several recordings in which.
 * @param {import('./page.js').ComparisonPage} page
 * @param {HTMLElement} box
 * @param {SideName} side
 * @param {number} i
 */
function alignedSelect(page, box, side, i) {
  const name = page.settings.names[i],
    both = element('span', 'nbp-colours', box),
    select = document.createElement('select');
  both.append(`${name}: `);
  if (page.source.shown && page.settings.runs[side].length > 1) runSelect(page, both, side, i);
  both.append(select);
  select.dataset.control = `step-${side}`;
  select.setAttribute('aria-label', `aligned step of ${name}`);
  for (const [step, , dur] of page.settings.steps[side]) select.add(new Option(step < 0 ? `whole · ${formatTime(dur)}` : `step ${step} · ${formatTime(dur)}`, String(step)));
  select.title = 'the step whose start is laid on that of the other side';
  select.addEventListener('change', () => {
    const steps = page.aligned();
    steps[i] = Number(select.value);
    page.source.align(steps[0], steps[1]);
  });
  return select;
}

/**
 * Which recording of a side is shown: that step of it is aligned which is nearest to its median.
 * @param {import('./page.js').ComparisonPage} page
 * @param {HTMLElement} box
 * @param {SideName} side
 * @param {number} i
 */
function runSelect(page, box, side, i) {
  const {settings, source} = page,
    select = document.createElement('select'),
    runs = settings.runs[side];
  select.dataset.control = `run-${side}`;
  select.setAttribute('aria-label', `recording of ${settings.names[i]}`);
  select.title = 'the recording whose timeline is shown';
  for (const [run, , dur] of runs) select.add(new Option(`run ${run} · ${formatTime(dur)}`, String(run)));
  select.value = String(settings.shown[i]);
  select.addEventListener('change', () => {
    const run = Number(select.value),
      step = runs.find(([number]) => number === run)?.[1] ?? -1,
      /** @type {AlignedStep[]} */
      steps = page.aligned();
    steps[i] = [run, step];
    source.align(steps[0], steps[1]);
  });
  box.append(select, ' ');
}
