// What of a tab is chosen in its head: one of some views, or whether something is on. The page remembers it.
import {recall, remember} from '../page/remembered.js';
import {element, textElement} from '../shared/elements.js';
import {Roving} from '../shared/roving.js';

/** @typedef {TabSettings['choices'][number]} Choice */

/** The choices of the open tab. */
export class ChoiceBar {
  /** @type {Map<string, string>} values by key, of all tabs */ chosen = new Map();
  /** @type {Choice[]} */ choices = [];

  /**
   * @param {HTMLElement} box
   * @param {() => void} changed
   */
  constructor(box, changed) {
    this.box = box;
    this.changed = changed;
  }

  /** @param {Choice[]} choices */
  show(choices) {
    this.choices = choices;
    this.box.replaceChildren();
    for (const choice of choices) {
      if (choice[2].length) this.addViews(choice);
      else this.addSwitch(choice);
    }
  }

  /** @param {Choice} choice */
  addViews([key, label, options]) {
    const group = element('span', 'nbp-views', this.box);
    group.setAttribute('role', 'group');
    group.setAttribute('aria-label', label);
    const buttons = options.map(([value, text]) => {
      const button = textElement('button', '', text);
      button.dataset.value = value;
      button.addEventListener('click', () => {
        this.set(key, value);
        write();
      });
      return button;
    });
    const write = () => buttons.forEach((button) => button.setAttribute('aria-pressed', String(button.dataset.value === this.values()[key])));
    group.append(...buttons);
    write();
    new Roving(group, 'button');
  }

  /** @param {Choice} choice */
  addSwitch([key, label]) {
    const line = element('label', 'nbp-switch', this.box),
      box = element('input', '', line);
    box.type = 'checkbox';
    box.checked = this.values()[key] === 'on';
    box.addEventListener('change', () => this.set(key, box.checked ? 'on' : ''));
    line.append(label);
  }

  /**
   * @param {string} key
   * @param {string} value
   */
  set(key, value) {
    if (this.values()[key] === value) return;
    this.chosen.set(key, value);
    remember(`choice ${key}`, value);
    this.changed();
  }

  /** Values by key, of the open tab. */
  values() {
    return Object.fromEntries(
      this.choices.map(([key, , options]) => {
        const values = options.length ? options.map(([value]) => value) : ['', 'on'],
          value = this.chosen.get(key) ?? recall(`choice ${key}`) ?? '';
        return [key, values.includes(value) ? value : values[0]];
      }),
    );
  }
}
