// The verdict, and what cannot be trusted: the lines of Profile.headline, in pieces as service/headline.py cuts them.

/**
 * @typedef {(select: SelectionPatch) => void} Pick
 * @typedef {HTMLAnchorElement & {nbpSelect: SelectionPatch}} Claim
 */

/**
 * @param {HeadlinePiece[]} first
 * @param {HeadlinePiece[][]} rest
 * @param {Pick} [pick]
 */
function foldable(first, rest, pick) {
  const box = document.createElement(rest.length ? 'details' : 'div');
  box.className = 'nbp-verdict';
  const head = document.createElement(rest.length ? 'summary' : 'span');
  head.append(...piecesOf(first, pick));
  box.append(head);
  for (const line of rest) {
    const p = document.createElement('div');
    p.append(...piecesOf(line, pick));
    box.append(p);
  }
  return box;
}

/**
 * A line of the headline: texts, and links to the rows that prove a number. Text is text: names come from strangers' files.
 * @param {HeadlinePiece[]} line
 * @param {Pick} [pick]
 */
function piecesOf(line, pick) {
  return line.map(([text, select]) => (select && pick ? claim(text, select, pick) : document.createTextNode(text)));
}

/**
 * @param {string} text
 * @param {SelectionPatch} select
 * @param {Pick} pick
 */
function claim(text, select, pick) {
  const link = Object.assign(document.createElement('a'), {nbpSelect: select});
  link.className = 'nbp-claim';
  link.textContent = text;
  link.title = 'show what this is of';
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
    [first, ...rest] = lines,
    trust = rest.findIndex(([[line]]) => /^[!✗] Trust/.test(line)),
    parts = [];
  if (first) parts.push(foldable(first, trust < 0 ? rest : rest.slice(0, trust), pick));
  if (trust >= 0) {
    const warning = foldable(rest[trust], rest.slice(trust + 1), pick);
    warning.classList.add('nbp-trust');
    parts.push(warning);
  }
  return parts;
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
