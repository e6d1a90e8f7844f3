// What slices of a report were called and launched with; unpacked when the first is asked for.
import {lowerBound} from '../shared/search.js';
import {inflateJson} from './file/inflate.js';

/**
 * Make the function that gives the arguments of a slice.
 * @param {ReportArguments | null} told
 * @returns {(i: number) => Promise<Partial<SliceDetail>>}
 */
export function createLocalArguments(told) {
  if (!told) return async () => ({arguments: []});
  const {row, code} = told.columns;
  /** @type {Promise<[string, string][][]> | null} */
  let texts = null;
  return async (i) => {
    const at = lowerBound(row, 0, row.length, i);
    if (row[at] !== i) return {arguments: [], left: told.left};
    return {arguments: (await (texts ??= inflateJson(told.texts)))[code[at]]};
  };
}
