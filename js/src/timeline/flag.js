// The instant at which an exception ended the cell, as a flag on the timeline: what, where, and the memory then.
import {frameOf} from '../figures/document.js';
import {element} from '../shared/elements.js';
import {formatBytes, formatInstant} from '../shared/units.js';

/** The flag; nothing where the cell ended by itself. */
export class Flag {
  /** @type {HTMLButtonElement | null} */ pole = null;

  /**
   * @param {Context} ctx
   * @param {import('./timeline.js').Timeline} timeline
   * @param {import('../charts/memory.js').Memory} memory
   */
  constructor(ctx, timeline, memory) {
    const {raised} = ctx.meta;
    this.ctx = ctx;
    this.timeline = timeline;
    this.memory = memory;
    this.raised = raised;
    if (!raised) return;
    const pole = (this.pole = element('button', 'nbp-flag', timeline.element));
    pole.textContent = `⚑ ${raised.error}, line ${raised.at}`;
    pole.addEventListener('click', () => ctx.store.set({line: [`cell:${raised.line}`]}, 'flag'));
    for (const type of ['pointerdown', 'pointermove', 'dblclick']) pole.addEventListener(type, (event) => event.stopPropagation());
    pole.addEventListener('pointerenter', () => this.say());
    pole.addEventListener('focus', () => this.say());
    this.draw();
  }

  say() {
    const {pole, raised, memory, ctx} = this;
    if (!pole || !raised) return;
    const bytes = memory.valueAt(raised.ts),
      then = bytes === null ? '' : `; memory then ${formatBytes(bytes)}`;
    ctx.tooltip.hide();
    pole.title = `${raised.error} in line ${raised.at} ended the cell at ${formatInstant(raised.ts, raised.ts / 1000)}${then}. Click: select the statement`;
  }

  /** Stand where the instant is drawn, or nowhere. */
  draw() {
    const {pole, raised, timeline, ctx} = this;
    if (!pole || !raised) return;
    const {start, end} = ctx.range,
      share = (raised.ts - start) / (end - start),
      frame = frameOf(timeline.view, timeline.element),
      left = frame.left - timeline.element.getBoundingClientRect().left + share * frame.width;
    pole.hidden = share < 0 || share > 1;
    pole.classList.toggle('nbp-flag-left', share > 0.5);
    pole.style.left = `${left}px`;
  }

  snapshot() {
    return this.pole && !this.pole.hidden ? {text: this.pole.textContent, left: this.pole.style.left} : null;
  }
}
