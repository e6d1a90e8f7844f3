// Keys, and how they are kept from the notebook ("D D" would delete the cell).
// Lumino walks up from event.target and takes the first element with either the suppress attribute or a matching
// selector; command mode selectors match ":focus". So the attribute must sit on the focused element itself.
// It also replays the prefix of a chord as a synthetic keydown: only trusted events count.
const PAN_STEP = 0.1,
  ZOOM_STEP = 0.8;
const HELP = [
  ['W / S', 'zoom in / out at the pointer'],
  ['A / D', 'pan left / right'],
  ['wheel', 'zoom (with Ctrl, or after a click in the timeline); Shift: pan'],
  ['drag', 'pan'],
  ['Shift + drag', 'select a window of time'],
  ['click', 'inspect a slice'],
  ['double-click', 'select all slices of that name'],
  ['F', 'fit what is selected'],
  ['M', 'measure the selected window'],
  ['0', 'show the whole recording'],
  ['. / ,', 'next / previous slice of the same name'],
  ['← → ↑ ↓', 'from the slice in focus to its neighbours, outwards and inwards'],
  ['G', 'follow the arrow of the slice in focus: launch to kernel, forward to backward'],
  ['Y', 'why is it idle, why does it wait or begin here: of the track under the pointer, or of the slice in focus'],
  ['P', 'show the critical path: what decided how long the steps took, with arrows where it goes on elsewhere'],
  ['I', 'what if: how long a step would take if what is selected took less time, or more'],
  ['/', 'find slices by name; Enter and Shift+Enter walk them'],
  ['T', 'filter the table'],
  ['Tab', 'to the account (← → Enter), tracks (↑ ↓; Alt+↑ ↓ moves one, P pins it to the top, H hides it, O shows all frames), step bars (← → Enter), tabs and tables (↑ ↓ Enter)'],
  ['C', 'copy the number under the pointer, or in focus, as pandas: code that gives exactly it'],
  ['Ctrl + Z / Ctrl + Shift + Z', 'undo / redo a selection; p.selection.undo() in Python'],
  ['Esc', 'clear the selection'],
  ['?', 'this list'],
];

/**
 * Whether keys undo (-1) or redo (1) a selection.
 * @param {KeyboardEvent} event
 * @param {string} key
 */
const stepOf = ({ctrlKey, metaKey, shiftKey}, key) => (!(ctrlKey || metaKey) ? 0 : key === 'y' || (key === 'z' && shiftKey) ? 1 : key === 'z' ? -1 : 0);

/**
 * @param {Context} ctx
 * @param {HTMLElement} root
 */
export function attachKeyboard(ctx, root) {
  const held = new Set();
  let frame = 0,
    previous = 0;
  /** @param {number} now */
  const tick = (now) => {
    const seconds = Math.min(50, now - (previous || now)) / 1000,
      {range} = ctx,
      width = range.end - range.start;
    previous = now;
    const pan = (held.has('d') ? 1 : 0) - (held.has('a') ? 1 : 0),
      zoom = (held.has('s') ? 1 : 0) - (held.has('w') ? 1 : 0);
    if (pan) ctx.setView(range.start + pan * width * seconds, range.end + pan * width * seconds);
    if (zoom) ctx.zoom(4 ** (zoom * seconds), ctx.pointerTime() ?? (range.start + range.end) / 2);
    ctx.host.frames.flush(); // in this frame, not in the next
    frame = held.size ? requestAnimationFrame(tick) : (previous = 0);
  };
  // a key that is only tapped moves by a step
  const step = (/** @type {string} */ key) => {
    const {range} = ctx,
      by = {a: -PAN_STEP, d: PAN_STEP}[key],
      width = range.end - range.start;
    if (by) ctx.setView(range.start + by * width, range.end + by * width);
    else ctx.zoom(key === 'w' ? ZOOM_STEP : 1 / ZOOM_STEP, ctx.pointerTime() ?? (range.start + range.end) / 2);
  };
  /** @type {Record<string, () => void>} */
  const press = {
    f: () => ctx.fitSelection(),
    0: () => ctx.setView(...ctx.meta.span),
    '.': () => ctx.walk(1),
    ',': () => ctx.walk(-1),
    m: () => ctx.measure(),
    g: () => ctx.follow(),
    y: () => ctx.why(),
    p: () => ctx.path(),
    i: () => ctx.whatIf(),
    t: () => ctx.focusFilter(),
    c: () => void ctx.copyAsPandas(),
    '/': () => ctx.find(),
    ArrowRight: () => ctx.neighbour('next'),
    ArrowLeft: () => ctx.neighbour('previous'),
    ArrowUp: () => ctx.neighbour('parent'),
    ArrowDown: () => ctx.neighbour('child'),
    '?': () => ctx.help(),
    Escape: () => ctx.escape(),
  };
  /** @param {KeyboardEvent} event */
  const down = (event) => {
    if (!event.isTrusted) return;
    const target = /** @type {HTMLElement | undefined} */ (event.composedPath()[0]),
      key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (key.startsWith('Arrow') && target !== root) return; // lists, bars and sliders keep their own
    const inText = /^(INPUT|TEXTAREA|SELECT)$/.test(target?.tagName ?? '');
    if (inText) {
      if (key === 'Escape') {
        ctx.clearFind();
        ctx.takeFocus();
      }
      event.stopPropagation();
      return;
    }
    const by = stepOf(event, key);
    if (by) {
      ctx.goBack(by);
      event.preventDefault();
      event.stopPropagation();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (key === ' ' && target?.closest('button, summary, a')) return; // it is pressed by it
    if ('wasd'.includes(key) && key.length === 1) {
      if (ctx.inTimeline()) {
        if (!held.has(key)) step(key);
        held.add(key);
        if (!frame) frame = requestAnimationFrame(tick);
      }
    } else if (press[key]) press[key]();
    else if (key.length > 1) return; // Tab, arrows, Enter … stay the browser's
    event.preventDefault();
    event.stopPropagation();
  };
  /** @param {KeyboardEvent} event */
  const release = (event) => held.delete(event.key.toLowerCase());
  const drop = () => held.clear();
  /** @param {FocusEvent} event */
  const guard = (event) => {
    if (event.target instanceof Element) event.target.setAttribute('data-lm-suppress-shortcuts', 'true');
  };
  root.setAttribute('data-lm-suppress-shortcuts', 'true');
  root.addEventListener('focusin', guard);
  root.addEventListener('focusout', drop);
  root.addEventListener('keydown', down);
  window.addEventListener('keyup', release, true);
  window.addEventListener('blur', drop);
  return () => {
    cancelAnimationFrame(frame);
    held.clear();
    window.removeEventListener('keyup', release, true);
    window.removeEventListener('blur', drop);
  };
}

/**
 * @param {HTMLElement} root
 * @param {string[][]} help keys, and what they do
 */
export function helpPanel(root, help = HELP) {
  const box = document.createElement('div');
  box.className = 'nbp-help';
  box.hidden = true;
  const list = document.createElement('dl');
  for (const [key, text] of help) {
    const term = document.createElement('dt'),
      meaning = document.createElement('dd');
    term.textContent = key;
    meaning.textContent = text;
    list.append(term, meaning);
  }
  box.append(list);
  root.append(box);
  return {
    toggle: () => {
      box.hidden = !box.hidden;
    },
    hide: () => {
      const was = !box.hidden;
      box.hidden = true;
      return was;
    },
  };
}
