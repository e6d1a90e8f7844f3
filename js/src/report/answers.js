// The kernel's answers, computed in the page from the columns of a report: same questions, same content.
// Python's twin of every function is in service/answers and service/detail; tests/unit/test_page_twins.py holds them together.
import {reply} from '../shared/packing.js';
import {createIndex, createMatching, createNesting, parentsOf} from './columns.js';
import {counters, memory} from './curves.js';
import {createDetailAnswer} from './detail.js';
import {createLocalCalls, createLocalFind} from './find.js';
import {createResidualAggregates} from './residual/aggregates.js';
import {phases} from './phases.js';
import {createLocalSelected} from './selected.js';
import {createLocalTable} from './table.js';
import {createLocalPanel} from './tabs.js';
import {createTimelineAnswers} from './timeline.js';

/**
 * What the answers are worked out from.
 * @typedef {object} Report
 * @property {ReportColumns} columns
 * @property {ReportData} given
 * @property {import('./columns.js').RowIndex} index
 * @property {import('./columns.js').Nesting} nested
 * @property {import('./residual/aggregates.js').ResidualAggregates | null} left
 * @property {Matching} matching
 * @property {Int32Array} parent the slice around each, -1 at the top
 * @property {(state: SelectionState, without: string[]) => CrumbMask} leftMatching
 *
 * @typedef {(q: any, state: SelectionState) => RawAnswer | Promise<RawAnswer>} Answering
 */

/**
 * Make the answers to all questions.
 * @param {ReportColumns} columns
 * @param {ReportData} given
 * @returns {Record<string, Answering>}
 */
export function createAnswers(columns, given) {
  const left = createResidualAggregates(given),
    nested = createNesting(columns, given),
    index = columns.nested ? createIndex(columns, given.trackOfRow) : nested.index,
    matching = createMatching(columns, given);
  /** @type {Report} */
  const report = {
    columns,
    given,
    index,
    nested,
    left,
    matching,
    parent: parentsOf(columns, nested),
    leftMatching: (state, without) => left?.shares(state, without) ?? null,
  };
  const finding = createLocalFind(report),
    table = createLocalTable(report);
  return {
    meta: () => reply({...given.meta}, {...given.steps}),
    account: () => reply(given.account.content, given.account.data),
    names: () => reply({start: 0, names: given.names, short: given.short, next: null}, {colour: given.colours}),
    ...createTimelineAnswers(report, finding.foundAmong),
    legend: (q) => reply({items: [], more: 0, ...given.legends[/** @type {Tint} */ (q.tint)]}),
    counters: (q) => counters(given, q),
    table,
    calls: createLocalCalls(report, table),
    memory: (q, state) => memory(given, q, state, matching, report.leftMatching),
    phases: (_, state) => phases(report, state),
    selected: createLocalSelected(report),
    detail: createDetailAnswer(report),
    path: () => reply({...given.path.content}, given.path.data),
    ...finding.answers,
  };
}

/**
 * What Python works out, as far as it lies in a file.
 * @param {ReportData} given
 * @returns {Record<string, Answering>}
 */
export const fileAnswers = (given) => ({
  what_if: () => reply({found: false, text: 'What if is worked out in Python: open the recording there, and ask p.what_if(…).'}),
  why: () => reply({found: false, lines: ['Why is worked out in Python: open the recording there, and ask p.why(time, track).']}),
  panel: createLocalPanel(given),
});

// All is worked out on the page's own thread: the hand first. What can wait comes one a frame, after the frame in which what
// was clicked shows; also the timeline's marks, where its picture stays (`picture`).
const CAN_WAIT = ['table', 'strip', 'phases', 'memory', 'counters', 'selected'];

/** @returns {Promise<void>} */
const painted = () => new Promise((done) => (document.hidden ? done() : requestAnimationFrame(() => setTimeout(done, 0))));

/**
 * Make a transport that answers in the page.
 * @param {ReportColumns} columns
 * @param {ReportData} given
 * @param {Store} store
 * @param {Record<string, Answering>} more answers to other questions
 */
export function createLocal(columns, given, store, more = {}) {
  const answers = {...createAnswers(columns, given), ...more};
  /** @type {Record<string, Answering> | null} */
  let unfolded = null;
  const answering = (/** @type {Message} */ q) => {
    if (!('unfolded' in q)) return answers[q.t];
    const {trackOfNestedRow: trackOfRow, meta} = given;
    unfolded ??= createAnswers({...columns, row: columns.nested ?? columns.row, nested: undefined}, {...given, trackOfRow, meta: {...meta, tracks: meta.unfolded}});
    return unfolded[q.t];
  };
  let turns = Promise.resolve();
  return {
    /** @param {string} kind */
    answers: (kind) => kind in answers,
    /**
     * @param {Message} q
     * @returns {Promise<RawAnswer>}
     */
    async request(q) {
      if (CAN_WAIT.includes(q.t) || 'picture' in q) await (turns = turns.then(painted));
      const began = performance.now();
      let answer;
      try {
        answer = await answering(q)(q, store.get());
      } catch (error) {
        answer = reply({failed: String(error)});
      }
      Object.assign(answer.content, {seq: q.seq, ms: performance.now() - began});
      return answer;
    },
  };
}
