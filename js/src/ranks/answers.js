// The answers of the ranks' page in a report: sums of all ranks, added up under the selection.
// Python's twins are ranks/page/selected_tables.py and columns.py; tests/unit/test_page_twins.py holds them together.
import {bars, bubbles, createTalk, heat, late, lateRows, links, marey} from './figures.js';
import {rankTable} from './rank_table.js';
import {scopeOf} from './sums.js';

/**
 * Make the function that draws all figures and the table under a selection.
 * @param {RankSums} given
 * @returns {(state: SelectionState) => RanksAnswer}
 */
export function createRankAnswers(given) {
  const talk = createTalk(given);
  /** @type {Record<RankFigure, (scope: import('./sums.js').Scope) => RankPanelAnswer>} */
  const make = {
    bars: (scope) => bars(given, scope),
    late: (scope) => late(given, scope),
    heat: (scope) => heat(given, scope),
    marey: (scope) => marey(given, scope),
    talk,
    links: (scope) => links(given, scope),
    bubbles: (scope) => bubbles(given, scope),
  };
  return (state) => {
    const scope = scopeOf(given, state),
      panels = Object.fromEntries(given.panels.map((name) => [name, make[name](scope)]));
    for (const [name, panel] of Object.entries(panels))
      if (given.notes[name] && !panel.sources[`${name}_data`].alpha.length) panel.note = given.notes[name];
    return {panels, table: rankTable(given, scope, lateRows(given, scope))};
  };
}

/**
 * Make the transport of a report of ranks.
 * @param {RankSums} given
 * @param {Store} store
 * @param {ReturnType<typeof import('./timelines.js').createLocalTimelines>} timelines
 * @returns {Transport}
 */
export function createLocalRanks(given, store, timelines) {
  const drawn = createRankAnswers(given);
  return {
    async request(message) {
      if (message.of !== undefined) return timelines.ask(message);
      let content;
      const began = performance.now();
      try {
        content = message.t === 'open' ? await timelines.open(/** @type {{ranks: number[]} & Message} */ (message)) : drawn(store.get());
      } catch (error) {
        content = {failed: String(error)};
      }
      return {content: {...content, columns: [], seq: /** @type {number} */ (message.seq), ms: performance.now() - began}, buffers: []};
    },
  };
}
