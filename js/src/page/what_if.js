// What if what is selected took longer, or shorter: a slider, the new time of a step, and what it then consists of.
import {element, textElement} from '../shared/elements.js';
import {formatTime} from '../shared/units.js';

const MOST_CLASSES = 5;
const STEP = 0.05,
  MOST = 2,
  FIRST = 0.5;

/** The box with the slider. */
export class WhatIf {
  factor = FIRST;
  /** Number of the last question: an answer to an earlier one is not shown. */ question = 0;

  /**
   * @param {Context} ctx
   * @param {HTMLElement} root
   */
  constructor(ctx, root) {
    this.ctx = ctx;
    this.box = element('div', 'nbp-help nbp-what-if', root);
    this.box.hidden = true;
    this.box.setAttribute('role', 'group');
    this.box.setAttribute('aria-label', 'what if');
    const close = textElement('button', 'nbp-link nbp-why-close', '✕');
    close.title = 'Close (Esc)';
    close.setAttribute('aria-label', 'close');
    close.addEventListener('click', () => this.hide());
    const label = element('label', '', this.box);
    label.append('What if what is selected took ');
    this.slider = element('input', '', label);
    Object.assign(this.slider, {type: 'range', min: 0, max: MOST, step: STEP, value: FIRST});
    this.value = element('output', '', label);
    this.answer = element('div', '', this.box);
    this.answer.setAttribute('role', 'status');
    this.box.prepend(close);
    this.slider.addEventListener('input', () => {
      this.factor = this.slider.valueAsNumber;
      void this.ask();
    });
    this.slider.addEventListener('keydown', (event) => {
      if (event.key === 'Escape' || event.key === 'i') this.hide();
      if (event.key !== 'Tab') event.stopPropagation(); // arrows move the slider, not the focus of the timeline
    });
  }

  /** Show it, or hide it again. */
  toggle() {
    if (this.hide()) return;
    this.box.hidden = false;
    this.slider.focus();
    void this.ask();
  }

  hide() {
    const was = !this.box.hidden;
    this.box.hidden = true;
    if (was) this.ctx.takeFocus();
    return was;
  }

  /** The selection is another one. */
  changed() {
    if (!this.box.hidden) void this.ask();
  }

  /** Ask, and show what is answered. */
  async ask() {
    const {ctx, factor} = this,
      number = ++this.question;
    this.value.textContent = ` × ${factor.toFixed(2)}`;
    this.slider.setAttribute('aria-valuetext', `times ${factor.toFixed(2)}`);
    try {
      const answer = await ctx.asker.ask({t: 'what_if', factor});
      if (number === this.question && !this.box.hidden) this.show(answer);
    } catch (error) {
      ctx.trouble(/** @type {Error} */ (error));
    }
  }

  /** @param {WhatIfAnswer | NoWhatIf} answer */
  show(answer) {
    const {box} = this,
      parts = [textElement('p', 'nbp-why-first', answer.text)];
    if (answer.found) {
      if (answer.classes.length) parts.push(tableOf(answer.classes));
      const python = textElement('p', 'nbp-note', 'in Python: ');
      python.append(textElement('code', '', answer.call));
      parts.push(python);
    }
    this.answer.replaceChildren(...parts);
    box.classList.toggle('nbp-what-if-refused', answer.found && answer.refused);
    this.ctx.count('what_if');
  }
}

/**
 * What the critical path of a step consists of, before and after.
 * @param {[string, number, number][]} classes
 */
function tableOf(classes) {
  const table = textElement('table', 'nbp-what-if-classes', ''),
    longest = Math.max(1, ...classes.flatMap(([, before, after]) => [before, after])),
    head = element('tr', '', table);
  for (const title of ['critical path of a step', 'before', 'after', '']) head.append(textElement('th', '', title));
  for (const [name, before, after] of classes.slice(0, MOST_CLASSES)) {
    const row = element('tr', '', table),
      bars = textElement('td', '', '');
    for (const [time, kind] of /** @type {[number, string][]} */ ([
      [before, ''],
      [after, 'nbp-after'],
    ]))
      element('i', kind, bars).style.width = `${(100 * time) / longest}%`;
    row.append(textElement('td', '', name), textElement('td', '', formatTime(before)), textElement('td', '', formatTime(after)), bars);
  }
  return table;
}
