// The elements of the page of a comparison.
import {element, textElement} from '../shared/elements.js';
import {SIDES} from './side_store.js';

/**
 * Which of several recordings is shown; nothing of a single one. Numbers are those of Python.
 * @param {number} run
 * @param {number} count
 */
export const runText = (run, count) => (count > 1 ? `run ${run} (of ${count}, counted from 0)` : '');

/**
 * Make the elements of the page.
 * @param {HTMLElement} el
 * @param {ComparisonSettings} settings
 */
export function skeleton(el, {names, runs, shown}) {
  const root = element('div', 'nbp nbp-comparison nbp-loading', el);
  root.tabIndex = 0;
  root.setAttribute('role', 'region');
  root.setAttribute('aria-label', `comparison of ${names[0]} and ${names[1]}: timelines, differences, phases, stacks and source`);
  root.dataset.view = 'both';
  const head = element('div', 'nbp-head', root),
    trouble = element('div', 'nbp-trouble', root),
    bar = element('div', 'nbp-bar', root),
    pair = element('div', 'nbp-pair', root),
    sides = SIDES.map((side) => element('div', `nbp-compared nbp-compared-${side}`, pair)),
    titles = sides.map((box, i) => {
      const title = element('div', 'nbp-compared-title', box);
      element('i', `nbp-swatch nbp-swatch-${SIDES[i]}`, title);
      title.append(textElement('strong', '', names[i]), textElement('span', 'nbp-muted', runText(shown[i], runs[SIDES[i]].length)));
      return title;
    }),
    timelines = sides.map((box) => element('div', 'nbp-figure nbp-timeline', box)),
    detail = element('div', 'nbp-compared-detail', root),
    memoryTitle = element('div', 'nbp-compared-title', root),
    memory = element('div', 'nbp-figure nbp-memory nbp-memory-pair', root),
    below = element('div', 'nbp-differences', root);
  trouble.setAttribute('role', 'alert');
  trouble.hidden = true;
  return {
    root, head, trouble, bar, pair, titles, timelines, detail, memoryTitle, memory, below,
    narrow: element('div', 'nbp-difference-lists', below),
    wide: element('div', 'nbp-difference-tables', below),
    pictures: element('div', 'nbp-difference-pictures', root),
  };
}
