// What the page of a comparison shows of phases and of the source: bars to both sides, and lines with their difference.
import {textElement} from '../shared/elements.js';
import {isPicked} from '../shared/store.js';
import {formatDelta, formatTimeCell} from '../shared/units.js';
import {deltaClass} from '../tabs/table.js';
import {walked} from '../tabs/walk.js';

/**
 * @typedef {import('../tabs/walk.js').Item} Item
 * @typedef {import('../tabs/walk.js').Pick} Pick
 */

/**
 * A difference in a cell, pale within the noise.
 * @param {'td' | 'span'} tag
 * @param {number} delta
 * @param {boolean} sure
 */
function deltaCell(tag, delta, sure) {
  const cell = textElement(tag, `nbp-number ${deltaClass(delta, sure)}`, `${sure || !delta ? '' : '≈ '}${formatDelta(delta)}`);
  if (!sure) cell.title = 'within the noise';
  return cell;
}

/**
 * Mark what is selected.
 * @param {Item[]} items
 * @param {SelectionState} state
 */
export function markPicked(items, state) {
  for (const {el, select} of items) el.setAttribute('aria-selected', String(select !== null && isPicked(state, select)));
}

/**
 * Phases of both sides as bars to the left and to the right.
 * @param {ComparedPhase[]} phases
 * @param {[string, string]} names
 * @param {string} delta the heading of differences
 * @param {Pick} pick
 */
export function butterfly(phases, names, delta, pick) {
  const list = document.createElement('table'),
    head = document.createElement('thead'),
    titles = document.createElement('tr'),
    body = document.createElement('tbody'),
    most = Math.max(1, ...phases.flatMap(({a_ns, b_ns}) => [a_ns, b_ns]));
  list.className = 'nbp-butterfly';
  list.setAttribute('role', 'grid');
  list.setAttribute('aria-label', 'phases of a mean step on both sides');
  for (const text of [names[0], 'phase', names[1], delta]) {
    const cell = textElement('th', '', text);
    cell.scope = 'col';
    titles.append(cell);
  }
  head.append(titles);
  /** @type {Item[]} */
  const items = phases.map(({phase, a_ns, b_ns, delta_ns: difference, sure, colour}) => {
    const el = document.createElement('tr');
    const name = textElement('td', 'nbp-wing-name', phase);
    name.title = phase;
    el.append(barCell(a_ns, most, colour, 'nbp-left-bar'), name, barCell(b_ns, most, colour, 'nbp-right-bar'), deltaCell('td', difference, sure));
    el.classList.add('nbp-pickable');
    body.append(el);
    return {el, select: {phase: [phase], name: null, line: null}};
  });
  list.append(head, body);
  walked(body, items, pick);
  return {element: list, items};
}

/**
 * @param {number} ns
 * @param {number} most
 * @param {string} colour
 * @param {string} side
 */
function barCell(ns, most, colour, side) {
  const cell = textElement('td', side, ''),
    line = textElement('div', '', ''),
    bar = document.createElement('i');
  bar.style.width = `${(100 * ns) / most}%`;
  bar.style.background = colour;
  line.append(bar, textElement('span', '', formatTimeCell(ns)));
  cell.append(line);
  return cell;
}

/**
 * The source of b with what is gone from a where it was, and what each line costs more or less a step.
 * @param {ComparedLine[]} lines
 * @param {[string, string]} names
 * @param {string} heading of differences
 * @param {Pick} pick
 */
export function sourceDiff(lines, names, heading, pick) {
  const table = document.createElement('table'),
    head = document.createElement('thead'),
    titles = document.createElement('tr'),
    body = document.createElement('tbody'),
    most = Math.max(1, ...lines.map(({delta_ns}) => Math.abs(delta_ns ?? 0)));
  table.className = 'nbp-diff';
  table.setAttribute('role', 'grid');
  table.setAttribute('aria-label', 'source of both sides, with the difference of each line');
  for (const [text, name] of [[names[0], 'nbp-number'], [names[1], 'nbp-number'], [heading, 'nbp-number'], ['source', 'nbp-code']]) {
    const cell = textElement('th', name, text);
    cell.scope = 'col';
    titles.append(cell);
  }
  head.append(titles);
  /** @type {Item[]} */
  const items = lines.map(({change, a_line: a, b_line: b, text, delta_ns: delta, sure, line}) => {
    const el = document.createElement('tr'),
      code = textElement('td', 'nbp-code', `${{new: '+', gone: '−', changed: '~', same: ' '}[change]} ${text}`),
      cost = delta === null ? textElement('td', '', '') : deltaCell('td', delta, sure);
    if (delta) {
      cost.classList.add('nbp-delta-bar');
      cost.style.setProperty('--nbp-share', `${(100 * Math.abs(delta)) / most}%`);
    }
    code.title = text.trim();
    el.append(textElement('td', 'nbp-number', String(a ?? '')), textElement('td', 'nbp-number', String(b ?? '')), cost, code);
    el.classList.add(`nbp-line-${change}`);
    el.classList.toggle('nbp-pickable', line !== null);
    body.append(el);
    return {el, select: line === null ? null : {line: [line], name: null, phase: null}};
  });
  table.append(head, body);
  walked(body, items, pick);
  return {element: table, items};
}
