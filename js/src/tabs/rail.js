// The rail of tabs beside the step phases. The operator table is one of them; every other is asked for when it is
// looked at, and again when the selection changes while it is.
import {element, targetOf} from '../shared/elements.js';
import {filters, isPicked} from '../shared/store.js';
import {Tab} from './tab.js';

const OPERATORS = 'operators',
  MORE = '';

/** The tabs, and which of them is open. */
export class Rail {
  serial = `nbp-${Math.random().toString(36).slice(2, 8)}`;
  /** @type {Map<string, HTMLButtonElement>} */ buttons = new Map();
  more = document.createElement('button');
  menu = document.createElement('select');
  line = '';
  /** @type {Set<Dimension>} dimensions that the open tab has set itself: they do not filter it */ own = new Set();

  /**
   * @param {Context} ctx
   * @param {Pick<PageParts, 'row' | 'rail' | 'table' | 'panel'>} parts
   */
  constructor(ctx, {row, rail, table, panel}) {
    const {settings} = ctx;
    this.ctx = ctx;
    this.table = table;
    this.panel = panel;
    this.known = new Map((settings.tabs ?? []).map((tab) => [tab.name, tab]));
    this.open = this.known.has(settings.open) ? settings.open : OPERATORS;
    this.addButtons(rail);
    for (const [el, id] of /** @type {[HTMLElement, string][]} */ ([
      [table, 'table'],
      [panel, 'panel'],
    ])) {
      el.id = `${this.serial}-${id}-view`;
      el.setAttribute('role', 'tabpanel');
    }
    const head = element('div', 'nbp-panel-head', panel);
    this.tab = new Tab(ctx, head, element('div', 'nbp-tab-body', panel), (patch) => this.pick(patch));
    head.append(widenButton(row));
    rail.addEventListener('keydown', (event) => this.keyed(event));
    this.showOpen();
  }

  /** @param {HTMLElement} rail */
  addButtons(rail) {
    const list = tabList(rail, 'views of the profile');
    for (const [name, tab] of this.known) {
      const button = document.createElement('button');
      button.id = `${this.serial}-${name}`;
      button.dataset.tab = name;
      button.setAttribute('role', 'tab');
      button.textContent = tab.title;
      button.addEventListener('click', () => this.show(name));
      list.append(button);
      this.buttons.set(name, button);
    }
    this.addMore(rail);
    this.addMenu(rail);
  }

  /**
   * In a narrow page the tabs are a menu.
   * @param {HTMLElement} rail
   */
  addMenu(rail) {
    const {menu} = this,
      group = document.createElement('optgroup');
    menu.className = 'nbp-tabs-menu';
    menu.setAttribute('aria-label', 'views of the profile');
    group.label = 'not recorded';
    for (const [name, tab] of this.known) (tab.missing ? group : menu).append(new Option(tab.title, name));
    if (group.children.length) menu.append(group);
    menu.addEventListener('change', () => this.show(menu.value));
    rail.before(menu);
  }

  /**
   * Tabs with nothing to show fold under one entry.
   * @param {HTMLElement} rail
   */
  addMore(rail) {
    const missing = [...this.known.values()].filter((tab) => tab.missing),
      {more} = this;
    rail.classList.add('nbp-rail-folded');
    if (!missing.length) return;
    more.className = 'nbp-more';
    more.title = missing.map((tab) => `${tab.title}: ${tab.missing}`).join('\n');
    more.addEventListener('click', () => this.unfold(rail.classList.contains('nbp-rail-folded')));
    rail.append(more);
    tabList(rail, 'not recorded').append(...missing.flatMap((tab) => this.buttons.get(tab.name) ?? []));
    this.unfold(Boolean(this.known.get(this.open)?.missing));
  }

  /** @param {boolean} open */
  unfold(open) {
    const {more} = this,
      count = [...this.known.values()].filter((tab) => tab.missing).length;
    more.parentElement?.classList.toggle('nbp-rail-folded', !open);
    more.textContent = `${open ? '▾' : '▸'} not recorded (${count})`;
    more.setAttribute('aria-expanded', String(open));
  }

  /** @param {KeyboardEvent} event */
  keyed(event) {
    const names = this.reachable(),
      at = names.indexOf(targetOf(event).dataset?.tab ?? MORE);
    /** @type {Record<string, number>} */
    const steps = {ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, Home: -names.length, End: names.length},
      by = steps[event.key];
    if (at < 0 || by === undefined) return;
    const to = Math.abs(by) > 1 ? Math.max(0, Math.min(names.length - 1, at + by)) : (at + by + names.length) % names.length;
    this.reach(names[to]);
    (this.buttons.get(names[to]) ?? this.more).focus();
    event.preventDefault();
    event.stopPropagation();
  }

  /** Tabs that can be seen, and between them the button that opens the others. */
  reachable() {
    const shown = [...this.buttons].filter(([, button]) => button.checkVisibility()).map(([name]) => name),
      isMissing = (/** @type {string} */ name) => Boolean(this.known.get(name)?.missing);
    return [...shown.filter((name) => !isMissing(name)), ...(this.more.isConnected ? [MORE] : []), ...shown.filter(isMissing)];
  }

  /** @param {string} name */
  reach(name) {
    this.more.tabIndex = name === MORE ? 0 : -1;
    for (const [other, button] of this.buttons) button.tabIndex = other === name ? 0 : -1;
  }

  mark() {
    for (const [name, button] of this.buttons) {
      const missing = this.known.get(name)?.missing;
      button.setAttribute('aria-selected', String(name === this.open));
      button.setAttribute('aria-controls', name === OPERATORS ? this.table.id : this.panel.id);
      button.classList.toggle('nbp-missing', Boolean(missing));
      button.title = missing ?? '';
    }
    this.menu.value = this.open;
    this.reach(this.open);
    this.table.setAttribute('aria-labelledby', `${this.serial}-${OPERATORS}`);
    this.panel.setAttribute('aria-labelledby', `${this.serial}-${this.open}`);
  }

  /** @param {string} name */
  show(name) {
    if (!this.known.has(name) || name === this.open) return;
    this.open = name;
    this.own.clear();
    this.showOpen();
  }

  showOpen() {
    const tab = this.known.get(this.open);
    this.mark();
    this.table.hidden = this.open !== OPERATORS;
    this.panel.hidden = this.open === OPERATORS;
    this.tab.clear();
    if (this.open !== OPERATORS && tab) this.tab.show(tab, this.own);
  }

  /**
   * A click on a row, card or mark; the same again takes it away.
   * @param {SelectionPatch | null} patch
   */
  pick(patch) {
    if (!patch) return;
    const {store, reveal} = this.ctx,
      taken = isPicked(store.get(), patch),
      keys = /** @type {Dimension[]} */ (Object.keys(patch));
    if (!this.tab.followsOwn) for (const key of keys) this.own.add(key);
    store.set(taken ? Object.fromEntries(keys.map((key) => [key, null])) : patch, `tab ${this.open}`);
    if (!taken && patch.focus != null) reveal(patch.focus);
  }

  /**
   * Follow a change of the selection.
   * @param {SelectionPatch} patch
   * @param {string} origin
   */
  changed(patch, origin) {
    if (this.open === OPERATORS) return;
    this.tab.redraw();
    if (origin === `tab ${this.open}` && !this.tab.followsOwn) return;
    const keys = /** @type {Dimension[]} */ (Object.keys(patch));
    for (const key of keys) this.own.delete(key);
    if (filters(patch)) this.tab.ask();
  }

  /**
   * Mark the line of source that what is under the pointer ran for; empty for none.
   * @param {string} line
   */
  hover(line) {
    if (line === this.line) return;
    this.line = line;
    this.tab.shown?.hover(line);
  }

  theme() {
    this.tab.theme();
  }

  close() {
    this.tab.close();
  }

  snapshot() {
    return {
      open: this.open,
      ...this.tab.snapshot(),
      missing: [...this.known.values()].filter((tab) => tab.missing).map((tab) => tab.name),
    };
  }

  /**
   * @param {number} part
   * @param {number} index
   */
  locate(part, index) {
    return this.tab.shown?.locate(part, index) ?? null;
  }
}

/**
 * The table too may take the whole width: one button serves both.
 * @param {HTMLElement} row
 */
function widenButton(row) {
  const button = document.createElement('button');
  button.className = 'nbp-widen';
  const write = () => {
    const wide = row.classList.contains('nbp-wide');
    button.textContent = wide ? '⤡ narrow' : '⤢ wide';
    button.title = wide ? 'put the step phases beside it again' : 'take the whole width; the step phases go below';
    button.setAttribute('aria-pressed', String(wide));
  };
  button.addEventListener('click', () => {
    row.classList.toggle('nbp-wide');
    write();
  });
  write();
  return button;
}

/**
 * @param {HTMLElement} rail
 * @param {string} label
 */
function tabList(rail, label) {
  const list = element('div', '', rail);
  list.setAttribute('role', 'tablist');
  list.setAttribute('aria-label', label);
  list.setAttribute('aria-orientation', 'vertical');
  return list;
}
