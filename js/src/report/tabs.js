// Tabs in a report: worked out once, of the whole recording, when the file was written.
import {reply} from '../shared/packing.js';
import {inflateJson} from './file/inflate.js';

/**
 * Make the answer `panel`.
 * @param {Pick<ReportData, 'panels'>} given
 */
export function createLocalPanel(given) {
  /** @param {{name: string}} q */
  return async ({name}) => {
    const {data: text} = given.panels.tabs[name] ?? {};
    if (!text) return reply({name, absent: 'This tab is not in this file: open the profile in a notebook to see it.'});
    const {content, data} = await inflateJson(text);
    if (!given.panels.focus)
      // rows of the recording are not those of this file, which holds a part of it
      for (const part of /** @type {TabPart[]} */ (content.parts)) {
        const patches = part.kind === 'cards' ? part.cards.map((card) => card.select) : part.kind === 'table' ? part.select : [];
        for (const patch of patches ?? []) if (patch) delete patch.focus;
      }
    const columns = Object.entries(/** @type {Record<string, (number | null)[]>} */ (data));
    return reply({...content, whole: true}, Object.fromEntries(columns.map(([key, values]) => [key, Float64Array.from(values, (x) => x ?? NaN)])));
  };
}
