// What if, in a report: answers of the kernel at a few factors, worked out when the file was written.
// Python's twin is service/answers/what_if.py; tests/unit/test_page_twins.py holds them together.
import {reply} from '../shared/packing.js';
import {inflateJson} from './file/inflate.js';

/** @type {('name' | 'line' | 'phase' | 'category')[]} */
const SCALED = ['name', 'line', 'phase', 'category'],
  /** @type {('step' | 'window' | 'track' | 'rank' | 'group')[]} */
  OTHERS = ['step', 'window', 'track', 'rank', 'group'];

/**
 * Why a selection cannot be asked about; empty where it can.
 * @param {SelectionState} state
 */
function refusal(state) {
  const scaled = SCALED.filter((dimension) => state[dimension]?.length),
    others = OTHERS.filter((dimension) => state[dimension]?.length);
  if (!scaled.length) return 'Select a name, a line, a phase or a category first: a row of the table, or a slice by double-click.';
  if (scaled.length > 1) return `Select by one of ${scaled.join(' and ')}: what_if takes one factor for each.`;
  if (others.length) return `Replays in this file are of the whole recording: remove the ${others.join(' and the ')} from the selection.`;
  return '';
}

/**
 * Make the answer `what_if`.
 * @param {Pick<ReportData, 'panels'>} given
 */
export function createLocalWhatIf(given) {
  const {replays} = given.panels;
  /** @type {Promise<ReportReplays> | null} */ let answers = null;
  /**
   * @param {{factor: number}} q
   * @param {SelectionState} state
   */
  return async ({factor}, state) => {
    const text = refusal(state);
    if (text || !replays?.factors.length) return reply({found: false, text: text || (replays?.left ?? '')});
    answers ??= inflateJson(replays.answers);
    const all = await answers,
      dimension = SCALED.find((one) => state[one]?.length) ?? 'name',
      key = [...(state[dimension] ?? [])].sort().join('\n'),
      answer = all[dimension]?.[key]?.[replays.factors.indexOf(factor)];
    return reply(answer ? {...answer} : {found: false, text: replays.left});
  };
}
