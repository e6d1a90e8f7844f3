// Tabs in a report: worked out once, of the whole recording, when the file was written.
import {reply} from '../shared/packing.js';
import {inflateJson} from './file/inflate.js';

/**
 * Under which name the text of a tab for these choices lies. Twin of views/report/tabs.py.
 * @param {Record<string, string>} choices
 */
const choiceKey = (choices) =>
  ['data', ...Object.keys(choices).sort().map((key) => `${key}=${choices[key]}`)].join(' ');

/**
 * Read an answer as `answer_text` of views/report/tabs.py writes it.
 * @param {string} text
 * @returns {Promise<{content: any, columns: NumberColumns}>}
 */
export async function packedAnswer(text) {
  const {content, data} = await inflateJson(text),
    columns = Object.entries(/** @type {Record<string, (number | null)[]>} */ (data));
  return {content, columns: Object.fromEntries(columns.map(([key, values]) => [key, Float64Array.from(values, (x) => x ?? NaN)]))};
}

/**
 * Make the answer `panel`.
 * @param {Pick<ReportData, 'panels'>} given
 */
export function createLocalPanel(given) {
  /** @param {{name: string, choices?: Record<string, string>}} q */
  return async ({name, choices = {}}) => {
    const {[choiceKey(choices)]: text} = given.panels.tabs[name] ?? {};
    if (!text) return reply({name, absent: 'This tab is not in this file: open the profile in a notebook to see it.'});
    const {content, columns} = await packedAnswer(text);
    if (!given.panels.focus)
      // rows of the recording are not those of this file, which holds a part of it
      for (const part of /** @type {TabPart[]} */ (content.parts ?? [])) {
        const patches = part.kind === 'cards' ? part.cards.map((card) => card.select) : part.kind === 'table' ? part.select : [];
        patches?.forEach((patch, i) => {
          delete patch?.focus;
          if (part.kind === 'table' && part.select && !Object.keys(patch ?? {}).length) part.select[i] = null;
        });
      }
    return reply({...content, whole: true}, columns);
  };
}
