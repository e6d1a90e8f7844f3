// The verdict, and what cannot be trusted: the lines of Profile.headline, in pieces as service/headline.py cuts them.

import {textElement} from '../shared/elements.js';

/** What is known of the run before, and certain, is not folded. */
const SURE_CHANGE = /^[\d.,]+ % (faster|slower) than /;

/**
 * @typedef {(select: SelectionPatch) => void} Pick
 * @typedef {HTMLAnchorElement & {nbpSelect: SelectionPatch}} Claim
 */

/**
 * A line, and those that it opens. No <summary>: a control must not lie in another, and the line has links.
 * @param {HeadlinePiece[]} first
 * @param {HeadlinePiece[][]} rest
 * @param {Pick} [pick]
 */
function foldable(first, rest, pick) {
  const box = textElement('div', 'nbp-verdict', ''),
    line = textElement('div', 'nbp-line', ''),
    more = rest.map((pieces) => {
      const one = document.createElement('div');
      one.append(...piecesOf(pieces, pick));
      one.hidden = true;
      return one;
    });
  if (rest.length) line.append(opener(box, line, more));
  const text = document.createElement('span');
  text.append(...piecesOf(first, pick));
  line.append(text);
  box.append(line, ...more);
  return box;
}

/**
 * The button that opens the rest of a line; a click on the line itself does so, too.
 * @param {HTMLElement} box
 * @param {HTMLElement} line
 * @param {HTMLElement[]} more
 */
function opener(box, line, more) {
  const button = textElement('button', 'nbp-fold', '▸');
  const show = (/** @type {boolean} */ open) => {
    box.classList.toggle('nbp-open', open);
    for (const one of more) one.hidden = !open;
    button.textContent = open ? '▾' : '▸';
    button.setAttribute('aria-expanded', String(open));
    button.setAttribute('aria-label', open ? 'less' : 'more');
  };
  line.classList.add('nbp-opens');
  line.addEventListener('click', () => show(!box.classList.contains('nbp-open')));
  show(false);
  return button;
}

/**
 * A line of the headline: texts, and links to the rows that prove a number. Text is text: names come from strangers' files.
 * @param {HeadlinePiece[]} line
 * @param {Pick} [pick]
 */
export function piecesOf(line, pick) {
  return line.flatMap(([text, select, code = '']) => (select && pick ? [claim(text, select, code, pick)] : code ? [number(text, code)] : withCode(text)));
}

/**
 * A text in which `code` is marked as such.
 * @param {string} text
 */
const withCode = (text) => text.split(/`([^`]+)`/).map((part, i) => (i % 2 ? textElement('code', '', part) : document.createTextNode(part)));

/**
 * A number that selects nothing.
 * @param {string} text
 * @param {string} code
 */
function number(text, code) {
  const made = textElement('span', '', text);
  made.dataset.pandas = code;
  made.title = code;
  return made;
}

/**
 * @param {string} text
 * @param {SelectionPatch} select
 * @param {string} code
 * @param {Pick} pick
 */
function claim(text, select, code, pick) {
  const link = Object.assign(document.createElement('a'), {nbpSelect: select});
  link.className = 'nbp-claim';
  link.textContent = text;
  link.title = `show what this is of${code && `\nC copies it as pandas:\n${code}`}`;
  if (code) link.dataset.pandas = code;
  link.tabIndex = 0;
  link.setAttribute('role', 'button');
  link.setAttribute('aria-pressed', 'false');
  const act = (/** @type {Event} */ event) => {
    event.preventDefault(); // the line around it opens and closes by a click
    event.stopPropagation();
    pick(select);
  };
  link.addEventListener('click', act);
  link.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' || event.key === ' ') act(event);
  });
  return link;
}

/**
 * Make the elements of a headline.
 * @param {string} text
 * @param {HeadlinePiece[][]} [pieces]
 * @param {Pick} [pick]
 */
export function headlineOf(text, pieces, pick) {
  const lines = pieces ?? linesOf(text),
    change = lines.slice(1).find((line) => SURE_CHANGE.test(line.map(([part]) => part).join(''))),
    [first, ...rest] = lines.filter((line) => line !== change),
    trust = rest.findIndex(([[line]]) => /^[!✗] Trust/.test(line)),
    parts = [];
  if (first) parts.push(foldable(first, trust < 0 ? rest : rest.slice(0, trust), pick));
  if (change) {
    const line = textElement('div', 'nbp-verdict nbp-change', '');
    line.append(...piecesOf(change, pick));
    parts.splice(1, 0, line);
  }
  if (trust >= 0) {
    const warning = foldable(rest[trust], rest.slice(trust + 1), pick);
    warning.classList.add('nbp-trust');
    parts.push(warning);
  }
  return parts;
}

/**
 * The first line of source in the headline, such as `cell:8`, and what the headline says about it: what it waits for.
 * @param {HeadlinePiece[][]} [lines]
 * @returns {{line: string, pieces: HeadlinePiece[]} | null}
 */
export function becauseIn([first = []] = []) {
  const at = first.findIndex(([text]) => text.includes('`; ')),
    line = /^(.+?:\d+) {2}/.exec(first.find(([, select]) => select)?.[1]?.name?.[0] ?? '')?.[1];
  if (at < 0 || !line) return null;
  const [text] = first[at];
  return {line, pieces: [[text.slice(text.indexOf('`; ') + 3), null], ...first.slice(at + 1)]};
}

/**
 * @param {string} text
 * @returns {HeadlinePiece[][]}
 */
function linesOf(text) {
  return text
    .split('\n')
    .filter(Boolean)
    .map((line) => [[line, null]]);
}

/**
 * The links in a headline.
 * @param {Element} headline
 */
export const claimsIn = (headline) => /** @type {NodeListOf<Claim>} */ (headline.querySelectorAll('.nbp-claim'));
