// The parts of a tab: notes, facts, cards, tables, pictures. All text is text: names come from strangers' files.
import {textElement} from '../shared/elements.js';
import {columnsOf} from '../shared/packing.js';
import {isPicked} from '../shared/store.js';
import {Picture} from './picture.js';
import {SourceView} from './source.js';
import {StackView} from './stack.js';
import {PartTable} from './table.js';
import {TreeView} from './tree.js';
import {walked} from './walk.js';

/**
 * @typedef {import('./walk.js').Pick} Pick
 *
 * @typedef {object} Part
 * @property {HTMLElement} element
 * @property {() => Promise<void>} [mount]
 * @property {() => void} [redraw] marks anew what is selected
 * @property {(line: string) => void} [hover] tells which line of source is under the pointer elsewhere
 * @property {(box: HTMLElement) => void} [reveal] scrolls to what matters most, when it is shown first
 * @property {() => void} [theme]
 * @property {() => void} [dispose]
 * @property {() => {drawn: boolean, renderers: number[], labels: import('./fitted_labels.js').FittedLabel[]}} [snapshot]
 * @property {(index: number) => Point | null} [locate]
 */

/**
 * Make the parts of an answer.
 * @param {Context} ctx
 * @param {PanelAnswer | NoPanel} answer
 * @param {Pick} pick
 */
export function createParts(ctx, answer, pick) {
  /** @type {ShownPart[]} */
  const parts = 'absent' in answer
    ? [{kind: 'absent', text: answer.absent}]
    : answer.parts.map((part, i) => ({...part, columns: columnsOf(answer.data, i)}));
  const beside = parts.find((part) => part.kind === 'stack'),
    stack = beside ? new StackView(beside) : null,
    state = 'whole' in answer && answer.whole ? {} : ctx.store.get(),
    made = parts.map((part) => partOf(ctx, part, pick, stack, state));
  return {
    kinds: parts.map((part) => part.kind),
    elements: arranged(made, stack),
    mount: () => Promise.all(made.map((part) => part.mount?.())),
    redraw: () => made.forEach((part) => part.redraw?.()),
    hover: (/** @type {string} */ line) => made.forEach((part) => part.hover?.(line)),
    reveal: (/** @type {HTMLElement} */ box) => made.find((part) => part.reveal)?.reveal?.(box),
    theme: () => made.forEach((part) => part.theme?.()),
    dispose: () => made.forEach((part) => part.dispose?.()),
    snapshot: () => made.filter((part) => part.snapshot).map((part) => part.snapshot?.()),
    /**
     * @param {number} part
     * @param {number} index
     */
    locate: (part, index) => made.filter((one) => one.locate)[part]?.locate?.(index) ?? null,
  };
}

/**
 * Elements from above; a stack stands beside what is above it.
 * @param {Part[]} made
 * @param {StackView | null} stack
 */
function arranged(made, stack) {
  const elements = made.map((part) => part.element),
    at = stack ? elements.indexOf(stack.element) : 0;
  if (at < 1) return elements;
  const pair = textElement('div', 'nbp-beside', '');
  pair.append(elements[at - 1], elements[at]);
  return [...elements.slice(0, at - 1), pair, ...elements.slice(at + 1)];
}

/**
 * @param {Context} ctx
 * @param {ShownPart} part
 * @param {Pick} pick
 * @param {StackView | null} stack
 * @param {SelectionState} state the selection it was computed for
 * @returns {Part}
 */
function partOf(ctx, part, pick, stack, state) {
  switch (part.kind) {
    case 'absent':
      return {element: textElement('p', 'nbp-empty', part.text)};
    case 'note':
      return {element: textElement('p', part.warns ? 'nbp-part-note nbp-warns' : 'nbp-part-note', part.text)};
    case 'facts':
      return factsPart(part);
    case 'cards':
      return cardsPart(ctx, part, pick);
    case 'table':
      return new PartTable(ctx, part, pick);
    case 'source':
      return new SourceView(ctx, part, pick, state);
    case 'tree':
      return new TreeView(ctx, part, pick, stack);
    case 'stack':
      return stack ?? new StackView(part);
    case 'picture':
      return new Picture(ctx, part, pick);
  }
}

/** @param {FactsPart} part */
function factsPart({facts}) {
  const list = textElement('div', 'nbp-facts', '');
  list.setAttribute('role', 'list');
  for (const {label, value, note} of facts) {
    const one = textElement('div', 'nbp-one-fact', '');
    one.setAttribute('role', 'listitem');
    one.append(textElement('div', 'nbp-fact-label', label), textElement('div', 'nbp-fact-value', value));
    if (note) one.append(textElement('div', 'nbp-fact-label', note));
    list.append(one);
  }
  return {element: list};
}

/**
 * @param {Context} ctx
 * @param {CardsPart} part
 * @param {Pick} pick
 */
function cardsPart(ctx, {cards}, pick) {
  const list = textElement('div', 'nbp-cards', '');
  list.setAttribute('role', 'listbox');
  const items = cards.map((card) => {
    const el = textElement('div', 'nbp-card', ''),
      head = textElement('div', 'nbp-card-head', '');
    el.setAttribute('role', 'option');
    head.append(textElement('strong', '', card.title), textElement('span', 'nbp-badge', card.badge));
    if (card.select) head.append(textElement('span', 'nbp-card-action', ''));
    el.append(head, ...card.lines.map((line) => textElement('p', '', line)));
    el.classList.toggle('nbp-pickable', Boolean(card.select));
    list.append(el);
    return {el, select: card.select};
  });
  const redraw = () => {
    for (const {el, select} of items) {
      const taken = select !== null && isPicked(ctx.store.get(), select),
        action = el.querySelector('.nbp-card-action');
      el.setAttribute('aria-selected', String(taken));
      if (action) action.textContent = taken ? 'selected' : 'show evidence';
    }
  };
  list.setAttribute('aria-label', 'findings');
  walked(list, items, pick);
  redraw();
  return {element: list, redraw};
}
