// M: what the selected window measures, beside the timeline until M or Esc.
import {formatCount, formatInstant, formatTime, significant} from '../shared/units.js';
import {element} from '../shared/elements.js';

/**
 * @param {Context} ctx
 * @param {HTMLElement} root
 */
export function createRuler(ctx, root) {
  const box = element('div', 'nbp-ruler', root);
  box.hidden = true;
  box.setAttribute('role', 'status');
  /** @type {Pick<TableAnswer, 'count' | 'self_ns'> | null} */
  let totals = null;
  /**
   * @param {string} label
   * @param {string} text
   */
  function line(label, text) {
    const row = element('div', '', box),
      key = element('em', '', row);
    key.textContent = label;
    row.append(` ${text}`);
  }
  function draw() {
    if (box.hidden) return;
    box.replaceChildren();
    const chosen = ctx.store.get().window,
      [a, b] = chosen ?? [ctx.range.start, ctx.range.end],
      ns = b - a;
    line(chosen ? 'selected' : 'in view', formatTime(ns, 5));
    line('from', formatInstant(a, ns / 1000, Math.max(Math.abs(b), 1)));
    line('to', formatInstant(b, ns / 1000, Math.max(Math.abs(b), 1)));
    line('rate', `${significant(1e9 / ns, 4)} per second`);
    const {step, ts, dur} = ctx.meta.stepColumns;
    let steps = 0;
    for (let i = 0; i < step.length; i++) steps += Math.max(0, Math.min(b, ts[i] + dur[i]) - Math.max(a, ts[i])) / Math.max(dur[i], 1);
    if (step.length) line('steps', steps.toFixed(2));
    if (chosen && totals) line('slices', `${formatCount(totals.count)}, ${formatTime(totals.self_ns)} self time`);
  }
  return {
    toggle: () => {
      box.hidden = !box.hidden;
      draw();
    },
    hide: () => {
      const was = !box.hidden;
      box.hidden = true;
      return was;
    },
    draw,
    /** @param {Pick<TableAnswer, 'count' | 'self_ns'>} answer */
    totals: (answer) => {
      totals = answer;
      draw();
    },
  };
}
